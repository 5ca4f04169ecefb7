-- The signs of vectors lie in blocks, each of one owner, log and space: a search reads few rows, however many
-- vectors there are. A slot whose mark is zero is free; any other mark is that of its thread. The record of a
-- vector says where it lies: block << 10 | slot.
CREATE TABLE vector_blocks (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    log TEXT NOT NULL,
    owner TEXT,
    width INTEGER NOT NULL, -- bytes of signs in a slot
    free INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    marks BLOB NOT NULL,
    signs BLOB NOT NULL
) STRICT;
CREATE INDEX vector_blocks_by_scope ON vector_blocks (tenant, space, log, owner, width, free);
ALTER TABLE records ADD COLUMN place INTEGER;
CREATE UNIQUE INDEX records_by_place ON records (place) WHERE place IS NOT NULL;

-- Vectors that were made before lie in no block. Without these rows the next sweep makes them anew.
DELETE FROM tags WHERE kind = 'memory.vector' AND tag GLOB 'all of *';
DELETE FROM records WHERE kind = 'embedder' AND id = 'memory.vector';
