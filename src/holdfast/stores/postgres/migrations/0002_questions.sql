-- What a store is asked, one function each: it takes on the scope for this transaction and answers.
--
-- A function costs one round trip, prepared once per connection; settings and query in a pipeline cost the
-- client two and a half times as much. Nothing outlives the transaction, so any pooler will do.

SET LOCAL ROLE holdfast_owner;

-- The caller becomes the app, which no policy lets through, even if it came as a superuser. Plans are kept by
-- connections that may have made them while the tables were empty: then only an index is right for later.
CREATE FUNCTION holdfast.enter(p_tenant text, p_user text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_said text; -- one expression is evaluated faster than one query
BEGIN
    v_said := set_config('holdfast.tenant', coalesce(p_tenant, ''), true)
        || set_config('holdfast.reach', CASE WHEN p_user IS NULL THEN 'tenant' ELSE 'user' END, true)
        || set_config('holdfast.user', coalesce(p_user, ''), true)
        || set_config('enable_seqscan', 'off', true)
        || set_config('enable_bitmapscan', 'off', true)
        || CASE WHEN current_user <> 'holdfast_app' THEN set_config('role', 'holdfast_app', true) END;
END $$;

-- Called after the rows of a key were read: if the key is still there, none of them had been removed.
CREATE FUNCTION holdfast.check_there(p_tenant text, p_key uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast.threads t WHERE t.tenant = p_tenant AND t.key = p_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the thread was deleted while it was read' USING ERRCODE = 'HF002';
    END IF;
END $$;

CREATE FUNCTION holdfast.thread(p_tenant text, p_user text, p_id text)
RETURNS SETOF holdfast.threads LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    v_key uuid;
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    SELECT i.key INTO v_key FROM holdfast.thread_ids i WHERE i.tenant = p_tenant AND i.id = p_id;
    IF FOUND THEN
        RETURN QUERY SELECT t.* FROM holdfast.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END IF;
END $$;

CREATE FUNCTION holdfast.anchor(p_tenant text, p_user text, p_key uuid, p_upto bigint)
RETURNS SETOF holdfast.anchors LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT a.* FROM holdfast.anchors a
        WHERE a.tenant = p_tenant AND a.key = p_key AND a.version <= p_upto
        ORDER BY a.version DESC LIMIT 1;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.changesets(
    p_tenant text, p_user text, p_key uuid, p_after bigint, p_upto bigint, p_limit bigint
) RETURNS SETOF holdfast.changesets LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT c.* FROM holdfast.changesets c
        WHERE c.tenant = p_tenant AND c.key = p_key AND c.version > p_after AND c.version <= p_upto
        ORDER BY c.version LIMIT p_limit;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.items(
    p_tenant text, p_user text, p_key uuid, p_log text, p_above bigint, p_below bigint, p_upto bigint,
    p_limit bigint
) RETURNS SETOF holdfast.items LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM holdfast.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.log = p_log
          AND i.place > p_above AND i.place < p_below AND i.version <= p_upto
        ORDER BY i.place LIMIT p_limit;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.items_backwards(
    p_tenant text, p_user text, p_key uuid, p_log text, p_above bigint, p_below bigint, p_upto bigint,
    p_limit bigint
) RETURNS SETOF holdfast.items LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM holdfast.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.log = p_log
          AND i.place > p_above AND i.place < p_below AND i.version <= p_upto
        ORDER BY i.place DESC LIMIT p_limit;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.cuts(
    p_tenant text, p_user text, p_key uuid, p_log text, p_first bigint, p_last bigint, p_upto bigint
) RETURNS SETOF holdfast.cuts LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT c.* FROM holdfast.cuts c
        WHERE c.tenant = p_tenant AND c.key = p_key AND c.log = p_log
          AND c.last >= p_first AND c.first <= p_last AND c.version <= p_upto;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.named(p_tenant text, p_user text, p_key uuid, p_ids text[], p_upto bigint)
RETURNS SETOF holdfast.items LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT i.* FROM holdfast.items i
        WHERE i.tenant = p_tenant AND i.key = p_key AND i.id = ANY (p_ids) AND i.version <= p_upto;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.key(p_tenant text, p_user text, p_key uuid, p_name text)
RETURNS SETOF holdfast.keys LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT k.* FROM holdfast.keys k
        WHERE k.tenant = p_tenant AND k.key = p_key AND k.name = p_name;
    PERFORM holdfast.check_there(p_tenant, p_key);
END $$;

CREATE FUNCTION holdfast.record(p_tenant text, p_user text, p_kind text, p_id text)
RETURNS SETOF holdfast.records LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT r.* FROM holdfast.records r
        WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = p_id;
END $$;

CREATE FUNCTION holdfast.job(p_tenant text, p_user text, p_id text)
RETURNS SETOF holdfast.jobs LANGUAGE plpgsql ROWS 1 SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT j.* FROM holdfast.jobs j WHERE j.tenant = p_tenant AND j.id = p_id;
END $$;

-- Planned anew for the values given: what is NULL drops out of the conditions.
CREATE FUNCTION holdfast.records(
    p_tenant text, p_user text, p_kind text, p_tags text[], p_owner text, p_since bigint, p_until bigint,
    p_after_sort bigint, p_after_id text, p_newest boolean, p_limit bigint
) RETURNS SETOF holdfast.records LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_owner text := coalesce(p_owner, p_user);
    v_tag text := coalesce(p_tags[1], chr(31) || v_owner, '');
    v_left bigint := p_limit;
    v_ids refcursor;
    v_id text;
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    IF p_newest THEN
        OPEN v_ids FOR SELECT t.id FROM holdfast.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.tag = v_tag
              AND (p_since IS NULL OR t.sort >= p_since) AND (p_until IS NULL OR t.sort < p_until)
              AND (p_after_sort IS NULL OR (t.sort, t.id) < (p_after_sort, p_after_id))
            ORDER BY t.sort DESC, t.id DESC;
    ELSE
        OPEN v_ids FOR SELECT t.id FROM holdfast.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.tag = v_tag
              AND (p_since IS NULL OR t.sort >= p_since) AND (p_until IS NULL OR t.sort < p_until)
              AND (p_after_sort IS NULL OR (t.sort, t.id) > (p_after_sort, p_after_id))
            ORDER BY t.sort, t.id;
    END IF;
    WHILE v_left > 0 LOOP
        FETCH v_ids INTO v_id;
        EXIT WHEN NOT FOUND;
        RETURN QUERY SELECT r.* FROM holdfast.records r
            WHERE r.tenant = p_tenant AND r.kind = p_kind AND r.id = v_id
              AND r.tags @> p_tags AND (v_owner IS NULL OR r.owner = v_owner);
        IF FOUND THEN
            v_left := v_left - 1;
        END IF;
    END LOOP;
    CLOSE v_ids;
END $$;

CREATE FUNCTION holdfast.jobs(p_tenant text, p_user text, p_status text, p_limit bigint)
RETURNS SETOF holdfast.jobs LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT j.* FROM holdfast.jobs j
        WHERE j.tenant = p_tenant AND (p_status IS NULL OR j.status = p_status)
        ORDER BY j.due, j.id LIMIT p_limit;
END $$;

CREATE FUNCTION holdfast.threads(
    p_tenant text, p_user text, p_owner text, p_before_created bigint, p_before_id text, p_limit bigint
) RETURNS SETOF holdfast.threads LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_whose text := coalesce(p_owner, p_user, '');
    v_key uuid;
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    FOR v_key IN SELECT l.key FROM holdfast.listing l
        WHERE l.tenant = p_tenant AND l.whose = v_whose
          AND (p_before_created IS NULL OR (l.created, l.id) < (p_before_created, p_before_id))
        ORDER BY l.created DESC, l.id DESC LIMIT p_limit
    LOOP
        RETURN QUERY SELECT t.* FROM holdfast.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END LOOP;
END $$;

CREATE FUNCTION holdfast.pending(p_tenant text, p_user text, p_limit bigint)
RETURNS TABLE (thread holdfast.threads, indexed bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_key uuid;
    v_indexed bigint;
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    FOR v_key, v_indexed IN SELECT p.key, p.indexed FROM holdfast.pending p
        WHERE p.tenant = p_tenant ORDER BY p.key LIMIT p_limit
    LOOP
        RETURN QUERY SELECT t, v_indexed FROM holdfast.threads t
            WHERE t.tenant = p_tenant AND t.key = v_key AND NOT t.deleted;
    END LOOP;
END $$;

-- Under a policy `@@` could use no index, since it may leak what it sees. So this runs as maintenance, which
-- no policy holds back, and keeps to the scope by itself. Every text holds its tenant as a word, '#' before it.
CREATE FUNCTION holdfast.find_words(p_words tsquery, p_owner text, p_limit bigint)
RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = on
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant text := nullif(current_setting('holdfast.tenant', true), '');
    v_reach text := current_setting('holdfast.reach', true);
    v_user text := nullif(current_setting('holdfast.user', true), '');
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT x.thread, x.log, x.place, x.version, x.text, ts_rank(x.words, p_words, 2) AS score
        FROM holdfast.texts x
        WHERE x.words @@ (p_words && array_to_tsvector(ARRAY['#' || v_tenant])::text::tsquery)
          AND x.tenant = v_tenant
          AND (v_reach = 'tenant' OR x.owner = v_user)
          AND (p_owner IS NULL OR x.owner = p_owner)
        ORDER BY score DESC, x.thread, x.place LIMIT p_limit;
END $$;

CREATE FUNCTION holdfast.words(p_tenant text, p_user text, p_words tsquery, p_owner text, p_limit bigint)
RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM holdfast.find_words(p_words, p_owner, p_limit);
END $$;

GRANT CREATE ON SCHEMA holdfast TO holdfast_maintenance;
ALTER FUNCTION holdfast.find_words(tsquery, text, bigint) OWNER TO holdfast_maintenance;
REVOKE CREATE ON SCHEMA holdfast FROM holdfast_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO holdfast_app, holdfast_maintenance;
