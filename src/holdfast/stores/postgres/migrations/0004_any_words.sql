-- Search within a thread or a log, for all or any of the words; and how many texts hold each word.

DROP FUNCTION holdfast.words(text, text, tsquery, text, bigint);
DROP FUNCTION holdfast.find_words(tsquery, text, bigint);

-- As before it runs as maintenance and keeps to the scope by itself. Unless it is ranked, the newest come first.
CREATE FUNCTION holdfast.find_words(
    p_words tsquery, p_owner text, p_thread text, p_log text, p_ranked boolean, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
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
    RETURN QUERY SELECT x.thread, x.log, x.place, x.version, x.text,
            CASE WHEN p_ranked THEN ts_rank(x.words, p_words, 2) ELSE 0 END AS score
        FROM holdfast.texts x
        WHERE x.words @@ (p_words && array_to_tsvector(ARRAY['#' || v_tenant])::text::tsquery)
          AND x.tenant = v_tenant
          AND (v_reach = 'tenant' OR x.owner = v_user)
          AND (p_owner IS NULL OR x.owner = p_owner)
          AND (p_thread IS NULL OR x.thread = p_thread)
          AND (p_log IS NULL OR x.log = p_log)
        ORDER BY score DESC, CASE WHEN p_ranked THEN 0 ELSE -x.version END, x.thread,
            CASE WHEN p_ranked THEN x.place ELSE -x.place END
        LIMIT p_limit;
END $$;

CREATE FUNCTION holdfast.words(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM holdfast.find_words(p_words, p_owner, p_thread, p_log, true, p_limit);
END $$;

CREATE FUNCTION holdfast.words_newest(
    p_tenant text, p_user text, p_words tsquery, p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (thread text, log text, place bigint, version bigint, said bytea, score real)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM holdfast.find_words(p_words, p_owner, p_thread, p_log, false, p_limit);
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
            FROM holdfast.find_words(v_word, p_owner, p_thread, p_log, false, p_most);
    END LOOP;
END $$;

GRANT CREATE ON SCHEMA holdfast TO holdfast_maintenance;
ALTER FUNCTION holdfast.find_words(tsquery, text, text, text, boolean, bigint) OWNER TO holdfast_maintenance;
REVOKE CREATE ON SCHEMA holdfast FROM holdfast_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO holdfast_app, holdfast_maintenance;
