"""SQLite stores with one fault each, to see whether the shipped contract would notice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from clew.core.encoding import JSON, encode
from clew.core.log import checks, codec, reader
from clew.core.log.codec import content_of
from clew.core.log.commit import Plan, PlanContext
from clew.core.log.rows import Advance, ChangesetRow, ItemRow
from clew.core.ops import Document, apply_ops
from clew.core.values import Scope
from clew.stores.sqlite import answers, row_writes
from clew.stores.sqlite.connection import QUERIES, rows_of
from clew.stores.sqlite.row_writes import SqlWrites
from clew.stores.sqlite.transactions import Transactions

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """A fault, and the part of the contract that is to find it."""

    plant: Plant
    contract: str


def rewrite(text: str, pattern: str, by: str) -> str:
    """Some SQL with one thing changed; the fault must not be planted in vain."""
    sql, count = re.subn(pattern, by, text, flags=re.DOTALL)
    assert count >= 1, f"{pattern!r} is no longer in the SQL; write this mutant anew."
    return sql


def query(name: str, pattern: str, by: str) -> Plant:
    """A fault in one named query."""
    return lambda patch: patch.setitem(QUERIES, name, rewrite(QUERIES[name], pattern, by))


def lost_update(patch: pytest.MonkeyPatch) -> None:
    """A changeset is written over another writer's of the same version."""
    careless = rewrite(
        row_writes._ADVANCE, r"AND :before = CASE.*?END", "AND :before IS :before AND :before_version > -1"
    )
    patch.setattr(row_writes, "_ADVANCE", rewrite(careless, "INSERT INTO", "INSERT OR REPLACE INTO"))


def half_batch(patch: pytest.MonkeyPatch) -> None:
    """Only the first half of a batch is written."""
    whole = SqlWrites._add_items

    def half(self: SqlWrites, key: int, items: Sequence[ItemRow]) -> None:
        whole(self, key, items[: (len(items) + 1) // 2])

    patch.setattr(SqlWrites, "_add_items", half)


def state_actions_dropped(patch: pytest.MonkeyPatch) -> None:
    """A changeset is kept without its state actions."""
    whole = SqlWrites._by_write[Advance]

    def poorer(self: SqlWrites, write: Advance) -> None:
        fields = json.loads(write.change.content or b"{}")
        fields.pop("state_actions", None)
        content = encode(fields) if fields else None
        whole(
            self,
            msgspec.structs.replace(write, change=msgspec.structs.replace(write.change, content=content)),
        )

    patch.setitem(SqlWrites._by_write, Advance, poorer)


def retry_doubles(patch: pytest.MonkeyPatch) -> None:
    """Idempotency keys are forgotten."""
    patch.setattr(SqlWrites, "_add_key", lambda self, step: None)


def snapshot_after_patches(patch: pytest.MonkeyPatch) -> None:
    """A snapshot undoes the patches that come with it."""

    def fold(state: Document, row: ChangesetRow) -> Document:
        content = content_of(row)
        after = apply_ops(state, content.patches)
        return after if content.snapshot is None else content.snapshot

    patch.setattr(reader, "fold_changeset", fold)


def commit_on_failure(patch: pytest.MonkeyPatch) -> None:
    """What was written before a commit failed stays."""

    def apply(self: Transactions, plan: Plan, scope: Scope) -> None:
        self._sql_writes.apply(plan.writes, scope)

    patch.setattr(Transactions, "_apply_in_savepoint", apply)


def one_key_for_two(patch: pytest.MonkeyPatch) -> None:
    """Threads that are made together get the same key."""

    def careless(self: Transactions) -> int:
        rows = rows_of(self._connection, QUERIES["last_thread_key"], ())
        return int(rows[0][0]) + 1 if rows else 1

    patch.setattr(Transactions, "_new_key", careless)


def empty_salt(patch: pytest.MonkeyPatch) -> None:
    """Bodies enter the chain without a salt, so that the same words can be told by their hash."""
    honest = Transactions._plan_context

    def constant(self: Transactions, scope: Scope, *, fresh: bool) -> PlanContext:
        return msgspec.structs.replace(honest(self, scope, fresh=fresh), random=bytes)

    patch.setattr(Transactions, "_plan_context", constant)


def damage_hides_neighbours(patch: pytest.MonkeyPatch) -> None:
    """One row that cannot be read makes the whole list unreadable."""
    patch.setattr(answers, "_row_or_unreadable", answers.thread_row)


def nan_accepted(patch: pytest.MonkeyPatch) -> None:
    """Values are encoded without a look at them."""

    def encode_anything(value: JSON, path: str = "$") -> tuple[bytes, Any]:
        data = encode(value)
        return data, msgspec.json.decode(data)

    for module in (codec, checks):
        patch.setattr(module, "encode_checked", encode_anything)


MUTANTS = {
    "lost update": Mutant(lost_update, "shared_data.SharingContract"),
    "half batch": Mutant(half_batch, "items.WindowContract"),
    "wrong window": Mutant(
        query("items_backwards", "ORDER BY at DESC", "ORDER BY at"), "items.WindowContract"
    ),
    "tenant ignored": Mutant(
        query("thread", "tenant = :tenant", ":tenant IS NOT NULL"), "scopes.ScopeContract"
    ),
    "user ignored": Mutant(
        query("thread", r"\(:user IS NULL OR owner = :user\)", ":user IS :user"), "scopes.ScopeContract"
    ),
    "record's owner ignored": Mutant(
        query("record", r"\(:user IS NULL OR owner = :user\)", ":user IS :user"), "scopes.ScopeContract"
    ),
    "one key for two threads": Mutant(one_key_for_two, "records.CommitContract"),
    "no salt": Mutant(empty_salt, "chain.ChainContract"),
    "damage hides its neighbours": Mutant(damage_hides_neighbours, "items.BrokenContract"),
    "state actions dropped": Mutant(state_actions_dropped, "appends.AppendContract"),
    "retry doubles": Mutant(retry_doubles, "keys.IdempotencyContract"),
    "snapshot applied after patches": Mutant(snapshot_after_patches, "appends.AppendContract"),
    "parent's pop seen by child": Mutant(
        query("cuts", "version <= :upto", ":upto IS NOT NULL"), "forks.ForkContract"
    ),
    "commit on failure": Mutant(commit_on_failure, "keys.IdempotencyContract"),
    "NaN accepted": Mutant(nan_accepted, "bad_input.BadInputContract"),
}
