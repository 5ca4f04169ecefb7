"""The named queries of the two stores: the same names for the same thing, in the same order."""

from __future__ import annotations

from clew.stores.postgres.schema import QUERIES as POSTGRES
from clew.stores.sqlite.connection import QUERIES as SQLITE

ONLY_SQLITE = {
    "the head is the last changeset, not a column": ["head", "rename_thread"],
    "a function chooses its order and its filter by its values": [
        "items_whole",
        "records_newest",
        "records_tagged",
        "records_tagged_newest",
        "threads_owned",
    ],
    "a function writes all that goes with a changeset": [
        "add_item",
        "add_four_items",
        "add_name",
        "add_cut",
        "add_anchor",
        "add_key",
        "add_unindexed",
    ],
    "threads and logs are numbered by the file": ["log", "add_log", "logs_of", "last_thread_key"],
    "a function restores many changesets at once": ["add_changeset"],
    "a function copies a whole lineage": [
        "copy_changesets",
        "copy_items",
        "copy_cuts",
        "copy_names",
        "copy_anchors",
    ],
    "a function drops a thread and all that goes with it": [
        "hide_thread",
        "orphan",
        "purge_items",
        "purge_cuts",
        "purge_changesets",
        "purge_anchors",
        "purge_names",
        "purge_keys",
        "purge_texts",
        "purge_text_rows",
        "purge_unindexed",
        "purge_indexed",
        "purge_logs",
        "purge_thread",
    ],
    "a function erases parts of a thread": [
        "erase_item",
        "erase_item_key",
        "erase_text",
        "erase_text_row",
        "erase_content",
        "erase_content_key",
        "erase_states",
    ],
    "the index of a file is merged by hand": ["add_placeholder_text", "merge_index", "drop_placeholder_text"],
    "a function tags what it saves": ["add_tags", "drop_tags"],
    "vectors lie in blocks, where a server has a row and an index for each": [
        "vector_place",
        "set_vector_place",
        "open_vector_block",
        "vector_slots",
        "add_vector_block",
        "count_free_slots",
        "drop_vector_block",
        "vector_blocks",
        "records_placed",
    ],
    "a function claims jobs, since others claim at the same moment": ["due_jobs"],
    "a function indexes many texts at once": [
        "add_text",
        "add_text_row",
        "text_row",
        "set_indexed",
        "drop_unindexed",
    ],
}
ONLY_POSTGRES = {
    "the hot path has a statement of its own, and one for many threads": ["advance_one", "advance_many"],
    "one function where the file needs several statements": [
        "restore_changesets",
        "restore_items",
        "copy_lineage",
        "drop_thread",
        "erase_parts",
        "index",
        "claim",
    ],
    "texts of running answers are rows, where a file has others beside it": [
        "begin_provisional",
        "extend_provisional",
        "provisional",
        "provisional_headers",
        "drop_provisional",
    ],
    "a pragma tells of commits": ["seen"],
    "a file is used by one machine, which has a clock": ["server_time"],
    "a server is vacuumed, unless somebody keeps removed rows alive": ["moment", "holding", "vacuum"],
    "a dump is loaded beside what it replaces, where a file has another name": [
        "export_snapshot",
        "heads",
        "wait_for_locks",
        "lock_tables",
        "put_schema_aside",
        "drop_schema_aside",
        "let_maintenance_own",
        "let_maintenance_own_no_more",
        "reset_settings",
        "reset_role",
    ],
    "a function finds and reads the records of vectors in one trip": ["nearest"],
    "an extension that the server may not have": ["add_vector_indexes"],
    "several records or places in one trip, where a file has no trips": [
        "records_named",
        "items_at",
        "cuts_at",
    ],
    "a lock that one writer alone does not need": ["check_record"],
    "pragmas tell the file's schema and health": [
        "has_schema",
        "schema",
        "set_schema",
        "lock_schema",
        "about_server",
    ],
}


def names_in(reasons: dict[str, list[str]]) -> list[str]:
    return sorted(name for names in reasons.values() for name in names)


def test_what_both_stores_have_stands_in_the_same_order() -> None:
    assert [name for name in SQLITE if name in POSTGRES] == [name for name in POSTGRES if name in SQLITE]


def test_what_only_one_store_has_is_listed_with_its_reason() -> None:
    assert sorted(SQLITE.keys() - POSTGRES.keys()) == names_in(ONLY_SQLITE)
    assert sorted(POSTGRES.keys() - SQLITE.keys()) == names_in(ONLY_POSTGRES)
