-- The texts of running answers, one a thread. The table is not logged: nothing waits for a disk or a standby, and
-- after a crash or a fail-over it is empty. parts are content; key_id and nonce are reserved for encryption.

SET LOCAL ROLE clew_owner;

CREATE UNLOGGED TABLE clew.provisional (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    run text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    step bigint NOT NULL,
    attempt bigint NOT NULL,
    parts bytea[] NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, thread)
);

-- The policies of every other table.
DO $$
DECLARE
    scope text := $policy$
        tenant = nullif(current_setting('clew.tenant', true), '')
        AND (current_setting('clew.reach', true) = 'tenant'
             OR (current_setting('clew.reach', true) = 'user'
                 AND owner = nullif(current_setting('clew.user', true), '')))
    $policy$;
BEGIN
    ALTER TABLE clew.provisional ENABLE ROW LEVEL SECURITY;
    ALTER TABLE clew.provisional FORCE ROW LEVEL SECURITY;
    EXECUTE format('CREATE POLICY scope ON clew.provisional USING (%s) WITH CHECK (%s)', scope, scope);
    CREATE POLICY maintenance ON clew.provisional TO clew_maintenance USING (true) WITH CHECK (true);
    GRANT SELECT, INSERT, UPDATE, DELETE ON clew.provisional TO clew_app, clew_maintenance;
END $$;

-- Those of all users of the tenant are counted, and nothing else is told of them.
CREATE FUNCTION clew.begin_provisional(
    p_tenant text, p_user text, p_thread text, p_owner text, p_run text, p_version bigint, p_step bigint,
    p_attempt bigint, p_parts bytea[], p_most bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM clew.enter(p_tenant, NULL);
    SELECT count(*) INTO v_count FROM clew.provisional p WHERE p.tenant = p_tenant AND p.thread <> p_thread;
    PERFORM clew.enter(p_tenant, p_user);
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM clew.provisional p WHERE p.tenant = p_tenant AND p.thread = p_thread;
    IF v_count >= p_most THEN
        RETURN false;
    END IF;
    INSERT INTO clew.provisional (tenant, thread, owner, run, version, step, attempt, parts)
        VALUES (p_tenant, p_thread, p_owner, p_run, p_version, p_step, p_attempt, p_parts)
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

CREATE FUNCTION clew.extend_provisional(
    p_tenant text, p_user text, p_thread text, p_run text, p_version bigint, p_step bigint, p_attempt bigint,
    p_part bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE clew.provisional p SET parts = array_append(p.parts, p_part)
        WHERE p.tenant = p_tenant AND p.thread = p_thread AND p.run = p_run AND p.version = p_version
          AND p.step = p_step AND p.attempt = p_attempt;
    RETURN FOUND;
END $$;

CREATE FUNCTION clew.provisional(p_tenant text, p_user text, p_thread text)
RETURNS SETOF clew.provisional LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT p.* FROM clew.provisional p WHERE p.tenant = p_tenant AND p.thread = p_thread;
END $$;

CREATE FUNCTION clew.provisional_headers(p_tenant text, p_user text)
RETURNS TABLE (thread text, owner text, run text, version bigint, step bigint, attempt bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT p.thread, p.owner, p.run, p.version, p.step, p.attempt
        FROM clew.provisional p WHERE p.tenant = p_tenant ORDER BY p.thread;
END $$;

-- Without a run, whichever text it is.
CREATE FUNCTION clew.drop_provisional(
    p_tenant text, p_user text, p_thread text, p_run text, p_version bigint, p_step bigint, p_attempt bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM clew.provisional p
        WHERE p.tenant = p_tenant AND p.thread = p_thread
          AND (p_run IS NULL OR (p.run = p_run AND p.version = p_version AND p.step = p_step
                                 AND p.attempt = p_attempt));
    RETURN FOUND;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
