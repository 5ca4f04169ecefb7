-- A ranking needs how often a text holds each word and how long it is, not the text: both are in its vector.

SET LOCAL ROLE clew_owner;

DROP FUNCTION clew.words_newest(text, text, tsquery, text, text, text, bigint);

CREATE INDEX texts_owner ON clew.texts (tenant, owner);

-- As the other searches it runs as maintenance and keeps to the scope by itself.
CREATE FUNCTION clew.count_terms(
    p_words tsquery, p_terms text[], p_owner text, p_thread text, p_log text, p_limit bigint
) RETURNS TABLE (
    thread text, log text, place bigint, version bigint, length bigint, terms text[], counts bigint[]
)
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
    RETURN QUERY SELECT h.thread, h.log, h.place, h.version, t.length, t.terms, t.counts
        FROM (
            SELECT x.thread, x.log, x.place, x.version, x.words
            FROM clew.texts x
            WHERE x.words @@ v_words AND x.tenant = v_tenant
              AND (v_reach = 'tenant' OR x.owner = v_user)
              AND (p_owner IS NULL OR x.owner = p_owner)
              AND (p_thread IS NULL OR x.thread = p_thread)
              AND (p_log IS NULL OR x.log = p_log)
            ORDER BY x.version DESC, x.thread, x.place DESC
            LIMIT p_limit
        ) h
        CROSS JOIN LATERAL (
            SELECT sum(cardinality(u.positions))::bigint AS length,
                array_agg(u.lexeme) FILTER (WHERE u.lexeme = ANY (p_terms)) AS terms,
                array_agg(cardinality(u.positions)::bigint) FILTER (WHERE u.lexeme = ANY (p_terms)) AS counts
            FROM unnest(h.words) u
        ) t;
END $$;

CREATE FUNCTION clew.count_texts(p_owner text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant text := nullif(current_setting('clew.tenant', true), '');
    v_reach text := current_setting('clew.reach', true);
    v_user text := nullif(current_setting('clew.user', true), '');
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM clew.texts x
            WHERE x.tenant = v_tenant AND (v_reach = 'tenant' OR x.owner = v_user)
              AND (p_owner IS NULL OR x.owner = p_owner)
            LIMIT p_most
        ) counted
    );
END $$;

CREATE FUNCTION clew.term_counts(
    p_tenant text, p_user text, p_words tsquery, p_terms text[], p_owner text, p_thread text, p_log text,
    p_limit bigint
) RETURNS TABLE (
    thread text, log text, place bigint, version bigint, length bigint, terms text[], counts bigint[]
)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT * FROM clew.count_terms(p_words, p_terms, p_owner, p_thread, p_log, p_limit);
END $$;

CREATE FUNCTION clew.text_count(p_tenant text, p_user text, p_owner text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN clew.count_texts(p_owner, p_most);
END $$;

GRANT CREATE ON SCHEMA clew TO clew_maintenance;
ALTER FUNCTION clew.count_terms(tsquery, text[], text, text, text, bigint) OWNER TO clew_maintenance;
ALTER FUNCTION clew.count_texts(text, bigint) OWNER TO clew_maintenance;
REVOKE CREATE ON SCHEMA clew FROM clew_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
