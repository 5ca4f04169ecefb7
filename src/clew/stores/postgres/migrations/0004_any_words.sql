-- Search within a thread or a log, for all or any of the words; and how many texts hold each word.

SET LOCAL ROLE clew_owner;

DROP FUNCTION clew.words(text, text, tsquery, text, bigint);
DROP FUNCTION clew.find_words(tsquery, text, bigint);

-- Every text holds, beside its tenant, its thread and its log as words that no text can hold. An id has no line
-- break in it, so no two threads or logs share one.
CREATE FUNCTION clew.within(p_tenant text, p_thread text, p_log text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '@' || encode(sha256(convert_to(concat_ws(E'\n', p_tenant, p_thread, p_log), 'UTF8')), 'hex')
$$;

UPDATE clew.texts SET words = words || array_to_tsvector(
    ARRAY[clew.within(tenant, thread, NULL), clew.within(tenant, thread, log)]
);

-- What a search is about: the words, within a log, a thread or the tenant.
CREATE FUNCTION clew.asked(p_words tsquery, p_tenant text, p_thread text, p_log text) RETURNS tsquery
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p_words && array_to_tsvector(ARRAY[
        CASE WHEN p_thread IS NULL THEN '#' || p_tenant ELSE clew.within(p_tenant, p_thread, p_log) END
    ])::text::tsquery
$$;

-- As before it runs as maintenance and keeps to the scope by itself. Unless it is ranked, the newest come first;
-- without an order, any of them.
CREATE FUNCTION clew.find_words(
    p_words tsquery, p_owner text, p_thread text, p_log text, p_order text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = on
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant text := nullif(current_setting('clew.tenant', true), '');
    v_reach text := current_setting('clew.reach', true);
    v_user text := nullif(current_setting('clew.user', true), '');
    v_words tsquery;
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN;
    END IF;
    v_words := clew.asked(p_words, v_tenant, p_thread, p_log);
    IF p_order = 'none' THEN
        RETURN QUERY SELECT NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bytea, 0::real
            FROM clew.texts x
            WHERE x.words @@ v_words AND x.tenant = v_tenant
              AND (v_reach = 'tenant' OR x.owner = v_user)
              AND (p_owner IS NULL OR x.owner = p_owner)
              AND (p_log IS NULL OR x.log = p_log)
            LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY SELECT x.thread, x.log, x.place, x.version, x.text,
            CASE WHEN p_order = 'best' THEN ts_rank(x.words, p_words, 2) ELSE 0 END AS score
        FROM clew.texts x
        WHERE x.words @@ v_words AND x.tenant = v_tenant
          AND (v_reach = 'tenant' OR x.owner = v_user)
          AND (p_owner IS NULL OR x.owner = p_owner)
          AND (p_thread IS NULL OR x.thread = p_thread)
          AND (p_log IS NULL OR x.log = p_log)
        ORDER BY score DESC, CASE WHEN p_order = 'best' THEN 0 ELSE -x.version END, x.thread,
            CASE WHEN p_order = 'best' THEN x.place ELSE -x.place END
        LIMIT p_limit;
END $$;

CREATE FUNCTION clew.words(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM clew.find_words(p_words, p_owner, p_thread, p_log, 'best', p_limit);
END $$;

CREATE FUNCTION clew.words_newest(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM clew.find_words(p_words, p_owner, p_thread, p_log, 'newest', p_limit);
END $$;

CREATE FUNCTION clew.word_count(
    p_tenant text, p_user text, p_words tsquery[], p_owner text, p_thread text, p_log text, p_most bigint
) RETURNS TABLE (found bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_word tsquery;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    FOREACH v_word IN ARRAY p_words LOOP
        RETURN QUERY SELECT count(*)
            FROM clew.find_words(v_word, p_owner, p_thread, p_log, 'none', p_most);
    END LOOP;
END $$;

-- The thread's row is locked first, as an append does, so none can slip in before the mark is taken away.
CREATE OR REPLACE FUNCTION clew.index(
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
    v_tenant := v_tenant || array_to_tsvector(ARRAY[clew.within(p_tenant, v_thread, NULL)]);
    INSERT INTO clew.texts (tenant, key, log, place, version, thread, owner, words, text)
        SELECT p_tenant, p_key, x.log, x.place, x.version, v_thread, v_owner,
            x.words::tsvector || v_tenant || array_to_tsvector(ARRAY[clew.within(p_tenant, v_thread, x.log)]),
            x.said
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

GRANT CREATE ON SCHEMA clew TO clew_maintenance;
ALTER FUNCTION clew.find_words(tsquery, text, text, text, text, bigint) OWNER TO clew_maintenance;
REVOKE CREATE ON SCHEMA clew FROM clew_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
