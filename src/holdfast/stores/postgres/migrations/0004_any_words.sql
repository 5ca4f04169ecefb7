-- Search within a thread or a log, for all or any of the words; and how many texts hold each word.

SET LOCAL ROLE holdfast_owner;

DROP FUNCTION holdfast.words(text, text, tsquery, text, bigint);
DROP FUNCTION holdfast.find_words(tsquery, text, bigint);

-- Every text holds, beside its tenant, its thread and its log as words that no text can hold. An id has no line
-- break in it, so no two threads or logs share one.
CREATE FUNCTION holdfast.within(p_tenant text, p_thread text, p_log text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '@' || encode(sha256(convert_to(concat_ws(E'\n', p_tenant, p_thread, p_log), 'UTF8')), 'hex')
$$;

UPDATE holdfast.texts SET words = words || array_to_tsvector(
    ARRAY[holdfast.within(tenant, thread, NULL), holdfast.within(tenant, thread, log)]
);

-- What a search is about: the words, within a log, a thread or the tenant.
CREATE FUNCTION holdfast.asked(p_words tsquery, p_tenant text, p_thread text, p_log text) RETURNS tsquery
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p_words && array_to_tsvector(ARRAY[
        CASE WHEN p_thread IS NULL THEN '#' || p_tenant ELSE holdfast.within(p_tenant, p_thread, p_log) END
    ])::text::tsquery
$$;

-- As before it runs as maintenance and keeps to the scope by itself. Unless it is ranked, the newest come first;
-- without an order, any of them.
CREATE FUNCTION holdfast.find_words(
    p_words tsquery, p_owner text, p_thread text, p_log text, p_order text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = on
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant text := nullif(current_setting('holdfast.tenant', true), '');
    v_reach text := current_setting('holdfast.reach', true);
    v_user text := nullif(current_setting('holdfast.user', true), '');
    v_words tsquery;
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN;
    END IF;
    v_words := holdfast.asked(p_words, v_tenant, p_thread, p_log);
    IF p_order = 'none' THEN
        RETURN QUERY SELECT NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bytea, 0::real
            FROM holdfast.texts x
            WHERE x.words @@ v_words AND x.tenant = v_tenant
              AND (v_reach = 'tenant' OR x.owner = v_user)
              AND (p_owner IS NULL OR x.owner = p_owner)
              AND (p_log IS NULL OR x.log = p_log)
            LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY SELECT x.thread, x.log, x.place, x.version, x.text,
            CASE WHEN p_order = 'best' THEN ts_rank(x.words, p_words, 2) ELSE 0 END AS score
        FROM holdfast.texts x
        WHERE x.words @@ v_words AND x.tenant = v_tenant
          AND (v_reach = 'tenant' OR x.owner = v_user)
          AND (p_owner IS NULL OR x.owner = p_owner)
          AND (p_thread IS NULL OR x.thread = p_thread)
          AND (p_log IS NULL OR x.log = p_log)
        ORDER BY score DESC, CASE WHEN p_order = 'best' THEN 0 ELSE -x.version END, x.thread,
            CASE WHEN p_order = 'best' THEN x.place ELSE -x.place END
        LIMIT p_limit;
END $$;

CREATE FUNCTION holdfast.words(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM holdfast.find_words(p_words, p_owner, p_thread, p_log, 'best', p_limit);
END $$;

CREATE FUNCTION holdfast.words_newest(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM holdfast.find_words(p_words, p_owner, p_thread, p_log, 'newest', p_limit);
END $$;

CREATE FUNCTION holdfast.word_count(
    p_tenant text, p_user text, p_words tsquery[], p_owner text, p_thread text, p_log text, p_most bigint
) RETURNS TABLE (found bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_word tsquery;
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    FOREACH v_word IN ARRAY p_words LOOP
        RETURN QUERY SELECT count(*)
            FROM holdfast.find_words(v_word, p_owner, p_thread, p_log, 'none', p_most);
    END LOOP;
END $$;

-- The thread's row is locked first, as an append does, so none can slip in before the mark is taken away.
CREATE OR REPLACE FUNCTION holdfast.index(
    p_tenant text, p_user text, p_key uuid, p_upto bigint, p_logs text[], p_places bigint[],
    p_versions bigint[], p_words text[], p_texts bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_version bigint;
    v_thread text;
    v_owner text;
    v_tenant tsvector := array_to_tsvector(ARRAY['#' || p_tenant]);
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    SELECT t.version, t.id, t.owner INTO v_version, v_thread, v_owner FROM holdfast.threads t
        WHERE t.tenant = p_tenant AND t.key = p_key AND NOT t.deleted FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    v_tenant := v_tenant || array_to_tsvector(ARRAY[holdfast.within(p_tenant, v_thread, NULL)]);
    INSERT INTO holdfast.texts (tenant, key, log, place, version, thread, owner, words, text)
        SELECT p_tenant, p_key, x.log, x.place, x.version, v_thread, v_owner,
            x.words::tsvector || v_tenant || array_to_tsvector(ARRAY[holdfast.within(p_tenant, v_thread, x.log)]),
            x.said
        FROM unnest(p_logs, p_places, p_versions, p_words, p_texts) AS x (log, place, version, words, said)
        ON CONFLICT (tenant, key, log, place)
        DO UPDATE SET version = excluded.version, words = excluded.words, text = excluded.text;
    IF p_upto >= v_version THEN
        DELETE FROM holdfast.pending p WHERE p.tenant = p_tenant AND p.key = p_key;
        UPDATE holdfast.threads t SET late = false WHERE t.tenant = p_tenant AND t.key = p_key;
    ELSE
        UPDATE holdfast.pending p SET indexed = greatest(p.indexed, p_upto)
            WHERE p.tenant = p_tenant AND p.key = p_key;
    END IF;
    RETURN true;
END $$;

GRANT CREATE ON SCHEMA holdfast TO holdfast_maintenance;
ALTER FUNCTION holdfast.find_words(tsquery, text, text, text, text, bigint) OWNER TO holdfast_maintenance;
REVOKE CREATE ON SCHEMA holdfast FROM holdfast_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO holdfast_app, holdfast_maintenance;
