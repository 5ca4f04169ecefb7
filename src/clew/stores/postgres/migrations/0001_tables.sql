-- Roles, tables and policies.
--
-- The tenant comes first in every key. Texts that people choose (bodies, states, titles) are bytea, since NUL
-- is data. key_id and nonce are reserved for encryption; erased keeps the commitment of what was erased.

-- Roles belong to the whole cluster, so another database may be creating them at this moment.
DO $$
DECLARE
    name text;
    attempt integer := 0;
BEGIN
    FOREACH name IN ARRAY ARRAY['clew_owner', 'clew_app', 'clew_maintenance'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
    WHILE NOT (pg_has_role('clew_owner', 'clew_maintenance', 'MEMBER')
               AND pg_has_role(current_user, 'clew_owner', 'MEMBER')
               AND pg_has_role(current_user, 'clew_app', 'MEMBER')) LOOP
        BEGIN
            GRANT clew_maintenance TO clew_owner;
            EXECUTE format('GRANT clew_owner, clew_app TO %I', current_user);
        EXCEPTION WHEN unique_violation OR duplicate_object OR internal_error THEN
            attempt := attempt + 1;
            IF attempt > 50 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.02);
        END;
    END LOOP;
END $$;

CREATE SCHEMA IF NOT EXISTS clew AUTHORIZATION clew_owner;
SET LOCAL ROLE clew_owner;

CREATE TABLE clew.meta (
    schema integer NOT NULL
);
INSERT INTO clew.meta VALUES (0);

-- A table that an append or a read looks into has one index only. To a planner that has seen a row or two, all
-- indexes that start with the tenant are alike; it may take the wrong one, and a connection keeps that plan when
-- there are millions of rows. So each other way to a thread is a table of its own, and no function joins two.

-- An append changes none of the indexed columns, and finds room on the page: its update is heap-only.
CREATE TABLE clew.threads (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    created bigint NOT NULL,
    updated bigint NOT NULL,
    version bigint NOT NULL,
    hash bytea NOT NULL,
    counters bytea NOT NULL,
    segments bytea,
    parent_key uuid,
    about bytea,
    deleted boolean NOT NULL DEFAULT false,
    late boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 80);

CREATE TABLE clew.thread_ids (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    owner text COLLATE "C",
    PRIMARY KEY (tenant, id)
);

-- Each thread twice: for everybody (whose = '') and for its owner.
CREATE TABLE clew.listing (
    tenant text COLLATE "C" NOT NULL,
    whose text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    owner text COLLATE "C",
    PRIMARY KEY (tenant, whose, created, id)
);

CREATE TABLE clew.forks (
    tenant text COLLATE "C" NOT NULL,
    parent_key uuid NOT NULL,
    key uuid NOT NULL,
    owner text COLLATE "C",
    PRIMARY KEY (tenant, parent_key, key)
);

CREATE TABLE clew.changesets (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    version bigint NOT NULL,
    owner text COLLATE "C",
    time bigint NOT NULL,
    envelope bytea NOT NULL,
    content bytea,
    salt bytea,
    erased bytea,
    hash bytea NOT NULL,
    counters bytea NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, key, version)
);

CREATE TABLE clew.items (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    log text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    version bigint NOT NULL,
    time bigint NOT NULL,
    id text COLLATE "C",
    owner text COLLATE "C",
    meta bytea NOT NULL,
    body bytea,
    salt bytea,
    erased bytea,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, key, log, place)
);
CREATE INDEX items_id ON clew.items (tenant, key, id) WHERE id IS NOT NULL;

-- By where they end: the window at the end of a log meets few of them.
CREATE TABLE clew.cuts (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    log text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    first bigint NOT NULL,
    version bigint NOT NULL,
    number integer NOT NULL,
    count bigint NOT NULL,
    owner text COLLATE "C",
    PRIMARY KEY (tenant, key, log, last, first, version, number)
);

CREATE TABLE clew.anchors (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    version bigint NOT NULL,
    owner text COLLATE "C",
    state bytea NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, key, version)
);

CREATE TABLE clew.keys (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    version bigint NOT NULL,
    fingerprint bytea NOT NULL,
    PRIMARY KEY (tenant, key, name)
);

CREATE TABLE clew.records (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    tags text[] COLLATE "C" NOT NULL,
    sort bigint NOT NULL,
    revision bigint NOT NULL,
    body bytea NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, kind, id)
);

-- The orders a record is found in: under each of its tags, under '' and under its owner (chr(31) before it, which
-- no tag can hold).
CREATE TABLE clew.record_tags (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    tag text COLLATE "C" NOT NULL,
    sort bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    PRIMARY KEY (tenant, kind, tag, sort, id)
);

CREATE TABLE clew.jobs (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    key text COLLATE "C",
    due bigint NOT NULL,
    attempts bigint NOT NULL,
    attempts_limit bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    token text COLLATE "C",
    until bigint NOT NULL,
    problem bytea,
    body bytea NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX jobs_key ON clew.jobs (tenant, key) WHERE key IS NOT NULL AND status <> 'dead';
CREATE INDEX jobs_due ON clew.jobs (tenant, due, id) WHERE status <> 'dead';
CREATE INDEX jobs_lease ON clew.jobs (tenant, until) WHERE status = 'running';

-- Threads that the search index has not caught up with, and the version up to which it holds them. Their rows
-- say so too (late), so that an append need not look here.
CREATE TABLE clew.unindexed (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    owner text COLLATE "C",
    indexed bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- The words of a text and, as a word of its own that no text can hold, its tenant.
CREATE TABLE clew.texts (
    tenant text COLLATE "C" NOT NULL,
    key uuid NOT NULL,
    log text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    version bigint NOT NULL,
    thread text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    words tsvector NOT NULL,
    text bytea NOT NULL,
    key_id text COLLATE "C",
    nonce bytea,
    PRIMARY KEY (tenant, key, log, place)
);
CREATE INDEX texts_words ON clew.texts USING gin (words);

GRANT USAGE ON SCHEMA clew TO clew_app, clew_maintenance;
GRANT SELECT ON clew.meta TO clew_app, clew_maintenance;
ALTER TABLE clew.meta ENABLE ROW LEVEL SECURITY;
ALTER TABLE clew.meta FORCE ROW LEVEL SECURITY;
CREATE POLICY everybody ON clew.meta FOR SELECT USING (true);
CREATE POLICY owner ON clew.meta TO clew_owner USING (true) WITH CHECK (true);

-- An empty or missing setting is nobody. The owner is a member of maintenance, so that a migration sees the
-- rows it has to change although the policies are forced.
DO $$
DECLARE
    name text;
    scope text := $policy$
        tenant = nullif(current_setting('clew.tenant', true), '')
        AND (current_setting('clew.reach', true) = 'tenant'
             OR (current_setting('clew.reach', true) = 'user'
                 AND owner = nullif(current_setting('clew.user', true), '')))
    $policy$;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'clew' AND tablename <> 'meta' LOOP
        EXECUTE format('ALTER TABLE clew.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE clew.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY scope ON clew.%I USING (%s) WITH CHECK (%s)', name, scope, scope);
        EXECUTE format(
            'CREATE POLICY maintenance ON clew.%I TO clew_maintenance USING (true) WITH CHECK (true)',
            name
        );
        EXECUTE format(
            'GRANT SELECT, INSERT, UPDATE, DELETE ON clew.%I TO clew_app, clew_maintenance', name
        );
    END LOOP;
END $$;
