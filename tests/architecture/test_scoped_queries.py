"""On SQLite nothing but the query itself keeps tenants and users apart: every query is read for it."""

from __future__ import annotations

import re

import pytest

from clew.stores.sqlite.connection import QUERIES
from tests.architecture.source import SOURCES, modules

TENANT = re.compile(r"\b(?:\w+\.)?tenant = :tenant\b")
USER = re.compile(r":user IS NULL (?:AND\b|OR (?:\w+\.)?:?owner = :user\b)")
SCOPE_INSERT = re.compile(
    r"^INSERT INTO (?:threads|records|jobs|vector_blocks) \([^)]*\btenant\b[^)]*\)\s*SELECT [^;]*:tenant\b",
    re.DOTALL,
)
EMPTY = re.compile(r":(\w+) (?:=|IS) :\1\b")
"""A condition that is always true: it takes a parameter and binds nothing by it."""

STATEMENT = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE)\b.*\b(?:FROM|INTO|SET)\b", re.DOTALL)

UNBOUND = {
    "it adds below a thread that the same transaction has found in scope, by advance or add_thread": [
        "add_anchor",
        "add_changeset",
        "add_cut",
        "add_four_items",
        "add_item",
        "add_key",
        "add_log",
        "add_name",
        "add_unindexed",
        "log",
    ],
    "it takes away what hide_thread or orphan has found in scope, in the same transaction": [
        "purge_anchors",
        "purge_changesets",
        "purge_cuts",
        "purge_indexed",
        "purge_items",
        "purge_keys",
        "purge_logs",
        "purge_names",
        "purge_unindexed",
        "purge_text_rows",
        "purge_texts",
    ],
    "it erases the words of an item that erase_item has found in scope, in the same transaction": [
        "erase_text",
        "erase_text_row",
    ],
    "it indexes a text that unindexed has found in scope": [
        "add_text",
        "add_text_row",
        "set_indexed",
        "text_row",
    ],
    "it goes with a record that save_record or drop_record has found in scope": ["add_tags", "drop_tags"],
    "it names the tenants, for operators: no route of the server asks for them": ["tenants"],
    "it reads no row of anybody": ["last_thread_key"],
    "it tidies the index of words as a whole, and touches one row that is nobody's": [
        "merge_index",
        "drop_placeholder_text",
        "add_placeholder_text",
    ],
}


def is_bound(query: str) -> bool:
    """Whether a query reaches only what is the tenant's, and the user's if there is one."""
    text = EMPTY.sub("true", query)
    return bool(USER.search(text)) and bool(TENANT.search(text) or SCOPE_INSERT.search(text))


def test_every_query_is_bound_to_tenant_and_user_or_listed_with_its_reason() -> None:
    unbound = sorted(name for name, query in QUERIES.items() if not is_bound(str(query)))

    assert unbound == sorted(name for names in UNBOUND.values() for name in names)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT body FROM records WHERE kind = :kind",
        "SELECT body FROM records WHERE tenant = :tenant",
        "SELECT body FROM records WHERE :user IS NULL OR owner = :user",
        "SELECT body FROM records WHERE :tenant = :tenant AND (:user IS NULL OR owner = :user)",
        "SELECT body FROM records WHERE tenant = :tenant AND :user IS :user",
        "SELECT body FROM records WHERE tenant <> :tenant AND (:user IS NULL OR owner = :user)",
        "INSERT INTO records (tenant, body) SELECT 'acme', :body WHERE :user IS NULL OR :owner = :user",
    ],
)
def test_a_query_that_is_not_bound_is_found(query: str) -> None:
    assert not is_bound(query)


def test_no_module_has_sql_of_its_own() -> None:
    """Only what asks for the schema itself, before there is anything to protect."""
    own = [
        module.name
        for module in modules(*SOURCES)
        if any(STATEMENT.search(line) for line in module.text.splitlines() if "execute(" in line)
    ]

    assert own == ["src/clew/stores/sqlite/connection.py"]
