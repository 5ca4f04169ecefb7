-- The rows of the index had not been noted (a virtual table returns -1 for them), so the words of deleted threads
-- stayed in it. It is made anew from the log.
DROP TABLE texts;
CREATE VIRTUAL TABLE texts USING fts5 (
    words, scope, text UNINDEXED, thread UNINDEXED, log UNINDEXED, place UNINDEXED, version UNINDEXED,
    tokenize = "unicode61 remove_diacritics 0", detail = 'full'
);
INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
DELETE FROM text_rows;
DELETE FROM indexed;
INSERT OR IGNORE INTO unindexed (thread) SELECT key FROM threads WHERE deleted = 0;
