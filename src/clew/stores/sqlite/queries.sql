-- Every query that reads or changes what is there takes the tenant and the user. Rows below a thread are
-- added only after "advance" has found that thread in the caller's scope, in the same transaction.

-- name: thread
SELECT key, id, owner, created, updated, version, hash, counters, segments, parent_key, title, labels,
    (SELECT max(at) FROM changesets WHERE at > (key << 32) + version AND at < ((key + 1) << 32))
FROM threads
WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (:user IS NULL OR owner = :user);

-- name: versions
SELECT coalesce(
    (SELECT max(at) & 0xFFFFFFFF FROM changesets WHERE at > (key << 32) + version AND at < ((key + 1) << 32)),
    version
)
FROM threads
WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (:user IS NULL OR owner = :user);

-- name: head
SELECT time, at & 0xFFFFFFFF, hash, counters
FROM changesets
WHERE at = :at
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: anchor
SELECT at & 0xFFFFFFFF, state
FROM anchors
WHERE at > (:key << 32) AND at <= (:key << 32) + :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user))
ORDER BY at DESC
LIMIT 1;

-- name: changesets
SELECT at & 0xFFFFFFFF, time, envelope, content, salt, hash, counters, erased
FROM changesets
WHERE at > (:key << 32) + :after AND at <= (:key << 32) + :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user))
ORDER BY at
LIMIT :limit;

-- name: items
SELECT at & 0xFFFFFFFF, version, time, meta, body
FROM items
WHERE at > (:log << 32) + :above AND at < (:log << 32) + :below AND version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user))
ORDER BY at
LIMIT :limit;

-- name: items_backwards
SELECT at & 0xFFFFFFFF, version, time, meta, body
FROM items
WHERE at > (:log << 32) + :above AND at < (:log << 32) + :below AND version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user))
ORDER BY at DESC
LIMIT :limit;

-- name: items_whole
SELECT at & 0xFFFFFFFF, version, time, meta, body, salt, erased
FROM items
WHERE at > (:log << 32) + :above AND at < (:log << 32) + :below AND version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user))
ORDER BY at
LIMIT :limit;

-- name: cuts
SELECT first, last, version, count
FROM cuts
WHERE log = :log AND last >= :first AND first <= :last AND version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: named
SELECT logs.name, items.at & 0xFFFFFFFF, items.version, items.time, items.meta, items.body, items.salt, items.erased
FROM names
JOIN logs ON logs.key = names.log
JOIN items ON items.at = (names.log << 32) + names.place
WHERE names.thread = :key AND names.id = :id AND items.version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: key
SELECT version, fingerprint
FROM keys
WHERE thread = :key AND name = :name
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: record
SELECT kind, id, owner, sort, revision, tags, body
FROM records
WHERE tenant = :tenant AND kind = :kind AND id = :id AND (:user IS NULL OR owner = :user);

-- name: records
SELECT kind, id, owner, sort, revision, tags, body
FROM records
WHERE tenant = :tenant AND kind = :kind AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner)
    AND sort >= :since AND sort <= :upto AND (sort, id) > (:after_sort, :after_id)
ORDER BY sort, id
LIMIT :limit;

-- name: records_newest
SELECT kind, id, owner, sort, revision, tags, body
FROM records
WHERE tenant = :tenant AND kind = :kind AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner)
    AND sort >= :since AND sort <= :upto AND (:after_id IS NULL OR (sort, id) < (:after_sort, :after_id))
ORDER BY sort DESC, id DESC
LIMIT :limit;

-- name: records_tagged
SELECT records.kind, records.id, owner, records.sort, revision, tags, body
FROM tags
JOIN records USING (tenant, kind, id)
WHERE tenant = :tenant AND kind = :kind AND tags.tag = :tag AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner)
    AND tags.sort >= :since AND tags.sort <= :upto AND (tags.sort, tags.id) > (:after_sort, :after_id)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:others) AS other
        WHERE NOT EXISTS (
            SELECT 1 FROM tags AS more
            WHERE more.tenant = records.tenant AND more.kind = records.kind AND more.tag = other.value
                AND more.sort = records.sort AND more.id = records.id
        )
    )
ORDER BY tags.sort, tags.id
LIMIT :limit;

-- name: records_tagged_newest
SELECT records.kind, records.id, owner, records.sort, revision, tags, body
FROM tags
JOIN records USING (tenant, kind, id)
WHERE tenant = :tenant AND kind = :kind AND tags.tag = :tag AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner)
    AND tags.sort >= :since AND tags.sort <= :upto
    AND (:after_id IS NULL OR (tags.sort, tags.id) < (:after_sort, :after_id))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:others) AS other
        WHERE NOT EXISTS (
            SELECT 1 FROM tags AS more
            WHERE more.tenant = records.tenant AND more.kind = records.kind AND more.tag = other.value
                AND more.sort = records.sort AND more.id = records.id
        )
    )
ORDER BY tags.sort DESC, tags.id DESC
LIMIT :limit;

-- name: records_of
SELECT kind, id, owner, sort, revision, tags, body
FROM records
WHERE tenant = :tenant AND owner = :owner AND (:user IS NULL OR owner = :user)
    AND kind NOT IN (SELECT value FROM json_each(:without))
ORDER BY kind, id
LIMIT :limit;

-- name: records_about
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM records WHERE tenant = :tenant
    UNION ALL
    SELECT (SELECT min(records.kind) FROM records WHERE tenant = :tenant AND records.kind > kinds.kind)
    FROM kinds
    WHERE kinds.kind IS NOT NULL
),
found (kind, id) AS (
    SELECT kinds.kind, value FROM kinds CROSS JOIN json_each(:names)
    UNION
    SELECT kinds.kind, tags.id FROM kinds CROSS JOIN json_each(:names) AS name
    CROSS JOIN tags ON tags.tenant = :tenant AND tags.kind = kinds.kind AND tags.tag = name.value
)
SELECT records.kind, records.id, owner, sort, revision, tags, body
FROM found
CROSS JOIN records ON records.tenant = :tenant AND records.kind = found.kind AND records.id = found.id
WHERE :user IS NULL OR owner = :user;

-- name: sizes
SELECT
    (SELECT count(*) FROM changesets WHERE at > (:key << 32) AND at < ((:key + 1) << 32)),
    (
        SELECT count(*) FROM logs
        JOIN items ON items.at > (logs.key << 32) AND items.at < ((logs.key + 1) << 32)
        WHERE logs.thread = :key
    ),
    (SELECT count(*) FROM anchors WHERE at > (:key << 32) AND at < ((:key + 1) << 32)),
    (SELECT count(*) FROM keys WHERE thread = :key),
    (SELECT count(*) FROM text_rows WHERE thread = :key)
FROM threads
WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user);

-- name: tenants
WITH RECURSIVE found (tenant) AS (
    SELECT ''
    UNION ALL
    SELECT (
        SELECT min(tenant) FROM (
            SELECT min(tenant) AS tenant FROM threads WHERE deleted = 0 AND tenant > found.tenant
            UNION ALL
            SELECT min(tenant) FROM records WHERE tenant > found.tenant
            UNION ALL
            SELECT min(tenant) FROM jobs WHERE tenant > found.tenant
        )
    )
    FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT tenant
FROM found
WHERE tenant <> '' AND :user IS NULL AND :tenant = :tenant;

-- name: job
SELECT id, kind, owner, name, due, attempts, most, status, token, until, problem, body
FROM jobs
WHERE tenant = :tenant AND id = :id AND (:user IS NULL OR owner = :user);

-- name: jobs
SELECT id, kind, owner, name, due, attempts, most, status, token, until, problem, body
FROM jobs
WHERE tenant = :tenant AND (:user IS NULL OR owner = :user) AND (:status IS NULL OR status = :status)
ORDER BY due, id
LIMIT :limit;

-- name: threads
SELECT key, id, owner, created, updated, version, hash, counters, segments, parent_key, title, labels
FROM heads
WHERE tenant = :tenant AND :user IS NULL AND (created, id) < (:before_created, :before_id)
ORDER BY created DESC, id DESC
LIMIT :limit;

-- name: threads_owned
SELECT key, id, owner, created, updated, version, hash, counters, segments, parent_key, title, labels
FROM heads
WHERE tenant = :tenant AND owner = :owner AND (:user IS NULL OR owner = :user)
    AND (created, id) < (:before_created, :before_id)
ORDER BY created DESC, id DESC
LIMIT :limit;

-- name: unindexed
SELECT heads.key, id, owner, created, updated, heads.version, hash, counters, segments, parent_key, title,
    labels, coalesce(indexed.version, 0)
FROM unindexed
JOIN heads ON heads.key = unindexed.thread
LEFT JOIN indexed ON indexed.thread = unindexed.thread
WHERE tenant = :tenant AND (:user IS NULL OR owner = :user)
ORDER BY unindexed.thread
LIMIT :limit;

-- name: words
SELECT threads.id, log, place, texts.version, text, -rank
FROM texts
JOIN threads ON threads.key = texts.thread
WHERE texts MATCH :match AND tenant = :tenant AND deleted = 0 AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner) AND (:thread IS NULL OR threads.id = :thread)
    AND (:log IS NULL OR log = :log)
ORDER BY rank, threads.id, place
LIMIT :limit;

-- name: term_counts
SELECT threads.id, log, place, texts.version, term_counts(texts)
FROM texts
JOIN threads ON threads.key = texts.thread
WHERE texts MATCH :match AND tenant = :tenant AND deleted = 0 AND (:user IS NULL OR owner = :user)
    AND (:owner IS NULL OR owner = :owner) AND (:thread IS NULL OR threads.id = :thread)
    AND (:log IS NULL OR log = :log)
ORDER BY texts.rowid DESC
LIMIT :limit;

-- name: word_count
SELECT count(*)
FROM (
    SELECT 1
    FROM texts
    JOIN threads ON threads.key = texts.thread
    WHERE texts MATCH :match AND tenant = :tenant AND deleted = 0 AND (:user IS NULL OR owner = :user)
        AND (:owner IS NULL OR owner = :owner) AND (:thread IS NULL OR threads.id = :thread)
        AND (:log IS NULL OR log = :log)
    LIMIT :most
);

-- name: text_count
SELECT count(*)
FROM (
    SELECT 1
    FROM threads
    JOIN text_rows ON text_rows.thread = threads.key
    WHERE tenant = :tenant AND deleted = 0 AND (:user IS NULL OR owner = :user)
        AND (:owner IS NULL OR owner = :owner)
    LIMIT :most
);

-- name: vector_blocks
SELECT key, marks, signs
FROM vector_blocks
WHERE tenant = :tenant AND space = :space AND log IN (SELECT value FROM json_each(:logs)) AND width = :width
    AND (:user IS NULL OR owner = :user) AND (:owner IS NULL OR owner = :owner);

-- name: records_placed
SELECT kind, records.id, owner, sort, revision, tags, body
FROM json_each(:places) AS candidate
CROSS JOIN records ON place = candidate.value
WHERE tenant = :tenant AND (:user IS NULL OR owner = :user);

-- name: add_thread
INSERT INTO threads (
    key, tenant, id, owner, created, updated, version, hash, counters, segments, parent_key, title, labels
)
SELECT :key, :tenant, :id, :owner, :created, :updated, :version, :hash, :counters, :segments, :parent_key, :title,
    :labels
WHERE :user IS NULL OR :owner = :user;

-- name: advance
INSERT INTO changesets (at, time, envelope, content, salt, hash, counters)
SELECT :at, :time, :envelope, :content, :salt, :hash, :counters
FROM threads
WHERE key = :key AND deleted = 0 AND tenant = :tenant AND (:user IS NULL OR owner = :user)
    AND :before = CASE
        WHEN version = :before_version THEN hash
        ELSE (SELECT hash FROM changesets WHERE at = :at - 1)
    END;

-- name: rename_thread
UPDATE threads
SET title = :title, labels = :labels
WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user);

-- name: add_changeset
INSERT INTO changesets (at, time, envelope, content, salt, hash, counters, erased)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_item
INSERT INTO items (at, version, time, meta, body, salt, erased)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: add_four_items
INSERT INTO items (at, version, time, meta, body, salt, erased)
VALUES (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?);

-- name: log
SELECT key
FROM logs
WHERE thread = :key AND name = :name;

-- name: last_thread_key
SELECT seq
FROM sqlite_sequence
WHERE name = 'threads';

-- name: add_log
INSERT INTO logs (thread, name)
VALUES (?, ?)
RETURNING key;

-- name: add_name
INSERT OR IGNORE INTO names (thread, id, log, place)
VALUES (?, ?, ?, ?);

-- name: add_cut
INSERT INTO cuts (log, last, version, first, count)
VALUES (?, ?, ?, ?, ?);

-- name: add_anchor
INSERT OR REPLACE INTO anchors (at, state)
VALUES (?, ?);

-- name: add_key
INSERT INTO keys (thread, name, version, fingerprint)
VALUES (?, ?, ?, ?);

-- name: add_unindexed
INSERT OR IGNORE INTO unindexed (thread)
VALUES (?);

-- name: copy_changesets
INSERT INTO changesets (at, time, envelope, content, salt, hash, counters, erased, key_id, nonce)
SELECT at - (:source << 32) + (:key << 32), time, envelope, content, salt, hash, counters, erased, key_id, nonce
FROM changesets
WHERE at > (:source << 32) AND at <= (:source << 32) + :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :source AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: copy_items
INSERT INTO items (at, version, time, meta, body, salt, erased, key_id, nonce)
SELECT items.at - (:log << 32) + (:new_log << 32), items.version, items.time, meta, body, salt, erased, key_id, nonce
FROM items
WHERE items.at > (:log << 32) AND items.at < ((:log + 1) << 32) AND items.version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :source AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: copy_cuts
INSERT INTO cuts
SELECT :new_log, last, version, first, count
FROM cuts
WHERE log = :log AND version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :source AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: copy_names
INSERT OR IGNORE INTO names
SELECT :key, names.id, :new_log, names.place
FROM names
JOIN items ON items.at = (names.log << 32) + names.place
WHERE names.thread = :source AND names.log = :log AND items.version <= :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :source AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: copy_anchors
INSERT INTO anchors
SELECT at - (:source << 32) + (:key << 32), state, key_id, nonce
FROM anchors
WHERE at > (:source << 32) AND at <= (:source << 32) + :upto
    AND EXISTS (SELECT 1 FROM threads WHERE key = :source AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: logs_of
SELECT key, name
FROM logs
WHERE thread = :key
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: hide_thread
UPDATE threads
SET deleted = 1
WHERE key = :key AND deleted = 0 AND tenant = :tenant AND (:user IS NULL OR owner = :user)
    AND (:before IS NULL OR EXISTS (SELECT 1 FROM heads WHERE key = :key AND hash = :before));

-- name: orphan
SELECT parent_key
FROM threads
WHERE key = :key AND deleted = 1 AND tenant = :tenant AND (:user IS NULL OR owner = :user)
    AND NOT EXISTS (SELECT 1 FROM threads AS child WHERE child.parent_key = threads.key);

-- name: purge_items
DELETE FROM items
WHERE at > (:log << 32) AND at < ((:log + 1) << 32) AND :tenant = :tenant AND :user IS :user;

-- name: purge_cuts
DELETE FROM cuts
WHERE log = :log AND :tenant = :tenant AND :user IS :user;

-- name: purge_changesets
DELETE FROM changesets
WHERE at > (:key << 32) AND at < ((:key + 1) << 32) AND :tenant = :tenant AND :user IS :user;

-- name: purge_anchors
DELETE FROM anchors
WHERE at > (:key << 32) AND at < ((:key + 1) << 32) AND :tenant = :tenant AND :user IS :user;

-- name: purge_names
DELETE FROM names
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_keys
DELETE FROM keys
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_texts
DELETE FROM texts
WHERE rowid IN (SELECT row FROM text_rows WHERE thread = :key) AND :tenant = :tenant AND :user IS :user;

-- name: purge_text_rows
DELETE FROM text_rows
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_unindexed
DELETE FROM unindexed
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_indexed
DELETE FROM indexed
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_logs
DELETE FROM logs
WHERE thread = :key AND :tenant = :tenant AND :user IS :user;

-- name: purge_thread
DELETE FROM threads
WHERE key = :key AND deleted = 1 AND tenant = :tenant AND (:user IS NULL OR owner = :user);

-- name: erase_item
UPDATE items
SET body = NULL, salt = NULL, erased = :erased
WHERE at = (:log << 32) + :place
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: erase_item_key
UPDATE keys
SET fingerprint = x''
WHERE thread = :key AND version = (SELECT version FROM items WHERE at = (:log << 32) + :place)
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: erase_text
DELETE FROM texts
WHERE rowid IN (SELECT row FROM text_rows WHERE thread = :key AND log = :log AND place = :place)
    AND :tenant = :tenant AND :user IS :user;

-- name: erase_text_row
DELETE FROM text_rows
WHERE thread = :key AND log = :log AND place = :place AND :tenant = :tenant AND :user IS :user;

-- name: erase_content
UPDATE changesets
SET content = NULL, salt = NULL, erased = :erased
WHERE at = (:key << 32) + :version
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: erase_content_key
UPDATE keys
SET fingerprint = x''
WHERE thread = :key AND version = :version
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: erase_states
DELETE FROM anchors
WHERE at > (:key << 32) AND at <= (:key << 32) + :states
    AND EXISTS (SELECT 1 FROM threads WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user));

-- name: vector_place
SELECT place
FROM records
WHERE tenant = :tenant AND kind = :kind AND id = :id AND place IS NOT NULL AND (:user IS NULL OR owner = :user);

-- name: set_vector_place
UPDATE records
SET place = :place
WHERE tenant = :tenant AND kind = :kind AND id = :id AND (:user IS NULL OR owner = :user);

-- name: open_vector_block
SELECT key, marks
FROM vector_blocks
WHERE tenant = :tenant AND space = :space AND log = :log AND owner IS :owner AND width = :width AND free > 0
    AND (:user IS NULL OR owner = :user)
LIMIT 1;

-- name: vector_slots
SELECT coalesce(sum(slots), 0)
FROM vector_blocks
WHERE tenant = :tenant AND space = :space AND log = :log AND owner IS :owner AND width = :width
    AND (:user IS NULL OR owner = :user);

-- name: add_vector_block
INSERT INTO vector_blocks (tenant, space, log, owner, width, free, slots, marks, signs)
SELECT :tenant, :space, :log, :owner, :width, :slots, :slots, zeroblob(:slots * 8), zeroblob(:slots * :width)
WHERE :user IS NULL OR :owner = :user
RETURNING key;

-- name: count_free_slots
UPDATE vector_blocks
SET free = free + :change
WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user)
RETURNING slots - free, width;

-- name: drop_vector_block
DELETE FROM vector_blocks
WHERE key = :key AND tenant = :tenant AND (:user IS NULL OR owner = :user);

-- name: save_record
INSERT INTO records (tenant, kind, id, owner, sort, revision, tags, body)
SELECT :tenant, :kind, :id, :owner, :sort, :revision, :tags, :body
WHERE (:user IS NULL OR :owner = :user)
ON CONFLICT (tenant, kind, id) DO UPDATE
SET owner = excluded.owner, sort = excluded.sort, revision = excluded.revision, tags = excluded.tags,
    body = excluded.body
WHERE records.revision = :before AND (:user IS NULL OR records.owner = :user);

-- name: drop_record
DELETE FROM records
WHERE tenant = :tenant AND kind = :kind AND id = :id AND (:user IS NULL OR owner = :user);

-- name: add_tags
INSERT OR IGNORE INTO tags (tenant, kind, tag, sort, id)
SELECT :tenant, :kind, value, :sort, :id FROM json_each(:tags) WHERE :user IS :user;

-- name: drop_tags
DELETE FROM tags
WHERE tenant = :tenant AND kind = :kind AND id = :id AND sort = :sort
    AND tag IN (SELECT value FROM json_each(:tags)) AND :user IS :user;

-- name: add_job
INSERT INTO jobs (tenant, id, kind, owner, name, due, attempts, most, status, token, until, problem, body)
SELECT :tenant, :id, :kind, :owner, :name, :due, :attempts, :most, :status, :token, :until, :problem, :body
WHERE :user IS NULL OR :owner = :user
ON CONFLICT DO NOTHING;

-- name: move_job
UPDATE jobs
SET due = :due, attempts = :attempts, status = :status, token = :token, until = :until, problem = :problem
WHERE tenant = :tenant AND id = :id AND token IS :before AND (:user IS NULL OR owner = :user);

-- name: end_job
DELETE FROM jobs
WHERE tenant = :tenant AND id = :id AND token IS :token AND (:user IS NULL OR owner = :user);

-- name: due_jobs
SELECT id, kind, owner, name, due, attempts, most, status, token, until, problem, body
FROM jobs
WHERE tenant = :tenant AND (:user IS NULL OR owner = :user) AND kind IN (SELECT value FROM json_each(:kinds))
    AND ((status = 'waiting' AND (due <= :now OR (attempts > 0 AND due > :latest)))
        OR (status = 'running' AND (until <= :now OR until > :latest)))
ORDER BY due, id
LIMIT :limit;

-- name: add_text
INSERT INTO texts (words, scope, text, thread, log, place, version)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: add_text_row
INSERT OR IGNORE INTO text_rows (thread, log, place, row)
VALUES (?, ?, ?, ?);

-- name: text_row
SELECT row
FROM text_rows
WHERE thread = :key AND log = :log AND place = :place AND :tenant = :tenant AND :user IS :user;

-- name: set_indexed
INSERT INTO indexed (thread, version)
VALUES (?, ?)
ON CONFLICT (thread) DO UPDATE SET version = max(version, excluded.version);

-- name: drop_unindexed
DELETE FROM unindexed
WHERE thread = :key
    AND EXISTS (
        SELECT 1 FROM heads
        WHERE key = :key AND version <= :upto AND tenant = :tenant AND (:user IS NULL OR owner = :user)
    );

-- A deleted text may leave its first letters in the table that leads to the pages of the index; only merging all
-- of it writes that anew, and it is merged only if there is more than one part of it.

-- name: add_placeholder_text
INSERT OR REPLACE INTO texts (rowid, words, scope, text)
VALUES (-1, 'a', 'a', '');

-- name: merge_index
INSERT INTO texts (texts)
VALUES ('optimize');

-- name: drop_placeholder_text
DELETE FROM texts
WHERE rowid = -1;
