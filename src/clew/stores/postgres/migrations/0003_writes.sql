-- The writes of a plan, one function each. False: what it assumed is no longer so, nothing was written.

SET LOCAL ROLE clew_owner;

-- The rest of a commit must not happen when one of its writes could not.
CREATE FUNCTION clew.held(p_done boolean, p_strict boolean, p_write text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_strict AND NOT p_done THEN
        RAISE EXCEPTION USING ERRCODE = 'CW001', MESSAGE = p_write;
    END IF;
    RETURN p_done;
END $$;

-- A parent is locked against removal until its child is there.
CREATE FUNCTION clew.add_thread(
    p_tenant text, p_user text, p_key uuid, p_id text, p_owner text, p_created bigint, p_updated bigint,
    p_version bigint, p_hash bytea, p_counters bytea, p_segments bytea, p_parent uuid, p_about bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF p_parent IS NOT NULL THEN
        PERFORM FROM clew.threads t WHERE t.tenant = p_tenant AND t.key = p_parent FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO clew.thread_ids (tenant, id, key, owner) VALUES (p_tenant, p_id, p_key, p_owner)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO clew.threads (
        tenant, key, id, owner, created, updated, version, hash, counters, segments, parent_key, about
    ) VALUES (
        p_tenant, p_key, p_id, p_owner, p_created, p_updated, p_version, p_hash, p_counters, p_segments,
        p_parent, p_about
    );
    INSERT INTO clew.listing (tenant, whose, created, id, key, owner)
        SELECT p_tenant, whose, p_created, p_id, p_key, p_owner FROM unnest(ARRAY['', p_owner]) AS whose
        WHERE whose IS NOT NULL;
    IF p_parent IS NOT NULL THEN
        INSERT INTO clew.forks (tenant, parent_key, key, owner) VALUES (p_tenant, p_parent, p_key, p_owner);
    END IF;
    IF p_version > 0 THEN
        PERFORM clew.mark_late(p_tenant, p_key, p_owner, 0);
    END IF;
    RETURN true;
END $$;

-- The search index has this thread up to a version only.
CREATE FUNCTION clew.mark_late(p_tenant text, p_key uuid, p_owner text, p_indexed bigint)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO clew.unindexed (tenant, key, owner, indexed) VALUES (p_tenant, p_key, p_owner, p_indexed)
        ON CONFLICT DO NOTHING;
    UPDATE clew.threads t SET late = true WHERE t.tenant = p_tenant AND t.key = p_key;
$$;

-- One changeset. The update of the thread's row is both the check and the lock; everything else follows it.
-- A few items are picked from the arrays one by one, which is faster; many are unnested, or it would take n².
CREATE FUNCTION clew.append(
    p_tenant text, p_user text, p_key uuid, p_before bytea, p_version bigint, p_time bigint, p_hash bytea,
    p_counters bytea, p_about bytea, p_envelope bytea, p_content bytea, p_salt bytea,
    p_logs text[], p_places bigint[], p_ids text[], p_metas bytea[], p_bodies bytea[], p_salts bytea[],
    p_cuts jsonb, p_anchor bytea, p_name text, p_fingerprint bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_owner text;
    v_late boolean;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF p_name IS NOT NULL THEN
        PERFORM FROM clew.keys k WHERE k.tenant = p_tenant AND k.key = p_key AND k.name = p_name;
        IF FOUND THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE clew.threads t
        SET version = p_version, updated = p_time, hash = p_hash, counters = p_counters, about = p_about
        WHERE t.tenant = p_tenant AND t.key = p_key AND t.hash = p_before AND NOT t.deleted
        RETURNING t.owner, t.late INTO v_owner, v_late;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO clew.changesets (tenant, key, version, owner, time, envelope, content, salt, hash, counters)
        VALUES (p_tenant, p_key, p_version, v_owner, p_time, p_envelope, p_content, p_salt, p_hash, p_counters);
    IF cardinality(p_places) <= 16 THEN
        INSERT INTO clew.items (tenant, key, log, place, version, time, id, owner, meta, body, salt)
            SELECT p_tenant, p_key, p_logs[n], p_places[n], p_version, p_time, p_ids[n], v_owner, p_metas[n],
                   p_bodies[n], p_salts[n]
            FROM generate_series(1, cardinality(p_places)) AS n;
    ELSIF p_places IS NOT NULL THEN
        INSERT INTO clew.items (tenant, key, log, place, version, time, id, owner, meta, body, salt)
            SELECT p_tenant, p_key, i.log, i.place, p_version, p_time, i.id, v_owner, i.meta, i.body, i.salt
            FROM unnest(p_logs, p_places, p_ids, p_metas, p_bodies, p_salts)
                AS i (log, place, id, meta, body, salt);
    END IF;
    IF p_cuts IS NOT NULL THEN
        PERFORM clew.add_cuts(p_tenant, p_key, v_owner, p_cuts);
    END IF;
    IF p_anchor IS NOT NULL THEN
        INSERT INTO clew.anchors (tenant, key, version, owner, state)
            VALUES (p_tenant, p_key, p_version, v_owner, p_anchor);
    END IF;
    IF p_name IS NOT NULL THEN
        INSERT INTO clew.keys (tenant, key, name, owner, version, fingerprint)
            VALUES (p_tenant, p_key, p_name, v_owner, p_version, p_fingerprint);
    END IF;
    IF NOT v_late THEN
        PERFORM clew.mark_late(p_tenant, p_key, v_owner, p_version - 1);
    END IF;
    RETURN true;
END $$;

-- Some changesets, of a thread each. The update of a thread's row is both the check and the lock; threads come
-- in order of their keys, so that two callers never wait for each other. What is true was appended.
CREATE FUNCTION clew.append_many(
    p_tenant text, p_user text, p_keys uuid[], p_befores bytea[], p_versions bigint[], p_times bigint[],
    p_hashes bytea[], p_counters bytea[], p_abouts bytea[], p_envelopes bytea[], p_contents bytea[],
    p_salts bytea[], p_anchors bytea[], p_names text[], p_fingerprints bytea[], p_cuts jsonb[],
    p_item_changes bigint[], p_item_logs text[], p_item_places bigint[], p_item_ids text[],
    p_item_metas bytea[], p_item_bodies bytea[], p_item_salts bytea[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    v_owner text;
    v_late boolean;
    v_owners text[] := array_fill(NULL::text, ARRAY[cardinality(p_keys)]);
    v_done boolean[] := array_fill(false, ARRAY[cardinality(p_keys)]);
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    FOR n IN 1 .. cardinality(p_keys) LOOP
        IF p_names[n] IS NOT NULL THEN
            PERFORM FROM clew.keys k
                WHERE k.tenant = p_tenant AND k.key = p_keys[n] AND k.name = p_names[n];
            CONTINUE WHEN FOUND;
        END IF;
        UPDATE clew.threads t
            SET version = p_versions[n], updated = p_times[n], hash = p_hashes[n], counters = p_counters[n],
                about = p_abouts[n]
            WHERE t.tenant = p_tenant AND t.key = p_keys[n] AND t.hash = p_befores[n] AND NOT t.deleted
            RETURNING t.owner, t.late INTO v_owner, v_late;
        CONTINUE WHEN NOT FOUND;
        IF NOT v_late THEN
            PERFORM clew.mark_late(p_tenant, p_keys[n], v_owner, p_versions[n] - 1);
        END IF;
        v_done[n] := true;
        v_owners[n] := v_owner;
        IF p_cuts[n] IS NOT NULL THEN
            PERFORM clew.add_cuts(p_tenant, p_keys[n], v_owner, p_cuts[n]);
        END IF;
    END LOOP;
    INSERT INTO clew.changesets (tenant, key, version, owner, time, envelope, content, salt, hash, counters)
        SELECT p_tenant, c.key, c.version, c.owner, c.time, c.envelope, c.content, c.salt, c.hash, c.counters
        FROM unnest(p_keys, p_versions, v_owners, v_done, p_times, p_envelopes, p_contents, p_salts, p_hashes,
                    p_counters)
            AS c (key, version, owner, done, time, envelope, content, salt, hash, counters)
        WHERE c.done;
    INSERT INTO clew.items (tenant, key, log, place, version, time, id, owner, meta, body, salt)
        SELECT p_tenant, p_keys[i.n], i.log, i.place, p_versions[i.n], p_times[i.n], i.id, v_owners[i.n], i.meta,
               i.body, i.salt
        FROM unnest(p_item_changes, p_item_logs, p_item_places, p_item_ids, p_item_metas, p_item_bodies,
                    p_item_salts)
            AS i (n, log, place, id, meta, body, salt)
        WHERE v_done[i.n];
    IF p_anchors IS NOT NULL THEN
        INSERT INTO clew.anchors (tenant, key, version, owner, state)
            SELECT p_tenant, a.key, a.version, a.owner, a.state
            FROM unnest(p_keys, p_versions, v_owners, v_done, p_anchors) AS a (key, version, owner, done, state)
            WHERE a.done AND a.state IS NOT NULL;
    END IF;
    IF p_names IS NOT NULL THEN
        INSERT INTO clew.keys (tenant, key, name, owner, version, fingerprint)
            SELECT p_tenant, k.key, k.name, k.owner, k.version, k.fingerprint
            FROM unnest(p_keys, p_names, v_owners, v_done, p_versions, p_fingerprints)
                AS k (key, name, owner, done, version, fingerprint)
            WHERE k.done AND k.name IS NOT NULL;
    END IF;
    RETURN v_done;
END $$;

-- Cuts come as [log, first, last, version, count] each.
CREATE FUNCTION clew.add_cuts(p_tenant text, p_key uuid, p_owner text, p_cuts jsonb)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO clew.cuts (tenant, key, log, first, last, version, number, count, owner)
    SELECT p_tenant, p_key, c ->> 0, (c ->> 1)::bigint, (c ->> 2)::bigint, (c ->> 3)::bigint, n,
           (c ->> 4)::bigint, p_owner
    FROM jsonb_array_elements(p_cuts) WITH ORDINALITY AS cut (c, n);
$$;

-- The rows of a thread that was just added, as an archive has them.
CREATE FUNCTION clew.restore_changesets(
    p_tenant text, p_user text, p_key uuid, p_owner text, p_versions bigint[], p_times bigint[],
    p_envelopes bytea[], p_contents bytea[], p_salts bytea[], p_erased bytea[], p_hashes bytea[],
    p_counters bytea[], p_anchors bytea[], p_names text[], p_fingerprints bytea[], p_cuts jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    INSERT INTO clew.changesets (
        tenant, key, version, owner, time, envelope, content, salt, erased, hash, counters
    ) SELECT p_tenant, p_key, c.version, p_owner, c.time, c.envelope, c.content, c.salt, c.erased, c.hash, c.counters
        FROM unnest(p_versions, p_times, p_envelopes, p_contents, p_salts, p_erased, p_hashes, p_counters)
            AS c (version, time, envelope, content, salt, erased, hash, counters);
    INSERT INTO clew.anchors (tenant, key, version, owner, state)
        SELECT p_tenant, p_key, a.version, p_owner, a.state
        FROM unnest(p_versions, p_anchors) AS a (version, state) WHERE a.state IS NOT NULL;
    INSERT INTO clew.keys (tenant, key, name, owner, version, fingerprint)
        SELECT p_tenant, p_key, k.name, p_owner, k.version, coalesce(k.fingerprint, '')
        FROM unnest(p_versions, p_names, p_fingerprints) AS k (version, name, fingerprint)
        WHERE k.name IS NOT NULL
        ON CONFLICT (tenant, key, name)
        DO UPDATE SET version = excluded.version, fingerprint = excluded.fingerprint;
    IF p_cuts IS NOT NULL THEN
        PERFORM clew.add_cuts(p_tenant, p_key, p_owner, p_cuts);
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION clew.restore_items(
    p_tenant text, p_user text, p_key uuid, p_owner text, p_logs text[], p_places bigint[], p_versions bigint[],
    p_times bigint[], p_ids text[], p_metas bytea[], p_bodies bytea[], p_salts bytea[], p_erased bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    INSERT INTO clew.items (tenant, key, log, place, version, time, id, owner, meta, body, salt, erased)
        SELECT p_tenant, p_key, i.log, i.place, i.version, i.time, i.id, p_owner, i.meta, i.body, i.salt, i.erased
        FROM unnest(p_logs, p_places, p_versions, p_times, p_ids, p_metas, p_bodies, p_salts, p_erased)
            AS i (log, place, version, time, id, meta, body, salt, erased);
    RETURN true;
END $$;

-- Two stretches of one lineage may lie under one key, so what is there already is left as it is.
CREATE FUNCTION clew.copy_lineage(
    p_tenant text, p_user text, p_key uuid, p_owner text, p_source uuid, p_upto bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    PERFORM FROM clew.threads t WHERE t.tenant = p_tenant AND t.key = p_source FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO clew.changesets
        SELECT p_tenant, p_key, c.version, p_owner, c.time, c.envelope, c.content, c.salt, c.erased, c.hash,
               c.counters, c.key_id, c.nonce
        FROM clew.changesets c
        WHERE c.tenant = p_tenant AND c.key = p_source AND c.version <= p_upto
        ON CONFLICT DO NOTHING;
    INSERT INTO clew.items
        SELECT p_tenant, p_key, i.log, i.place, i.version, i.time, i.id, p_owner, i.meta, i.body, i.salt, i.erased,
               i.key_id, i.nonce
        FROM clew.items i
        WHERE i.tenant = p_tenant AND i.key = p_source AND i.version <= p_upto
        ON CONFLICT DO NOTHING;
    INSERT INTO clew.cuts
        SELECT p_tenant, p_key, c.log, c.last, c.first, c.version, c.number, c.count, p_owner
        FROM clew.cuts c
        WHERE c.tenant = p_tenant AND c.key = p_source AND c.version <= p_upto
        ON CONFLICT DO NOTHING;
    INSERT INTO clew.anchors
        SELECT p_tenant, p_key, a.version, p_owner, a.state, a.key_id, a.nonce
        FROM clew.anchors a
        WHERE a.tenant = p_tenant AND a.key = p_source AND a.version <= p_upto
        ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

-- A deleted thread goes once no fork stands on it, and so may those that it stands on.
CREATE FUNCTION clew.purge(p_tenant text, p_key uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_key uuid := p_key;
    v_parent uuid;
BEGIN
    WHILE v_key IS NOT NULL LOOP
        SELECT t.parent_key INTO v_parent FROM clew.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND t.deleted FOR UPDATE;
        EXIT WHEN NOT FOUND;
        PERFORM FROM clew.forks f WHERE f.tenant = p_tenant AND f.parent_key = v_key;
        EXIT WHEN FOUND;
        DELETE FROM clew.changesets c WHERE c.tenant = p_tenant AND c.key = v_key;
        DELETE FROM clew.items i WHERE i.tenant = p_tenant AND i.key = v_key;
        DELETE FROM clew.cuts c WHERE c.tenant = p_tenant AND c.key = v_key;
        DELETE FROM clew.anchors a WHERE a.tenant = p_tenant AND a.key = v_key;
        DELETE FROM clew.threads t WHERE t.tenant = p_tenant AND t.key = v_key;
        DELETE FROM clew.forks f WHERE f.tenant = p_tenant AND f.parent_key = v_parent AND f.key = v_key;
        v_key := v_parent;
    END LOOP;
END $$;

CREATE FUNCTION clew.drop_thread(p_tenant text, p_user text, p_key uuid, p_hash bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_thread clew.threads;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    SELECT t.* INTO v_thread FROM clew.threads t
        WHERE t.tenant = p_tenant AND t.key = p_key AND t.hash = p_hash AND NOT t.deleted FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE clew.threads t SET deleted = true WHERE t.tenant = p_tenant AND t.key = p_key;
    DELETE FROM clew.thread_ids i WHERE i.tenant = p_tenant AND i.id = v_thread.id;
    DELETE FROM clew.listing l
        WHERE l.tenant = p_tenant AND l.whose IN ('', v_thread.owner) AND l.created = v_thread.created
          AND l.id = v_thread.id;
    DELETE FROM clew.unindexed p WHERE p.tenant = p_tenant AND p.key = p_key;
    DELETE FROM clew.texts x WHERE x.tenant = p_tenant AND x.key = p_key;
    DELETE FROM clew.keys k WHERE k.tenant = p_tenant AND k.key = p_key;
    PERFORM clew.purge(p_tenant, p_key);
    RETURN true;
END $$;

-- Nobody can lock a row that is not there; whoever needs a record to be absent locks its name.
CREATE FUNCTION clew.lock_absent(p_tenant text, p_kind text, p_id text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(p_tenant || chr(31) || p_kind || chr(31) || p_id, 7));
$$;

CREATE FUNCTION clew.save_record(
    p_tenant text, p_user text, p_kind text, p_id text, p_owner text, p_tags text[], p_sort bigint,
    p_revision bigint, p_body bytea, p_before bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF p_before = 0 THEN
        PERFORM clew.lock_absent(p_tenant, p_kind, p_id);
        INSERT INTO clew.records (tenant, kind, id, owner, tags, sort, revision, body)
            VALUES (p_tenant, p_kind, p_id, p_owner, p_tags, p_sort, p_revision, p_body)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    ELSE
        IF NOT clew.untag_record(p_tenant, p_kind, p_id, p_before) THEN
            RETURN false;
        END IF;
        UPDATE clew.records r
            SET owner = p_owner, tags = p_tags, sort = p_sort, revision = p_revision, body = p_body
            WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id;
    END IF;
    INSERT INTO clew.record_tags (tenant, kind, tag, sort, id, owner)
        SELECT DISTINCT p_tenant, p_kind, tag, p_sort, p_id, p_owner
        FROM unnest(p_tags || ARRAY['', chr(31) || p_owner]) AS tag WHERE tag IS NOT NULL;
    RETURN true;
END $$;

-- Lock a record at a revision and take away its tags; false if it is not there.
CREATE FUNCTION clew.untag_record(p_tenant text, p_kind text, p_id text, p_before bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_tags text[];
    v_sort bigint;
BEGIN
    SELECT r.tags || ARRAY['', chr(31) || r.owner], r.sort INTO v_tags, v_sort FROM clew.records r
        WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id AND r.revision = p_before FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM clew.record_tags t
        WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.tag = ANY (v_tags) AND t.sort = v_sort AND t.id = p_id;
    RETURN true;
END $$;

CREATE FUNCTION clew.drop_record(p_tenant text, p_user text, p_kind text, p_id text, p_before bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF NOT clew.untag_record(p_tenant, p_kind, p_id, p_before) THEN
        RETURN false;
    END IF;
    DELETE FROM clew.records r WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id;
    RETURN true;
END $$;

CREATE FUNCTION clew.check_record(p_tenant text, p_user text, p_kind text, p_id text, p_before bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF p_before = 0 THEN
        PERFORM clew.lock_absent(p_tenant, p_kind, p_id);
        PERFORM FROM clew.records r WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id;
        RETURN NOT FOUND;
    END IF;
    PERFORM FROM clew.records r
        WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id AND r.revision = p_before FOR SHARE;
    RETURN FOUND;
END $$;

CREATE FUNCTION clew.add_job(
    p_tenant text, p_user text, p_id text, p_kind text, p_owner text, p_key text, p_due bigint,
    p_attempts bigint, p_limit bigint, p_status text, p_token text, p_until bigint, p_problem bytea, p_body bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    INSERT INTO clew.jobs (
        tenant, id, kind, owner, key, due, attempts, attempts_limit, status, token, until, problem, body
    ) VALUES (
        p_tenant, p_id, p_kind, p_owner, p_key, p_due, p_attempts, p_limit, p_status, p_token, p_until,
        p_problem, p_body
    ) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

CREATE FUNCTION clew.end_job(p_tenant text, p_user text, p_id text, p_token text)
RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    DELETE FROM clew.jobs j WHERE j.tenant = p_tenant AND j.id = p_id AND j.token = p_token;
    RETURN FOUND;
END $$;

CREATE FUNCTION clew.move_job(
    p_tenant text, p_user text, p_held text, p_id text, p_kind text, p_owner text, p_key text, p_due bigint,
    p_attempts bigint, p_limit bigint, p_status text, p_token text, p_until bigint, p_problem bytea, p_body bytea
) RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    UPDATE clew.jobs j
        SET kind = p_kind, owner = p_owner, key = p_key, due = p_due, attempts = p_attempts,
            attempts_limit = p_limit, status = p_status, token = p_token, until = p_until, problem = p_problem,
            body = p_body
        WHERE j.tenant = p_tenant AND j.id = p_id AND j.token IS NOT DISTINCT FROM p_held;
    RETURN FOUND;
END $$;

-- The thread's row is locked first, as an append does, so none can slip in before the mark is taken away.
CREATE FUNCTION clew.index(
    p_tenant text, p_user text, p_key uuid, p_upto bigint, p_logs text[], p_places bigint[],
    p_versions bigint[], p_words text[], p_texts bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_version bigint;
    v_thread text;
    v_owner text;
    v_tenant tsvector := array_to_tsvector(ARRAY['#' || p_tenant]);
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    SELECT t.version, t.id, t.owner INTO v_version, v_thread, v_owner FROM clew.threads t
        WHERE t.tenant = p_tenant AND t.key = p_key AND NOT t.deleted FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    INSERT INTO clew.texts (tenant, key, log, place, version, thread, owner, words, text)
        SELECT p_tenant, p_key, x.log, x.place, x.version, v_thread, v_owner, x.words::tsvector || v_tenant, x.said
        FROM unnest(p_logs, p_places, p_versions, p_words, p_texts) AS x (log, place, version, words, said)
        ON CONFLICT (tenant, key, log, place)
        DO UPDATE SET version = excluded.version, words = excluded.words, text = excluded.text;
    IF p_upto >= v_version THEN
        DELETE FROM clew.unindexed p WHERE p.tenant = p_tenant AND p.key = p_key;
        UPDATE clew.threads t SET late = false WHERE t.tenant = p_tenant AND t.key = p_key;
    ELSE
        UPDATE clew.unindexed p SET indexed = greatest(p.indexed, p_upto)
            WHERE p.tenant = p_tenant AND p.key = p_key;
    END IF;
    RETURN true;
END $$;

-- Due jobs, each now held by a claim of its own. In a tenant-wide scope they are those of every user.
CREATE FUNCTION clew.claim(
    p_tenant text, p_user text, p_kinds text[], p_limit bigint, p_now bigint, p_until bigint, p_lost bytea
) RETURNS SETOF clew.jobs LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    UPDATE clew.jobs j
        SET status = 'dead', token = NULL, until = 0, due = p_now, problem = p_lost
        WHERE j.tenant = p_tenant AND j.id = ANY (ARRAY(
            SELECT d.id FROM clew.jobs d
            WHERE d.tenant = p_tenant AND d.kind = ANY (p_kinds) AND d.status = 'running' AND d.until <= p_now
              AND d.attempts >= d.attempts_limit
            FOR UPDATE SKIP LOCKED
        ));
    RETURN QUERY UPDATE clew.jobs j
        SET status = 'running', token = replace(gen_random_uuid()::text, '-', ''), until = p_until,
            attempts = j.attempts + 1
        WHERE j.tenant = p_tenant AND j.id = ANY (ARRAY(
            SELECT d.id FROM clew.jobs d
            WHERE d.tenant = p_tenant AND d.kind = ANY (p_kinds) AND d.status <> 'dead'
              AND ((d.status = 'waiting' AND d.due <= p_now) OR (d.status = 'running' AND d.until <= p_now))
            ORDER BY d.due, d.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ))
        RETURNING j.*;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
