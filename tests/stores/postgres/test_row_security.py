"""Row-level security on PostgreSQL: without a scope there is nobody, and nobody sees or writes anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

import clew
from clew.core.values import Enqueue, Job, ProvisionalText, Put, Record, Scope
from clew.database.provisional import provisional_texts
from clew.database.search import index_threads
from clew.stores.postgres.store import PostgresStore
from clew.testing.contracts.vectors import vector_record
from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.security, pytest.mark.postgres]

Raw = psycopg.Connection[Any]
VECTOR = [1.0, -1.0, 1.0, -1.0]
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'clew' ORDER BY tablename"
SECURE_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'clew'::regnamespace AND relkind IN ('r', 'p')
  AND relrowsecurity AND relforcerowsecurity
ORDER BY relname
"""
SESSION_SETTINGS = (
    "SELECT current_setting('clew.tenant', true), current_user, current_setting('enable_seqscan')"
)
BODIES = """
SELECT table_name || '.' || column_name FROM information_schema.columns
WHERE table_schema = 'clew' AND data_type IN ('json', 'jsonb')
"""
FIRST_COLUMNS = """
SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
JOIN pg_am m ON m.oid = (SELECT relam FROM pg_class WHERE oid = i.indexrelid)
WHERE c.relnamespace = 'clew'::regnamespace AND m.amname = 'btree' AND a.attname <> 'tenant'
"""

# Whatever holds rows and is no table with a forced policy: a view runs as its owner, a foreign table
# has no policies, a sequence tells how much others write.
INSECURE_RELATIONS = """
SELECT relname FROM pg_class
WHERE relnamespace = 'clew'::regnamespace AND relkind NOT IN ('i', 'I', 't')
  AND NOT (relkind IN ('r', 'p') AND relrowsecurity AND relforcerowsecurity)
ORDER BY 1
"""
POLICIES = """
SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check FROM pg_policies
WHERE schemaname = 'clew' AND tablename <> 'meta' AND policyname <> 'maintenance' ORDER BY 1
"""
OUTSIDE = """
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'clew'
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!'
"""
PRIVILEGES = """
SELECT DISTINCT granted.privilege_type FROM pg_class c, aclexplode(c.relacl) AS granted
WHERE c.relnamespace = 'clew'::regnamespace AND granted.grantee IN (0, 'clew_app'::regrole) ORDER BY 1
"""
DEFINERS = """
SELECT proname FROM pg_proc WHERE pronamespace = 'clew'::regnamespace AND prosecdef ORDER BY 1
"""
LOOSE_FUNCTIONS = """
SELECT proname FROM pg_proc WHERE pronamespace = 'clew'::regnamespace AND prosecdef
  AND NOT coalesce(array_to_string(proconfig, ';') LIKE '%search_path=pg_catalog, pg_temp%', false)
"""
OVERREACHING = [
    "ALTER TABLE clew.threads DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE clew.threads NO FORCE ROW LEVEL SECURITY",
    "DROP POLICY scope ON clew.threads",
    "ALTER POLICY scope ON clew.threads USING (true)",
    "CREATE POLICY wider ON clew.threads USING (true)",
    "CREATE OR REPLACE FUNCTION clew.enter(text, text) RETURNS void LANGUAGE sql AS ''",
    "CREATE TABLE clew.later (tenant text)",
    "DROP TABLE clew.threads",
    "UPDATE clew.meta SET schema = 0",
    "CREATE ROLE another",
    "SET row_security = off; SELECT * FROM clew.threads",
    "COPY clew.threads TO PROGRAM 'true'",
]
"""What would get the app out of its policies, if it were allowed."""


OWNERS = """
SELECT proname FROM pg_proc
WHERE pronamespace = 'clew'::regnamespace AND pg_get_userbyid(proowner) NOT LIKE 'clew!_%' ESCAPE '!'
UNION ALL SELECT relname FROM pg_class
WHERE relnamespace = 'clew'::regnamespace AND pg_get_userbyid(relowner) <> 'clew_owner'
"""


async def fill(url: str) -> None:
    """At least one row in every table, for each of two users of each of two tenants."""
    async with clew.open(url) as db:
        for tenant in ("acme", "other"):
            for user in ("alice", "bob"):
                view = db.scope(tenant=tenant, user=user)
                await fill_for(view, user)
                await index_threads(view.store, Scope(tenant=tenant, user=user))
                await view.thread(f"{user}-s1").append(items=[clew.user("not indexed yet")])


async def fill_for(db: clew.Database, user: str) -> None:
    thread = await db.create(f"{user}-s1")
    note = clew.set(["note"], "n" * 5000)
    for number in range(3):
        await thread.append(items=[clew.user(f"secret of {user}")], patches=[note], key=f"key {number}")
    await thread.log().pop()
    await thread.fork(f"{user}-s2")
    record = Record(kind="fact", id=f"of {user}", body={}, tags=("tag",))
    vector = vector_record(f"vector of {user}", VECTOR, owner=user)
    await db.commit([Put(record=record), Put(record=vector), Enqueue(job=Job(id=f"job of {user}", kind="k"))])
    text = ProvisionalText(
        thread=f"{user}-s1", owner=user, run="run", version=3, step=1, attempt=1, parts=(b"secret",)
    )
    texts = provisional_texts(db.store)
    assert texts is not None
    await texts.begin(Scope(tenant=db.tenant, user=user), text, 10)


@pytest.fixture
async def full_database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    await fill(postgres_database.url)
    return postgres_database


@pytest.fixture
def login(postgres_database: PostgresDatabase) -> Iterator[str]:
    """A role that may log in and is one of the app's."""
    name = f"login_{uuid4().hex}"
    role = sql.Identifier(name)
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE clew_app").format(role))
    yield name
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
async def app(full_database: PostgresDatabase, login: str) -> AsyncIterator[Raw]:
    """A connection of the app's with no scope."""
    with psycopg.connect(full_database.url_for(login), autocommit=True) as connection:
        yield connection


def tables(connection: Raw) -> list[str]:
    """Every table that holds what belongs to a tenant."""
    return [name for (name,) in connection.execute(TABLES) if name != "meta"]


def count(connection: Raw, table: str, *, where: str = "true") -> int:
    query = sql.SQL("SELECT count(*) FROM clew.{} WHERE " + where).format(sql.Identifier(table))
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def enter(connection: Raw, tenant: str, reach: str, user: str) -> None:
    """Take on a scope for the rest of the session."""
    query = """
        SELECT set_config('clew.tenant', %s, false), set_config('clew.reach', %s, false),
               set_config('clew.user', %s, false)
    """
    connection.execute(query, [tenant, reach, user])


class TestSchema:
    store_name = "postgres"

    def test_security_is_forced_on_every_table(self, postgres_database: PostgresDatabase) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            every, secure = admin.execute(TABLES).fetchall(), admin.execute(SECURE_TABLES).fetchall()

        assert len(every) == 17
        assert secure == every

    def test_the_tenant_comes_first_in_every_key(self, postgres_database: PostgresDatabase) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            assert admin.execute(FIRST_COLUMNS).fetchall() == []

    def test_no_body_is_jsonb_and_there_is_no_sequence(self, postgres_database: PostgresDatabase) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            assert admin.execute(BODIES).fetchall() == []
            assert admin.execute("SELECT * FROM pg_sequences WHERE schemaname = 'clew'").fetchall() == []

    def test_no_function_is_anybodys(self, postgres_database: PostgresDatabase) -> None:
        public = """
            SELECT p.oid::regprocedure FROM pg_proc p, aclexplode(p.proacl) AS granted
            WHERE p.pronamespace = 'clew'::regnamespace AND granted.grantee = 0
        """
        with psycopg.connect(postgres_database.url) as admin:
            assert admin.execute(public).fetchall() == []

    def test_the_roles_cannot_log_in_or_bypass(self, postgres_database: PostgresDatabase) -> None:
        query = """
            SELECT rolname FROM pg_roles
            WHERE rolname LIKE 'clew%' AND NOT (rolcanlogin OR rolsuper OR rolbypassrls) ORDER BY 1
        """
        with psycopg.connect(postgres_database.url) as admin:
            names = [name for (name,) in admin.execute(query)]

        assert names == ["clew_app", "clew_maintenance", "clew_owner"]


class TestCatalogue:
    """Everything that the catalogue lists, so that what is added later is looked at too."""

    store_name = "postgres"

    @pytest.mark.promise("F-10")
    def test_nothing_holds_rows_without_a_forced_policy(self, postgres_database: PostgresDatabase) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            assert admin.execute(INSECURE_RELATIONS).fetchall() == []
            assert admin.execute(OUTSIDE).fetchall() == []

    @pytest.mark.promise("F-10")
    def test_every_table_has_the_same_policy_and_no_wider_one(
        self, postgres_database: PostgresDatabase
    ) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            policies = admin.execute(POLICIES).fetchall()
            every = tables(admin)
        kinds = {row[1:] for row in policies}
        name, permissive, roles, command, using, check = next(iter(kinds))

        assert [row[0] for row in policies] == every
        assert len(kinds) == 1
        assert (name, permissive, roles, command) == ("scope", "PERMISSIVE", "{public}", "ALL")
        assert using == check
        assert all(f"clew.{word}" in using for word in ("tenant", "reach", "user"))

    @pytest.mark.promise("F-10")
    def test_the_app_can_do_nothing_that_no_policy_holds(self, app: Raw) -> None:
        privileges = [name for (name,) in app.execute(PRIVILEGES)]

        assert privileges == ["DELETE", "INSERT", "SELECT", "UPDATE"]
        for table in tables(app):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(sql.SQL("TRUNCATE clew.{}").format(sql.Identifier(table)))

    @pytest.mark.promise("F-10")
    def test_the_app_cannot_become_anybody_who_sees_more(self, app: Raw) -> None:
        for role in ("clew_owner", "clew_maintenance", "postgres"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))

    @pytest.mark.promise("F-10")
    @pytest.mark.parametrize("statement", OVERREACHING)
    def test_the_app_cannot_change_what_holds_it(
        self, login: str, postgres_database: PostgresDatabase, statement: str
    ) -> None:
        with (
            psycopg.connect(postgres_database.url_for(login)) as app,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            app.execute(statement.encode())

    def test_everything_belongs_to_roles_of_our_own(self, postgres_database: PostgresDatabase) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            assert admin.execute(OWNERS).fetchall() == []

    def test_what_runs_with_other_rights_is_listed_and_looks_nothing_up_elsewhere(
        self, postgres_database: PostgresDatabase
    ) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            names = [name for (name,) in admin.execute(DEFINERS)]

            # They apply the scope themselves; see TestRows.
            assert names == ["count_terms", "count_texts", "find_vectors", "find_words"]
            assert admin.execute(LOOSE_FUNCTIONS).fetchall() == []

    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TABLE clew.later (tenant text)",
            "CREATE VIEW clew.later AS SELECT * FROM clew.records",
            "CREATE SEQUENCE clew.later",
            "CREATE TABLE clew.later (tenant text); ALTER TABLE clew.later ENABLE ROW LEVEL SECURITY",
        ],
    )
    def test_what_is_added_without_a_forced_policy_is_found(
        self, postgres_database: PostgresDatabase, statement: str
    ) -> None:
        with psycopg.connect(postgres_database.url) as admin:
            admin.execute(statement.encode())

            assert admin.execute(INSECURE_RELATIONS).fetchall() == [("later",)]


class TestRows:
    store_name = "postgres"

    def test_every_table_has_rows_to_hide(self, full_database: PostgresDatabase) -> None:
        with psycopg.connect(full_database.url) as admin:
            empty = [table for table in tables(admin) if not count(admin, table, where="tenant = 'acme'")]

        assert empty == []

    @pytest.mark.parametrize(
        ("tenant", "reach", "user"),
        [
            (None, None, None),
            ("", "", ""),
            ("", "tenant", ""),
            ("acme", "", ""),
            ("acme", "user", ""),
            ("acme", "everybody", "alice"),
            ("nobody", "tenant", ""),
        ],
    )
    def test_without_a_whole_scope_nothing_is_seen(
        self, app: Raw, tenant: str | None, reach: str, user: str
    ) -> None:
        if tenant is not None:
            enter(app, tenant, reach, user)

        assert {table: count(app, table) for table in tables(app)} == dict.fromkeys(tables(app), 0)

    def test_a_tenant_sees_only_its_own_rows(self, app: Raw) -> None:
        enter(app, "acme", "tenant", "")

        for table in tables(app):
            assert count(app, table) > 0, table
            assert count(app, table, where="tenant <> 'acme'") == 0, table

    def test_a_user_sees_only_their_own_rows(self, app: Raw) -> None:
        enter(app, "acme", "user", "alice")

        for table in tables(app):
            assert count(app, table) > 0, table
            assert count(app, table, where="tenant <> 'acme' OR owner <> 'alice'") == 0, table

    def test_a_scope_is_believed_whoever_sets_it(self, app: Raw) -> None:
        """The limit of this layer, as the page on isolation says it: SQL of one's own may name any tenant."""
        counts = []
        for tenant in ("acme", "other"):
            enter(app, tenant, "tenant", "")
            counts.append(count(app, "threads"))

        assert all(counts)

    @pytest.mark.parametrize("scope", [("acme", "user", "alice"), ("", "", "")])
    def test_nothing_of_another_is_changed_or_deleted(self, app: Raw, scope: tuple[str, str, str]) -> None:
        enter(app, *scope)
        for table in tables(app):
            name = sql.Identifier(table)
            foreign = sql.SQL(" WHERE owner = 'bob' OR tenant = 'other'")
            update = app.execute(sql.SQL("UPDATE clew.{} SET owner = 'alice'").format(name) + foreign)
            deletion = app.execute(sql.SQL("DELETE FROM clew.{}").format(name) + foreign)

            assert (update.rowcount, deletion.rowcount) == (0, 0), table

    @pytest.mark.parametrize("change", ["tenant = 'other'", "owner = 'bob'"])
    def test_no_row_is_given_away(self, app: Raw, change: str) -> None:
        enter(app, "acme", "user", "alice")
        for table in tables(app):
            query = sql.SQL("UPDATE clew.{} SET " + change).format(sql.Identifier(table))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(query)

    def test_no_row_is_smuggled_in(self, app: Raw) -> None:
        enter(app, "acme", "user", "alice")
        for table in tables(app):
            copy = sql.SQL("INSERT INTO clew.{0} SELECT (jsonb_populate_record(t, {1})).* FROM clew.{0} t")
            body = sql.Literal('{"tenant": "other"}')
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(copy.format(sql.Identifier(table), body))

    @pytest.mark.parametrize(
        "query",
        [
            "SELECT thread FROM clew.find_words('secret', NULL, NULL, NULL, 'best', 100)",
            "SELECT thread FROM clew.count_terms('secret', '{secret}', NULL, NULL, NULL, 100)",
        ],
    )
    def test_a_search_keeps_to_the_scope_by_itself(self, app: Raw, query: LiteralString) -> None:
        nobody = app.execute(query).fetchall()
        enter(app, "acme", "user", "alice")
        alice = app.execute(query).fetchall()
        enter(app, "acme", "tenant", "")
        everybody = app.execute(query).fetchall()

        assert nobody == []
        assert {thread for (thread,) in alice} == {"alice-s1"}
        assert {thread for (thread,) in everybody} == {"alice-s1", "bob-s1"}

    def test_a_count_of_texts_keeps_to_the_scope_by_itself(self, app: Raw) -> None:
        query = "SELECT clew.count_texts(NULL, 100)"
        nobody = app.execute(query).fetchone()
        enter(app, "acme", "user", "alice")
        alice = app.execute(query).fetchone()
        enter(app, "acme", "tenant", "")
        everybody = app.execute(query).fetchone()
        texts = app.execute("SELECT owner, count(*) FROM clew.texts GROUP BY owner").fetchall()

        assert nobody == (0,)
        assert alice == (dict(texts)["alice"],)
        assert everybody == (sum(count for _, count in texts),)

    def test_maintenance_sees_every_tenant(self, full_database: PostgresDatabase) -> None:
        with psycopg.connect(full_database.url) as admin:
            admin.execute("SET ROLE clew_maintenance")
            tenants = admin.execute("SELECT DISTINCT tenant FROM clew.threads ORDER BY 1").fetchall()

        assert tenants == [("acme",), ("other",)]


class TestStore:
    store_name = "postgres"

    @pytest.mark.promise("S-05")
    async def test_a_member_of_the_app_can_do_everything(
        self, postgres_database: PostgresDatabase, login: str
    ) -> None:
        await fill(postgres_database.url_for(login))
        async with clew.open(postgres_database.url_for(login)) as db:
            report = await db.report()
            hits = await db.scope(tenant="acme", user="alice").search("secret")

        assert report.facts["bypasses_row_security"] is False
        assert report.problems == ()
        assert {hit.thread for hit in hits} == {"alice-s1"}

    async def test_a_role_that_can_bypass_is_reported(self, postgres_database: PostgresDatabase) -> None:
        async with clew.open(postgres_database.url) as db:
            report = await db.report()

        assert report.facts["bypasses_row_security"] is True
        assert "bypass" in report.problems[0]

    async def test_even_a_superusers_calls_are_held_to_the_policies(
        self, full_database: PostgresDatabase
    ) -> None:
        with psycopg.connect(full_database.url, autocommit=True) as admin:
            inside = admin.execute(
                "SELECT id FROM clew.threads('acme', 'bob', NULL, NULL, NULL, 9)"
            ).fetchall()
            other = admin.execute("SELECT id FROM clew.thread('acme', 'bob', 'alice-s1')").fetchall()

        assert set(inside) == {("bob-s1",), ("bob-s2",)}
        assert other == []

    async def test_no_scope_outlives_its_call(self, full_database: PostgresDatabase) -> None:
        store = await PostgresStore.open(f"{full_database.url}?pool_max=1")
        await clew.Database(store).scope(tenant="acme", user="alice").thread("alice-s1").head()
        pool = store._connections.pool
        async with pool.connection() as connection:
            row = await (await connection.execute(SESSION_SETTINGS)).fetchone()
        await store.close()

        assert row is not None
        assert (row[0] or "", row[1], row[2]) == ("", "postgres", "on")
