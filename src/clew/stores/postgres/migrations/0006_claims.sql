-- A claim, or the pause after a failure, that ends later than any could was written by a clock that ran ahead:
-- what is said to be held or to wait for longer than until p_latest may be claimed now.

SET LOCAL ROLE clew_owner;

DROP FUNCTION clew.claim(text, text, text[], bigint, bigint, bigint, bytea);

CREATE FUNCTION clew.claim(
    p_tenant text, p_user text, p_kinds text[], p_limit bigint, p_now bigint, p_latest bigint, p_until bigint,
    p_lost bytea
) RETURNS SETOF clew.jobs LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    UPDATE clew.jobs j
        SET status = 'dead', token = NULL, until = 0, due = p_now, problem = p_lost
        WHERE j.tenant = p_tenant AND j.id = ANY (ARRAY(
            SELECT d.id FROM clew.jobs d
            WHERE d.tenant = p_tenant AND d.kind = ANY (p_kinds) AND d.status = 'running'
              AND (d.until <= p_now OR d.until > p_latest) AND d.attempts >= d.attempts_limit
            FOR UPDATE SKIP LOCKED
        ));
    RETURN QUERY UPDATE clew.jobs j
        SET status = 'running', token = replace(gen_random_uuid()::text, '-', ''), until = p_until,
            attempts = j.attempts + 1
        WHERE j.tenant = p_tenant AND j.id = ANY (ARRAY(
            SELECT d.id FROM clew.jobs d
            WHERE d.tenant = p_tenant AND d.kind = ANY (p_kinds) AND d.status <> 'dead'
              AND ((d.status = 'waiting' AND (d.due <= p_now OR (d.attempts > 0 AND d.due > p_latest)))
                OR (d.status = 'running' AND (d.until <= p_now OR d.until > p_latest)))
            ORDER BY d.due, d.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ))
        RETURNING j.*;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
