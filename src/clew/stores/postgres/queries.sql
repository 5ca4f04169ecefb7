-- Each is one call of one function of migrations/. The first two values are always tenant and user.

-- Questions.

-- name: thread
SELECT key, id, owner, created, updated, version, hash, counters, segments, parent_key, about
FROM clew.thread(%b::text, %b::text, %b::text)

-- Each call of the function enters the scope of its own row.
-- name: versions
SELECT asked.number, found.version
FROM unnest(%b::text[], %b::text[], %b::text[]) WITH ORDINALITY AS asked (tenant, whose, id, number),
     LATERAL clew.thread(asked.tenant, asked.whose, asked.id) AS found

-- name: anchor
SELECT version, state
FROM clew.anchor(%b::text, %b::text, %b::uuid, %b::bigint)

-- name: changesets
SELECT version, time, envelope, content, salt, hash, counters, erased
FROM clew.changesets(%b::text, %b::text, %b::uuid, %b::bigint, %b::bigint, %b::bigint)

-- name: items
SELECT log, place, version, meta, body, salt, erased, id, time
FROM clew.items(%b::text, %b::text, %b::uuid, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint)

-- name: items_backwards
SELECT log, place, version, meta, body, salt, erased, id, time
FROM clew.items_backwards(
    %b::text, %b::text, %b::uuid, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint
)

-- name: cuts
SELECT log, first, last, version, count
FROM clew.cuts(%b::text, %b::text, %b::uuid, %b::text, %b::bigint, %b::bigint, %b::bigint)

-- name: items_at
SELECT found.log, found.place, found.version, found.meta, found.body, found.salt, found.erased, found.id, found.time
FROM (
    SELECT %b::text AS tenant, %b::text AS name, %b::uuid AS key, %b::text AS log, %b::bigint[] AS places,
           %b::bigint AS upto
) AS asked
CROSS JOIN unnest(asked.places) AS wanted (place)
CROSS JOIN LATERAL clew.items(
    asked.tenant, asked.name, asked.key, asked.log, wanted.place - 1, wanted.place + 1, asked.upto, 1
) AS found

-- name: cuts_at
SELECT found.log, found.first, found.last, found.version, found.count
FROM (
    SELECT %b::text AS tenant, %b::text AS name, %b::uuid AS key, %b::text AS log, %b::bigint[] AS places,
           %b::bigint AS upto
) AS asked
CROSS JOIN unnest(asked.places) AS wanted (place)
CROSS JOIN LATERAL clew.cuts(
    asked.tenant, asked.name, asked.key, asked.log, wanted.place, wanted.place, asked.upto
) AS found

-- name: named
SELECT log, place, version, meta, body, salt, erased, id, time
FROM clew.named(%b::text, %b::text, %b::uuid, %b::text[], %b::bigint)

-- name: key
SELECT version, fingerprint
FROM clew.key(%b::text, %b::text, %b::uuid, %b::text)

-- name: record
SELECT kind, id, body, owner, tags, sort, revision
FROM clew.record(%b::text, %b::text, %b::text, %b::text)

-- name: records_named
SELECT found.kind, found.id, found.body, found.owner, found.tags, found.sort, found.revision
FROM (SELECT %b::text AS tenant, %b::text AS name) AS whose
CROSS JOIN unnest(%b::text[], %b::text[]) AS wanted (kind, id)
CROSS JOIN LATERAL clew.record(whose.tenant, whose.name, wanted.kind, wanted.id) AS found
WHERE found.id IS NOT NULL

-- name: records
SELECT kind, id, body, owner, tags, sort, revision
FROM clew.records(
    %b::text, %b::text, %b::text, %b::text[], %b::text, %b::bigint, %b::bigint, %b::bigint, %b::text,
    %b::boolean, %b::bigint
)

-- name: records_of
SELECT kind, id, body, owner, tags, sort, revision
FROM clew.records_of(%b::text, %b::text, %b::text, %b::text[], %b::bigint)

-- name: records_about
SELECT kind, id, body, owner, tags, sort, revision
FROM clew.records_about(%b::text, %b::text, %b::text[])

-- name: sizes
SELECT changesets, items, states, keys, texts
FROM clew.sizes(%b::text, %b::text, %b::uuid)

-- Asked with the rights of the login, outside of any scope: the policies show only maintenance every tenant. The
-- first column says whether it sees them all, so that a login that does not is never answered "none".
-- name: tenants
WITH RECURSIVE scope AS (
    SELECT %b::text AS tenant, %b::text AS whose
),
found (tenant) AS (
    SELECT ''::text COLLATE "C"
    UNION ALL
    SELECT least(
        (SELECT min(t.tenant) FROM clew.threads t WHERE t.tenant > found.tenant),
        (SELECT min(r.tenant) FROM clew.records r WHERE r.tenant > found.tenant),
        (SELECT min(j.tenant) FROM clew.jobs j WHERE j.tenant > found.tenant)
    )
    FROM found
    WHERE found.tenant IS NOT NULL
),
login AS (
    SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = session_user AND (rolsuper OR rolbypassrls))
        OR pg_has_role(session_user, 'clew_maintenance', 'USAGE') AS sees_all
)
SELECT login.sees_all, found.tenant
FROM login
LEFT JOIN found ON login.sees_all AND found.tenant <> ''

-- name: job
SELECT id, kind, body, owner, key, due, attempts, attempts_limit, status, token, until, problem
FROM clew.job(%b::text, %b::text, %b::text)

-- name: jobs
SELECT id, kind, body, owner, key, due, attempts, attempts_limit, status, token, until, problem
FROM clew.jobs(%b::text, %b::text, %b::text, %b::bigint)

-- name: threads
SELECT key, id, owner, created, updated, version, hash, counters, segments, parent_key, about
FROM clew.threads(%b::text, %b::text, %b::text, %b::bigint, %b::text, %b::bigint)

-- name: unindexed
SELECT (p.thread).key, (p.thread).id, (p.thread).owner, (p.thread).created, (p.thread).updated,
       (p.thread).version, (p.thread).hash, (p.thread).counters, (p.thread).segments, (p.thread).parent_key,
       (p.thread).about, p.indexed
FROM clew.unindexed(%b::text, %b::text, %b::bigint) AS p

-- name: words
SELECT thread, log, place, version, said, score
FROM clew.words(%b::text, %b::text, %b::text::tsquery, %b::text, %b::text, %b::text, %b::bigint)

-- name: term_counts
SELECT thread, log, place, version, length, terms, counts
FROM clew.term_counts(
    %b::text, %b::text, %b::text::tsquery, %b::text[], %b::text, %b::text, %b::text, %b::bigint
)

-- name: word_count
SELECT found
FROM clew.word_count(%b::text, %b::text, %b::text[]::tsquery[], %b::text, %b::text, %b::text, %b::bigint)

-- name: text_count
SELECT clew.text_count(%b::text, %b::text, %b::text, %b::bigint)

-- name: nearest
SELECT kind, id, body, owner, tags, sort, revision
FROM clew.nearest(
    %b::text, %b::text, %b::text, %b::text[], %b::text, %b::text, %b::bytea, %b::bigint
)

-- Writes. The last value: whether to raise, so that what goes with it fails too, instead of answering false.

-- name: add_thread
SELECT clew.held(clew.add_thread(
    %b::text, %b::text, %b::uuid, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::bytea, %b::bytea,
    %b::bytea, %b::uuid, %b::bytea
), %b::boolean, 'add_thread')

-- name: advance
SELECT clew.held(clew.append(
    %b::text, %b::text, %b::uuid, %b::bytea, %b::bigint, %b::bigint, %b::bytea, %b::bytea, %b::bytea, %b::bytea,
    %b::bytea, %b::bytea, %b::text[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::text::jsonb, %b::bytea, %b::text, %b::bytea
), %b::boolean, 'advance')

-- name: advance_one
SELECT clew.append(
    %b::text, %b::text, %b::uuid, %b::bytea, %b::bigint, %b::bigint, %b::bytea, %b::bytea, %b::bytea, %b::bytea,
    %b::bytea, %b::bytea, %b::text[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::text::jsonb, %b::bytea, %b::text, %b::bytea
)

-- name: advance_many
SELECT clew.append_many(
    %b::text, %b::text, %b::uuid[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[], %b::bytea[], %b::text[]::jsonb[],
    %b::bigint[], %b::text[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[]
)

-- name: restore_changesets
SELECT clew.held(clew.restore_changesets(
    %b::text, %b::text, %b::uuid, %b::text, %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[], %b::bytea[], %b::text::jsonb
), %b::boolean, 'restore_changesets')

-- name: restore_items
SELECT clew.held(clew.restore_items(
    %b::text, %b::text, %b::uuid, %b::text, %b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]
), %b::boolean, 'restore_items')

-- name: copy_lineage
SELECT clew.held(clew.copy_lineage(
    %b::text, %b::text, %b::uuid, %b::text, %b::uuid, %b::bigint
), %b::boolean, 'copy_lineage')

-- name: drop_thread
SELECT clew.held(clew.drop_thread(
    %b::text, %b::text, %b::uuid, %b::bytea
), %b::boolean, 'drop_thread')

-- name: erase_parts
SELECT clew.held(clew.erase_parts(
    %b::text, %b::text, %b::uuid, %b::text[], %b::bigint[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bigint
), %b::boolean, 'erase_parts')

-- name: save_record
SELECT clew.held(clew.save_record(
    %b::text, %b::text, %b::text, %b::text, %b::text, %b::text[], %b::bigint, %b::bigint, %b::bytea, %b::bigint
), %b::boolean, 'save_record')

-- name: drop_record
SELECT clew.held(clew.drop_record(
    %b::text, %b::text, %b::text, %b::text, %b::bigint
), %b::boolean, 'drop_record')

-- name: check_record
SELECT clew.held(clew.check_record(
    %b::text, %b::text, %b::text, %b::text, %b::bigint
), %b::boolean, 'check_record')

-- name: add_job
SELECT clew.held(clew.add_job(
    %b::text, %b::text, %b::text, %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::text,
    %b::text, %b::bigint, %b::bytea, %b::bytea
), %b::boolean, 'add_job')

-- name: move_job
SELECT clew.held(clew.move_job(
    %b::text, %b::text, %b::text, %b::text, %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint,
    %b::text, %b::text, %b::bigint, %b::bytea, %b::bytea
), %b::boolean, 'move_job')

-- name: end_job
SELECT clew.held(clew.end_job(
    %b::text, %b::text, %b::text, %b::text
), %b::boolean, 'end_job')

-- name: index
SELECT clew.held(clew.index(
    %b::text, %b::text, %b::uuid, %b::bigint, %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::bytea[]
), %b::boolean, 'index')

-- Claims and what the store says of itself.

-- name: claim
SELECT id, kind, body, owner, key, due, attempts, attempts_limit, status, token, until, problem
FROM clew.claim(
    %b::text, %b::text, %b::text[], %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bytea
)

-- name: begin_provisional
SELECT clew.begin_provisional(
    %b::text, %b::text, %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::bytea[], %b::bigint
)

-- name: extend_provisional
SELECT clew.extend_provisional(
    %b::text, %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint, %b::bytea
)

-- name: provisional
SELECT thread, owner, run, version, step, attempt, parts
FROM clew.provisional(%b::text, %b::text, %b::text)

-- name: provisional_headers
SELECT thread, owner, run, version, step, attempt
FROM clew.provisional_headers(%b::text, %b::text)

-- name: drop_provisional
SELECT clew.drop_provisional(
    %b::text, %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint
)

-- name: server_time
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now

-- Not to_regclass: after waiting for somebody else's migration it may still answer from its cache.
-- name: has_schema
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'clew' AND relname = 'meta'
)

-- name: schema
SELECT schema FROM clew.meta

-- name: set_schema
UPDATE clew.meta SET schema = %b::bigint

-- name: add_vector_indexes
SELECT clew.add_vector_indexes()

-- name: lock_schema
SELECT pg_advisory_xact_lock(hashtextextended('clew.migrate', 0))

-- name: about_server
SELECT current_setting('server_version') AS server,
       (SELECT schema FROM clew.meta) AS schema,
       session_user::text AS role,
       EXISTS (
           SELECT FROM pg_roles
           WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER')
       ) AS bypasses,
       pg_has_role(session_user, 'clew_maintenance', 'MEMBER') AS sees_all,
       greatest(0, (SELECT reltuples FROM pg_class WHERE oid = 'clew.threads'::regclass))::bigint AS threads,
       pg_database_size(current_database()) AS bytes,
       (SELECT extversion FROM pg_extension
        WHERE extname = 'vector' AND to_regclass('clew.vectors_signs_384') IS NOT NULL) AS pgvector

-- name: seen
SELECT pg_current_snapshot()::text AS seen

-- name: moment
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS moment,
       pg_has_role(session_user, 'clew_owner', 'USAGE') AS may_vacuum

-- What keeps removed rows alive: transactions, here or on a replica, that began before a moment.
-- name: holding
WITH past AS (
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - %b::bigint AS age
)
SELECT (SELECT count(*) FROM pg_stat_activity, past
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND age(backend_xmin) > past.age)
     + (SELECT count(*) FROM pg_prepared_xacts, past
        WHERE database = current_database() AND age(transaction) > past.age)
     + (SELECT count(*) FROM pg_replication_slots, past WHERE age(xmin) > past.age) AS holding

-- name: vacuum
VACUUM clew.threads, clew.thread_ids, clew.listing, clew.forks, clew.changesets,
    clew.items, clew.cuts, clew.anchors, clew.keys, clew.records, clew.record_tags,
    clew.jobs, clew.unindexed, clew.texts, clew.vectors, clew.provisional

-- A dump shows the moment of a snapshot; the heads that go with it are read in the transaction that exports it.
-- name: export_snapshot
SELECT pg_export_snapshot() AS snapshot

-- As the tables have them: maintenance sees every row, but has no scope to take on.
-- name: heads
SELECT tenant, id, version, hash
FROM clew.threads
WHERE NOT deleted
ORDER BY tenant, created DESC, id DESC

-- A restore loads the new schema, has it checked, and drops the old one, all in one transaction. Others see the old
-- one until then. They may read it, but no write succeeds that would go with it.

-- name: wait_for_locks
SET LOCAL lock_timeout = '10s'

-- name: lock_tables
LOCK TABLE clew.threads, clew.thread_ids, clew.listing, clew.forks, clew.changesets,
    clew.items, clew.cuts, clew.anchors, clew.keys, clew.records, clew.record_tags,
    clew.jobs, clew.unindexed, clew.texts, clew.vectors, clew.provisional IN EXCLUSIVE MODE

-- name: put_schema_aside
ALTER SCHEMA clew RENAME TO clew_replaced

-- name: drop_schema_aside
DROP SCHEMA IF EXISTS clew_replaced CASCADE

-- Only who may create in a schema can be given a function in it, as one of ours is, unless a superuser gives it.
-- name: let_maintenance_own
GRANT CREATE ON SCHEMA clew TO clew_maintenance

-- name: let_maintenance_own_no_more
REVOKE CREATE ON SCHEMA clew FROM clew_maintenance

-- A dump sets what suits its own loading: no search path, and an error where a policy would hide a row.
-- name: reset_settings
RESET ALL

-- name: reset_role
RESET ROLE
