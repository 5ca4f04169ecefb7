-- The signs of vectors, for the search of those that are most alike: all of an owner's, through an index of
-- pgvector where there is one, and otherwise one by one.

SET LOCAL ROLE clew_owner;

CREATE TABLE clew.vectors (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    space text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    signs bit varying NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX vectors_scope ON clew.vectors (tenant, space, log, owner);
-- How many vectors an owner has is estimated by these, all columns together.
CREATE STATISTICS clew.vectors_scopes (mcv) ON tenant, space, log, owner, thread FROM clew.vectors;

ALTER TABLE clew.vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE clew.vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON clew.vectors USING (
    tenant = nullif(current_setting('clew.tenant', true), '')
    AND (current_setting('clew.reach', true) = 'tenant'
         OR (current_setting('clew.reach', true) = 'user'
             AND owner = nullif(current_setting('clew.user', true), '')))
) WITH CHECK (
    tenant = nullif(current_setting('clew.tenant', true), '')
    AND (current_setting('clew.reach', true) = 'tenant'
         OR (current_setting('clew.reach', true) = 'user'
             AND owner = nullif(current_setting('clew.user', true), '')))
);
CREATE POLICY maintenance ON clew.vectors TO clew_maintenance USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON clew.vectors TO clew_app, clew_maintenance;

-- The signs in the body of a record; null if it has none that can be compared.
CREATE FUNCTION clew.signs_of(p_body bytea) RETURNS bit varying
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_body json := convert_from(p_body, 'UTF8')::json;
    v_vector text := v_body ->> 'vector';
    v_signs text := v_body ->> 'signs';
    v_width integer;
BEGIN
    IF v_vector !~ '^[A-Za-z0-9+/]+={0,2}$' OR v_signs !~ '^[A-Za-z0-9+/]+={0,2}$'
       OR length(v_vector) % 4 <> 0 OR length(v_signs) % 4 <> 0 THEN
        RETURN NULL;
    END IF;
    v_width := (length(decode(v_vector, 'base64')) + 7) / 8;
    RETURN ('x' || encode(substring(decode(v_signs, 'base64') FOR v_width), 'hex'))::bit varying;
END $$;

-- Whatever writes or removes the record of a vector does the same to its signs.
CREATE FUNCTION clew.index_vector() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_signs bit varying;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM clew.vectors v WHERE v.tenant = OLD.tenant AND v.id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND cardinality(NEW.tags) >= 3 THEN
        v_signs := clew.signs_of(NEW.body);
        IF v_signs IS NOT NULL THEN
            INSERT INTO clew.vectors (tenant, id, owner, space, log, thread, signs)
                VALUES (NEW.tenant, NEW.id, NEW.owner, NEW.tags[3], NEW.tags[2], NEW.tags[1], v_signs);
        END IF;
    END IF;
    RETURN NULL;
END $$;

INSERT INTO clew.vectors (tenant, id, owner, space, log, thread, signs)
    SELECT r.tenant, r.id, r.owner, r.tags[3], r.tags[2], r.tags[1], s.signs
    FROM clew.records r, LATERAL clew.signs_of(r.body) AS s (signs)
    WHERE r.kind = 'memory.vector' AND cardinality(r.tags) >= 3 AND s.signs IS NOT NULL;

CREATE TRIGGER index_vector AFTER INSERT OR UPDATE ON clew.records
    FOR EACH ROW WHEN (NEW.kind = 'memory.vector') EXECUTE FUNCTION clew.index_vector();
CREATE TRIGGER unindex_vector AFTER DELETE ON clew.records
    FOR EACH ROW WHEN (OLD.kind = 'memory.vector') EXECUTE FUNCTION clew.index_vector();

-- Like the search of words it runs as maintenance and keeps to the scope by itself: a policy would be evaluated
-- for every vector. The index holds the vectors of everybody. It is used for owners with many, who have a fair
-- share of it; of few in it, it would find too few.
CREATE FUNCTION clew.find_vectors(
    p_space text, p_logs text[], p_owner text, p_thread text, p_signs bit varying, p_limit bigint
) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_tenant text := nullif(current_setting('clew.tenant', true), '');
    v_reach text := current_setting('clew.reach', true);
    v_user text := nullif(current_setting('clew.user', true), '');
    v_index regclass := to_regclass(format('clew.vectors_signs_%s', length(p_signs)));
    v_rows jsonb;
    v_scope text := $where$
        FROM clew.vectors v
        WHERE v.tenant = $1 AND v.space = $2 AND v.log = ANY ($3) AND ($4 IS NULL OR v.owner = $4)
          AND ($5 IS NULL OR v.owner = $5) AND ($6 IS NULL OR v.thread = $6)
    $where$;
BEGIN
    IF v_tenant IS NULL OR v_reach IS NULL OR v_reach NOT IN ('tenant', 'user')
       OR (v_reach = 'user' AND v_user IS NULL) THEN
        RETURN;
    END IF;
    v_user := CASE WHEN v_reach = 'user' THEN v_user END;
    IF v_index IS NOT NULL THEN
        EXECUTE 'EXPLAIN (FORMAT JSON) SELECT' || v_scope
            INTO v_rows USING v_tenant, p_space, p_logs, v_user, p_owner, p_thread;
        IF (v_rows #>> '{0,Plan,Plan Rows}')::float8
           >= greatest(10000, (SELECT c.reltuples / 4 FROM pg_class c WHERE c.oid = v_index)) THEN
            PERFORM set_config('hnsw.ef_search', greatest(40, least(p_limit, 1000))::text, true),
                set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('enable_sort', 'off', true);
            RETURN QUERY EXECUTE format(
                'SELECT v.id %s AND length(v.signs) = %s ORDER BY v.signs::bit(%2$s) OPERATOR(%3$I.<~>) '
                '$7::bit(%2$s) LIMIT $8',
                v_scope, length(p_signs),
                (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                 WHERE e.extname = 'vector')
            ) USING v_tenant, p_space, p_logs, v_user, p_owner, p_thread, p_signs, p_limit;
            RETURN;
        END IF;
    END IF;
    -- The sizes are compared first: bits of different ones cannot be.
    RETURN QUERY EXECUTE format(
        'SELECT v.id %s AND length(v.signs) = %s '
        'ORDER BY CASE WHEN length(v.signs) = %2$s THEN bit_count(v.signs # $7) END LIMIT $8',
        v_scope, length(p_signs)
    )
        USING v_tenant, p_space, p_logs, v_user, p_owner, p_thread, p_signs, p_limit;
END $$;

CREATE FUNCTION clew.nearest(
    p_tenant text, p_user text, p_space text, p_logs text[], p_owner text, p_thread text, p_signs bytea,
    p_limit bigint
) RETURNS SETOF clew.records LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_ids text[];
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    v_ids := ARRAY(SELECT clew.find_vectors(
        p_space, p_logs, p_owner, p_thread, ('x' || encode(p_signs, 'hex'))::bit varying, p_limit
    ));
    RETURN QUERY SELECT r.* FROM clew.records r
        WHERE r.tenant = p_tenant AND r.kind = 'memory.vector' AND r.id = ANY (v_ids);
END $$;

-- Make the indexes of pgvector for the usual sizes, if the server has it and the role may; whether they are there.
-- It may be called again, once pgvector was installed.
CREATE FUNCTION clew.add_vector_indexes() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_schema text;
    v_size integer;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN
        IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
            RETURN false;
        END IF;
        BEGIN
            CREATE EXTENSION vector;
        EXCEPTION WHEN insufficient_privilege OR undefined_file THEN
            RETURN false;
        END;
    END IF;
    IF to_regclass('clew.vectors_signs_384') IS NOT NULL THEN
        RETURN true;
    END IF;
    IF NOT pg_has_role(current_user, 'clew_owner', 'MEMBER') THEN
        RETURN false;
    END IF;
    PERFORM set_config('role', 'clew_owner', true);
    SELECT n.nspname INTO v_schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector';
    IF NOT EXISTS (
        SELECT FROM pg_opclass o JOIN pg_namespace n ON n.oid = o.opcnamespace
        WHERE o.opcname = 'bit_hamming_ops' AND n.nspname = v_schema
    ) THEN
        RETURN false; -- a release before 0.7
    END IF;
    FOREACH v_size IN ARRAY ARRAY[256, 384, 512, 768, 1024, 1536, 3072] LOOP
        EXECUTE format(
            'CREATE INDEX vectors_signs_%1$s ON clew.vectors USING hnsw ((signs::bit(%1$s)) %2$I.bit_hamming_ops) '
            'WHERE length(signs) = %1$s', v_size, v_schema
        );
    END LOOP;
    RETURN true;
END $$;

GRANT CREATE ON SCHEMA clew TO clew_maintenance;
ALTER FUNCTION clew.find_vectors(text, text[], text, text, bit varying, bigint) OWNER TO clew_maintenance;
REVOKE CREATE ON SCHEMA clew FROM clew_maintenance;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
