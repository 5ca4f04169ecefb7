-- A thread (or log) key and a version (or place) share one 64-bit number. Items are appended in the order
-- they come, whatever their thread, so that a group of commits writes few pages; their index holds that
-- number only. A thread's row stays as it was made: its head is its last changeset.

CREATE TABLE threads (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL,
    counters BLOB NOT NULL,
    segments BLOB NOT NULL,
    parent_key INTEGER,
    title TEXT,
    labels BLOB NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX threads_by_id ON threads (tenant, id) WHERE deleted = 0;
CREATE INDEX threads_by_owner ON threads (tenant, owner, created, id) WHERE deleted = 0;
CREATE INDEX threads_by_time ON threads (tenant, created, id) WHERE deleted = 0;
CREATE INDEX threads_by_parent ON threads (parent_key) WHERE parent_key IS NOT NULL;

CREATE TABLE logs (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    thread INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (thread, name)
) STRICT;

CREATE TABLE changesets (
    at INTEGER PRIMARY KEY, -- thread << 32 | version
    time INTEGER NOT NULL,
    envelope BLOB NOT NULL,
    content BLOB,
    salt BLOB,
    hash BLOB NOT NULL,
    counters BLOB NOT NULL,
    erased BLOB,
    key_id TEXT,
    nonce BLOB
) STRICT;

CREATE VIEW heads AS
SELECT threads.key, tenant, id, owner, created, coalesce(changesets.time, updated) AS updated,
    coalesce(at & 0xFFFFFFFF, version) AS version, coalesce(changesets.hash, threads.hash) AS hash,
    coalesce(changesets.counters, threads.counters) AS counters, segments, parent_key, title, labels
FROM threads
LEFT JOIN changesets ON at = (
    SELECT max(at) FROM changesets WHERE at > (threads.key << 32) + threads.version AND at < ((threads.key + 1) << 32)
)
WHERE deleted = 0;

CREATE TABLE items (
    row INTEGER PRIMARY KEY,
    at INTEGER NOT NULL UNIQUE, -- log << 32 | place
    version INTEGER NOT NULL,
    time INTEGER NOT NULL,
    meta BLOB NOT NULL,
    body BLOB,
    salt BLOB,
    erased BLOB,
    key_id TEXT,
    nonce BLOB
) STRICT;

CREATE TABLE names (
    thread INTEGER NOT NULL,
    id TEXT NOT NULL,
    log INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (thread, id, log, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE cuts (
    log INTEGER NOT NULL,
    last INTEGER NOT NULL,
    version INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (log, last, version, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE anchors (
    at INTEGER PRIMARY KEY, -- thread << 32 | version
    state BLOB NOT NULL,
    key_id TEXT,
    nonce BLOB
) STRICT;

CREATE TABLE keys (
    thread INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    PRIMARY KEY (thread, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT,
    sort INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    tags BLOB NOT NULL,
    body BLOB NOT NULL,
    key_id TEXT,
    nonce BLOB,
    PRIMARY KEY (tenant, kind, id)
) STRICT;
CREATE INDEX records_by_sort ON records (tenant, kind, sort, id);

CREATE TABLE tags (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    tag TEXT NOT NULL,
    sort INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tenant, kind, tag, sort, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    owner TEXT,
    name TEXT,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    most INTEGER NOT NULL,
    status TEXT NOT NULL,
    token TEXT,
    until INTEGER NOT NULL,
    problem TEXT,
    body BLOB NOT NULL,
    key_id TEXT,
    nonce BLOB,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX jobs_by_due ON jobs (tenant, status, due, id);
CREATE UNIQUE INDEX jobs_by_name ON jobs (tenant, name) WHERE name IS NOT NULL AND status <> 'dead';

CREATE TABLE unindexed (
    thread INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE indexed (
    thread INTEGER PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;

-- The owner stands in the index as a term of its own, so a search touches nobody else's words.
CREATE VIRTUAL TABLE texts USING fts5 (
    words, scope, text UNINDEXED, thread UNINDEXED, log UNINDEXED, place UNINDEXED, version UNINDEXED,
    tokenize = "unicode61 remove_diacritics 0", detail = 'full'
);
INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
CREATE TABLE text_rows (
    thread INTEGER NOT NULL,
    log INTEGER NOT NULL,
    place INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (thread, log, place)
) STRICT, WITHOUT ROWID;
