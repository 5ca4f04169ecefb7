-- What erasing asks and does. Everything runs as the app in the scope of a tenant, so the policies hold for it.

SET LOCAL ROLE clew_owner;

-- All kinds of a tenant are gone through, each by the order that belongs to the owner.
CREATE OR REPLACE FUNCTION clew.records_of(
    p_tenant text, p_user text, p_owner text, p_without text[], p_limit bigint
) RETURNS SETOF clew.records LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_kind text := '';
    v_id text;
    v_left bigint := p_limit;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    LOOP
        SELECT t.kind INTO v_kind FROM clew.record_tags t
            WHERE t.tenant = p_tenant AND t.kind > v_kind ORDER BY t.kind LIMIT 1;
        EXIT WHEN NOT FOUND OR v_left <= 0;
        CONTINUE WHEN v_kind = ANY (p_without);
        FOR v_id IN SELECT t.id FROM clew.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = v_kind AND t.tag = chr(31) || p_owner
            ORDER BY t.id LIMIT v_left
        LOOP
            RETURN QUERY SELECT r.* FROM clew.records r
                WHERE r.tenant = p_tenant AND r.kind = v_kind AND r.id = v_id AND r.owner = p_owner;
            v_left := v_left - 1;
        END LOOP;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION clew.records_about(p_tenant text, p_user text, p_names text[])
RETURNS SETOF clew.records LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_kind text := '';
    v_ids text[];
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    LOOP
        SELECT r.kind INTO v_kind FROM clew.records r
            WHERE r.tenant = p_tenant AND r.kind > v_kind ORDER BY r.kind LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_ids := ARRAY(
            SELECT t.id FROM clew.record_tags t
            WHERE t.tenant = p_tenant AND t.kind = v_kind AND t.tag = ANY (p_names)
        );
        RETURN QUERY SELECT r.* FROM clew.records r
            WHERE r.tenant = p_tenant AND r.kind = v_kind AND r.id = ANY (v_ids || p_names);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION clew.sizes(p_tenant text, p_user text, p_key uuid)
RETURNS TABLE (changesets bigint, items bigint, states bigint, keys bigint, texts bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    RETURN QUERY SELECT
        (SELECT count(*) FROM clew.changesets c WHERE c.tenant = p_tenant AND c.key = p_key),
        (SELECT count(*) FROM clew.items i WHERE i.tenant = p_tenant AND i.key = p_key),
        (SELECT count(*) FROM clew.anchors a WHERE a.tenant = p_tenant AND a.key = p_key),
        (SELECT count(*) FROM clew.keys k WHERE k.tenant = p_tenant AND k.key = p_key),
        (SELECT count(*) FROM clew.texts x WHERE x.tenant = p_tenant AND x.key = p_key);
END $$;

-- What rows say goes, their commitments stay; so does what the index and idempotency keys know of them.
CREATE OR REPLACE FUNCTION clew.erase_parts(
    p_tenant text, p_user text, p_key uuid, p_logs text[], p_places bigint[], p_items bytea[],
    p_versions bigint[], p_contents bytea[], p_states bigint
) RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_versions bigint[] := p_versions;
    v_version bigint;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    FOR n IN 1 .. coalesce(cardinality(p_places), 0) LOOP
        UPDATE clew.items i SET body = NULL, salt = NULL, erased = p_items[n]
            WHERE i.tenant = p_tenant AND i.key = p_key AND i.log = p_logs[n] AND i.place = p_places[n]
            RETURNING i.version INTO v_version;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        v_versions := v_versions || v_version;
        DELETE FROM clew.texts x
            WHERE x.tenant = p_tenant AND x.key = p_key AND x.log = p_logs[n] AND x.place = p_places[n];
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(p_versions), 0) LOOP
        UPDATE clew.changesets c SET content = NULL, salt = NULL, erased = p_contents[n]
            WHERE c.tenant = p_tenant AND c.key = p_key AND c.version = p_versions[n];
    END LOOP;
    UPDATE clew.keys k SET fingerprint = ''
        WHERE k.tenant = p_tenant AND k.key = p_key AND k.version = ANY (v_versions);
    DELETE FROM clew.anchors a WHERE a.tenant = p_tenant AND a.key = p_key AND a.version <= p_states;
    RETURN true;
END $$;

-- Without a hash it goes wherever it stands: who erases cannot wait until nobody writes.
CREATE OR REPLACE FUNCTION clew.drop_thread(p_tenant text, p_user text, p_key uuid, p_hash bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_thread clew.threads;
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    SELECT t.* INTO v_thread FROM clew.threads t
        WHERE t.tenant = p_tenant AND t.key = p_key AND (p_hash IS NULL OR t.hash = p_hash)
          AND NOT t.deleted FOR UPDATE;
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

CREATE OR REPLACE FUNCTION clew.end_job(p_tenant text, p_user text, p_id text, p_token text)
RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM clew.enter(p_tenant, p_user);
    DELETE FROM clew.jobs j
        WHERE j.tenant = p_tenant AND j.id = p_id AND j.token IS NOT DISTINCT FROM p_token;
    RETURN FOUND;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clew FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA clew TO clew_app, clew_maintenance;
