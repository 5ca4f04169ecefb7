-- What a store is asked, one function each: it takes on the scope for this transaction and answers.
--
-- A function costs one round trip, prepared once per connection; settings and query in a pipeline cost the
-- client two and a half times as much. Nothing outlives the transaction, so any pooler will do.

SET LOCAL ROLE clew_owner;

-- The caller becomes the app, which no policy lets through, even if it came as a superuser. Plans are kept by
-- connections that may have made them while the tables were empty: then only an index is right for later.
CREATE FUNCTION clew.enter(p_tenant text, p_user text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_said text; -- one expression is evaluated faster than one query
BEGIN
    v_said := set_config('clew.tenant', coalesce(p_tenant, ''), true)
        || set_config('clew.reach', CASE WHEN p_user IS NULL THEN 'tenant' ELSE 'user' END, true)
        || set_config('clew.user', coalesce(p_user, ''), true)
        || set_config('enable_seqscan', 'off', true)
        || set_config('enable_bitmapscan', 'off', true)
        || CASE WHEN current_user <> 'clew_app' THEN set_config('role', 'clew_app', true) END;
END $$;

-- Called after the rows of a key were read: if the key is still there, none of them had been removed.
CREATE FUNCTION clew.check_there(p_tenant text, p_key uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM clew.threads t WHERE t.tenant = p_tenant AND t.key = p_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the thread was deleted while it was read' USING ERRCODE = 'CW002';
    END IF;
END $$;

CREATE FUNCTION clew.thread(p_tenant text, p_user text, p_id text)
RETURNS SETOF clew.threads LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    v_key uuid;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    SELECT i.key INTO v_key FROM clew.thread_ids i WHERE i.tenant = p_tenant AND i.id = p_id;
    IF FOUND THEN
        RETURN QUERY SELECT t.* FROM clew.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END IF;
END $$;

CREATE FUNCTION clew.anchor(p_tenant text, p_user text, p_key uuid, p_upto bigint)
RETURNS SETOF clew.anchors LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT a.* FROM clew.anchors a
        WHERE a.tenant = p_tenant AND a.key = p_key AND a.version <= p_upto
        ORDER BY a.version DESC LIMIT 1;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.changesets(
    p_tenant text, p_user text, p_key uuid, p_after bigint, p_upto bigint, p_limit bigint
) RETURNS SETOF clew.changesets LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT c.* FROM clew.changesets c
        WHERE c.tenant = p_tenant AND c.key = p_key AND c.version > p_after AND c.version <= p_upto
        ORDER BY c.version LIMIT p_limit;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.items(
    p_tenant text, p_user text, p_key uuid, p_log text, p_above bigint, p_below bigint, p_upto bigint,
    p_limit bigint
) RETURNS SETOF clew.items LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM clew.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.log = p_log
          AND i.place > p_above AND i.place < p_below AND i.version <= p_upto
        ORDER BY i.place LIMIT p_limit;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.items_backwards(
    p_tenant text, p_user text, p_key uuid, p_log text, p_above bigint, p_below bigint, p_upto bigint,
    p_limit bigint
) RETURNS SETOF clew.items LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM clew.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.log = p_log
          AND i.place > p_above AND i.place < p_below AND i.version <= p_upto
        ORDER BY i.place DESC LIMIT p_limit;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.cuts(
    p_tenant text, p_user text, p_key uuid, p_log text, p_first bigint, p_last bigint, p_upto bigint
) RETURNS SETOF clew.cuts LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT c.* FROM clew.cuts c
        WHERE c.tenant = p_tenant AND c.key = p_key AND c.log = p_log
          AND c.last >= p_first AND c.first <= p_last AND c.version <= p_upto;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.named(p_tenant text, p_user text, p_key uuid, p_ids text[], p_upto bigint)
RETURNS SETOF clew.items LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM clew.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.id = ANY (p_ids) AND i.version <= p_upto;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.key(p_tenant text, p_user text, p_key uuid, p_name text)
RETURNS SETOF clew.keys LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT k.* FROM clew.keys k
        WHERE k.tenant = p_tenant AND k.key = p_key AND k.name = p_name;
    PERFORM clew.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION clew.record(p_tenant text, p_user text, p_kind text, p_id text)
RETURNS SETOF clew.records LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT r.* FROM clew.records r
        WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id;
END $$;

CREATE FUNCTION clew.job(p_tenant text, p_user text, p_id text)
RETURNS SETOF clew.jobs LANGUAGE plpgsql ROWS 1 SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT j.* FROM clew.jobs j WHERE j.tenant = p_tenant AND j.id = p_id;
END $$;

-- Planned anew for the values given: what is NULL drops out of the conditions.
CREATE FUNCTION clew.records(
    p_tenant text, p_user text, p_kind text, p_tags text[], p_owner text, p_since bigint, p_until bigint,
    p_after_sort bigint, p_after_id text, p_newest boolean, p_limit bigint
) RETURNS SETOF clew.records LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_owner text := coalesce(p_owner, p_user);
    v_tag text := coalesce(p_tags[1], chr(31) || v_owner, '');
    v_left bigint := p_limit;
    v_ids refcursor;
    v_id text;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    IF p_newest THEN
        OPEN v_ids FOR SELECT t.id FROM clew.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.tag = v_tag
              AND (p_since IS NULL OR t.sort >= p_since) AND (p_until IS NULL OR t.sort < p_until)
              AND (p_after_sort IS NULL OR (t.sort, t.id) < (p_after_sort, p_after_id))
            ORDER BY t.sort DESC, t.id DESC;
    ELSE
        OPEN v_ids FOR SELECT t.id FROM clew.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.tag = v_tag
              AND (p_since IS NULL OR t.sort >= p_since) AND (p_until IS NULL OR t.sort < p_until)
              AND (p_after_sort IS NULL OR (t.sort, t.id) > (p_after_sort, p_after_id))
            ORDER BY t.sort, t.id;
    END IF;
    WHILE v_left > 0 LOOP
        FETCH v_ids INTO v_id;
        EXIT WHEN NOT FOUND;
        RETURN QUERY SELECT r.* FROM clew.records r
            WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = v_id
              AND r.tags @> p_tags AND (v_owner IS NULL OR r.owner = v_owner);
        IF FOUND THEN
            v_left := v_left - 1;
        END IF;
    END LOOP;
    CLOSE v_ids;
END $$;

CREATE FUNCTION clew.jobs(p_tenant text, p_user text, p_status text, p_limit bigint)
RETURNS SETOF clew.jobs LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT j.* FROM clew.jobs j
        WHERE j.tenant = p_tenant AND (p_status IS NULL OR j.status = p_status)
        ORDER BY j.due, j.id LIMIT p_limit;
END $$;

CREATE FUNCTION clew.threads(
    p_tenant text, p_user text, p_owner text, p_before_created bigint, p_before_id text, p_limit bigint
) RETURNS SETOF clew.threads LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_whose text := coalesce(p_owner, p_user, '');
    v_key uuid;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    FOR v_key IN SELECT l.key FROM clew.listing l
        WHERE l.tenant = p_tenant AND l.whose = v_whose
          AND (p_before_created IS NULL OR (l.created, l.id) < (p_before_created, p_before_id))
        ORDER BY l.created DESC, l.id DESC LIMIT p_limit
    LOOP
        RETURN QUERY SELECT t.* FROM clew.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END LOOP;
END $$;

CREATE FUNCTION clew.unindexed(p_tenant text, p_user text, p_limit bigint)
RETURNS TABLE (thread clew.threads, indexed bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_key uuid;
    v_indexed bigint;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    FOR v_key, v_indexed IN SELECT p.key, p.indexed FROM clew.unindexed p
        WHERE p.tenant = p_tenant ORDER BY p.key LIMIT p_limit
    LOOP
        RETURN QUERY SELECT t, v_indexed FROM clew.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END LOOP;
END $$;

-- Under a policy `@@` could use no index, since it may leak what it sees. So this runs as maintenance, which
-- no policy holds back, and keeps to the scope by itself. Every text holds its tenant as a word, '#' before it.
CREATE FUNCTION clew.find_words(p_words tsquery, p_owner text, p_limit bigint)
RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = on
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant text := nullif(current_setting('clew.tenant', true), '');
    v_reach text := current_setting('clew.reach', true);
    v_user text := nullif(current_setting('clew.user', true), '');
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT x.thread, x.log, x.place, x.version, x.text, ts_rank(x.words, p_words, 2) AS score
        FROM clew.texts x
        WHERE x.words @@ (p_words && array_to_tsvector(ARRAY['#' || v_tenant])::text::tsquery)
          AND x.tenant = v_tenant
          AND (v_reach = 'tenant' OR x.owner = v_user)
          AND (p_owner IS NULL OR x.owner = p_owner)
        ORDER BY score DESC, x.thread, x.place LIMIT p_limit;
END $$;

CREATE FUNCTION clew.words(p_tenant text, p_user text, p_words tsquery, p_owner text, p_limit bigint)
RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM clew.find_words(p_words, p_owner, p_limit);
END $$;

GRANT CREATE ON SCHEMA clew TO clew_maintenance;
ALTER FUNCTION clew.find_words(tsquery, text, bigint) OWNER TO clew_maintenance;
REVOKE CREATE ON SCHEMA clew FROM clew_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
