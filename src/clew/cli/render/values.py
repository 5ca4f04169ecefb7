"""Views of values: text, tables and JSON. Pure."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from clew.core.encoding import JSON
from clew.core.errors import ClewError
from clew.core.messages.plain import PlainMessage
from clew.core.messages.projection import project_item
from clew.core.ops import Delete, Document, Increment, Op, Path, Set, op_name
from clew.core.ports import StoreReport
from clew.core.values import DEFAULT_TENANT, Changeset, Head, Item, SummaryPage, UnreadableItem, Window
from clew.database.verify import Verdict

PREVIEW_LENGTH = 400
MOST_HEADS = 20
CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
CONTROL_PICTURES |= {127: 0x2421} | dict.fromkeys(range(128, 160), 0xFFFD)
ROLE_STYLES = {
    "user": "bold cyan",
    "assistant": "bold green",
    "system": "bold yellow",
    "tool": "bold magenta",
}


# JSON.


def as_json(value: object) -> str:
    """A value as JSON text: hashes in hexadecimal, other bytes in base64."""
    plain = _without_bytes(msgspec.to_builtins(value, builtin_types=(bytes,)), "")
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _without_bytes(value: Any, key: str) -> JSON:
    match value:
        case bytes():
            return value.hex() if key == "hash" else base64.b64encode(value).decode()
        case dict():
            return {name: _without_bytes(part, name) for name, part in value.items()}
        case list() | tuple():
            return [_without_bytes(part, key) for part in value]
        case _:
            return value


def error_value(error: Exception) -> dict[str, JSON]:
    """An error as JSON: its code, its sentence and its facts."""
    facts = error.facts() if isinstance(error, ClewError) else {}
    return {"error": {"code": _error_code(error), "message": _error_sentence(error), **facts}}


def error_line(error: Exception) -> Text:
    """An error as one line."""
    return Text.assemble(
        ("error: ", "bold red"), clean(_error_sentence(error)), (f" ({_error_code(error)})", "dim")
    )


def _error_code(error: Exception) -> str:
    if isinstance(error, ClewError):
        return error.code
    return "file_error" if isinstance(error, OSError) else "unexpected"


def _error_sentence(error: Exception) -> str:
    if isinstance(error, ClewError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'}: {error.strerror or error}."
    return f"Something unforeseen: {type(error).__name__}: {error}. CLEW_DEBUG=1 shows where."


# Small parts.


def clean(text: str) -> str:
    """Text that cannot move the cursor or change colours: control characters become pictures."""
    return text.translate(CONTROL_PICTURES)


def utc_time(time: int) -> str:
    """A time to the second, in UTC."""
    return datetime.fromtimestamp(time / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def shorten(value: JSON, width: int = 60) -> str:
    """A value in a few letters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = clean(" ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def path_text(path: Path) -> str:
    """A path as one reads it: ``progress.week[2]``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{clean(key)}" for key in path]
    return "".join(parts).lstrip(".") or "(the whole state)"


def op_line(op: Op) -> str:
    """An op in a few words."""
    where = path_text(op.path)
    match op:
        case Set():
            return f"{where} = {shorten(op.value, 30)}"
        case Increment():
            return f"{where} {'+' if op.value >= 0 else '−'} {abs(op.value)}"
    value = getattr(op, "value", None)
    return f"{op_name(op)} {where}" + ("" if value is None else f" {shorten(value, 30)}")


def empty_table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """An empty table; some columns flush right, some folded and never cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold" if name in fold else "ellipsis",
            no_wrap=name not in fold,
            min_width=12 if name in fold else len(name),
        )
    return table


def empty_details() -> Table:
    """An empty table of names and values."""
    details = Table.grid(padding=(0, 2))
    details.add_column(style="dim", no_wrap=True)
    details.add_column(overflow="fold")
    return details


def item_text(item: Item) -> str:
    """The text of an item in any format."""
    text = "\n".join(line for message in project_item(item) for line in _message_lines(message))
    if not text and isinstance(item.body, bytes):
        return f"‹{len(item.body):,} bytes of {item.format}, {item.codec}›"
    return text or shorten(item.body, PREVIEW_LENGTH)


def _message_lines(message: PlainMessage) -> Iterator[str]:
    """The text, the calls and the tool results of a message."""
    if message.text:
        yield message.text
    yield from (f"{call.name}({shorten(call.arguments, PREVIEW_LENGTH)})" for call in message.calls)
    yield from (shorten(result.output, PREVIEW_LENGTH) for result in message.results)


# Looking.


def thread_table(page: SummaryPage) -> RenderableType:
    """A page of threads."""
    if not page.threads and not page.broken:
        return Text("There are no threads here.")
    has_titles, has_owners = any(t.title for t in page.threads), any(t.owner for t in page.threads)
    columns = [
        "thread",
        "version",
        "items",
        "updated (UTC)",
        *["owner"] * has_owners,
        *["title"] * has_titles,
    ]
    table = empty_table(*columns, right=("version", "items"), fold=("thread",))
    for each in page.threads:
        cells = [clean(each.id), str(each.version), f"{each.items:,}", utc_time(each.updated)]
        cells += [clean(each.owner or "")] * has_owners + [clean(each.title or "")] * has_titles
        table.add_row(*map(Text, cells))
    unreadable = [
        Text(f"{clean(id)} cannot be read: {clean(page.broken[id])}", style="red") for id in page.broken
    ]
    more = [Text(f"\nMore: --after '{clean(page.next)}'", style="dim")] if page.next else []
    return Group(*([table] if page.threads else []), *unreadable, *more)


def thread_detail(head: Head, window: Window, log: str) -> RenderableType:
    """A thread: what it is, its state, and the end of a log."""
    parts: list[RenderableType] = [thread_title(head), thread_facts(head)]
    if head.state:
        parts += [Text("\nState", style="bold"), state_text(head.state)]
    length = head.length(log)
    count = f"the last {len(window)} of {length:,} items" if len(window) < length else f"{length:,} items"
    parts += [Text(f"\n{clean(log)} · {count}", style="bold"), transcript(window)]
    return Group(*parts)


def thread_title(head: Head) -> Text:
    """A thread's id, and its title if it has one."""
    words = f"  “{clean(head.title)}”" if head.title else ""
    return Text.assemble((clean(head.id), "bold"), words)


def thread_facts(head: Head) -> Text:
    """The facts about a thread, in a line or two."""
    facts = [f"version {head.version}", f"owner {clean(head.owner)}" if head.owner else "no owner"]
    facts += [f"created {utc_time(head.created)}", f"updated {utc_time(head.updated)} UTC"]
    if head.parent:
        facts.append(f"forked from {clean(head.parent.thread)} at {head.parent.version}")
    return Text(" · ".join([*facts, f"hash {head.hash.hex()[:12]}"]), style="dim")


def state_text(document: Document) -> Text:
    """A state document, indented."""
    return Text(clean(json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)))


def transcript(window: Window) -> RenderableType:
    """Items one below the other, and what could not be read among them."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(no_wrap=True, max_width=12)
    grid.add_column(overflow="fold")
    entries: list[Item | UnreadableItem] = sorted(
        [*window.items, *window.broken], key=lambda entry: entry.place
    )
    for entry in entries:
        grid.add_row(f"v{entry.version}", *_entry_cells(entry))
    return grid if entries else Text("(nothing)", style="dim")


def _entry_cells(entry: Item | UnreadableItem) -> tuple[Text, Text]:
    if isinstance(entry, UnreadableItem):
        return Text("unreadable", style="bold red"), Text(clean(entry.problem), style="red")
    name = entry.role or entry.kind
    text = clean(item_text(entry))
    body = (
        text
        if len(text) <= PREVIEW_LENGTH * 10
        else f"{text[: PREVIEW_LENGTH * 10]}… ({len(text):,} characters)"
    )
    return Text(clean(name), style=ROLE_STYLES.get(entry.role, "bold")), Text(body)


def message_grid(messages: Sequence[PlainMessage]) -> RenderableType:
    """Plain messages one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, max_width=12)
    grid.add_column(overflow="fold")
    for message in messages:
        name = Text(clean(message.role), style=ROLE_STYLES.get(message.role, "bold"))
        grid.add_row(name, Text(clean("\n".join(_message_lines(message)))))
    return grid if messages else Text("(nothing)", style="dim")


class WidthRenderable:
    """Something that looks different in a narrow and in a wide terminal."""

    def __init__(self, render: Callable[[int], RenderableType]) -> None:
        self._render = render

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._render(options.max_width)


def changeset_table(changes: Sequence[Changeset]) -> RenderableType:
    """Changesets, one line each."""
    if not changes:
        return Text("There are no changesets yet.")
    return WidthRenderable(lambda width: _changesets_in_width(changes, width))


def _changesets_in_width(changes: Sequence[Changeset], width: int) -> Table:
    """As many columns as there is room for; the last but one takes what the others leave."""
    days = {utc_time(change.time)[5:10] for change in changes}
    time_slice = slice(0, 19) if len(days) > 1 else slice(11, 19)
    word_width = 24 if width >= 110 else 13
    columns = {
        "ver": [str(change.version) for change in changes],
        "time (UTC)" if len(days) > 1 else f"{min(days)} UTC": [
            utc_time(change.time)[time_slice] for change in changes
        ],
        "reason": [shorten(change.reason, word_width) for change in changes],
    }
    if width >= 70:
        columns["author"] = [shorten(change.author or "", word_width - 3) for change in changes]
        columns["run"] = [shorten(change.run_id or "", word_width - 3) for change in changes]
    columns |= {"items": list(map(_item_counts, changes)), "changes": list(map(_state_changes, changes))}
    columns["hash"] = [change.hash.hex()[:8] for change in changes]
    return _table_of_columns(
        {name: cells for name, cells in columns.items() if any(cells) or name == "changes"}
    )


def _table_of_columns(columns: Mapping[str, Sequence[str]]) -> Table:
    """A table in which only the column of changes is cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), expand=True)
    for name, cells in columns.items():
        right: JustifyMethod = "right" if name in ("ver", "items") else "left"
        if name == "changes":
            table.add_column(name, no_wrap=True, ratio=1)
        else:
            table.add_column(name, no_wrap=True, justify=right, width=max(map(len, [name, *cells])))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, row))
    return table


def _item_counts(change: Changeset) -> str:
    cut_count = sum(cut.count for cut in change.cuts)
    return " ".join([f"+{len(change.items)}"] * bool(change.items) + [f"−{cut_count}"] * bool(cut_count))


def _state_changes(change: Changeset) -> str:
    """The changes of a changeset to the state: its named actions first, then its ops."""
    if change.erased:
        return "(erased)"
    actions = [_action_text(action) for action in change.state_actions]
    replacement = ["state replaced"] if change.snapshot is not None else []
    return "; ".join([*actions, *replacement, *map(op_line, change.patches)])


def _action_text(action: JSON) -> str:
    if isinstance(action, dict) and isinstance(action.get("name"), str):
        return f"{clean(action['name'])}({shorten(action.get('arguments', ''), 40)})"
    return shorten(action, 40)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two versions, or two threads: ops with the value before, and items."""

    before: str
    after: str
    ops: list[Op]
    old: Document
    added: list[Item]
    removed: list[Item]


def difference_detail(difference: Difference) -> RenderableType:
    """A difference, laid out like a diff."""
    parts: list[RenderableType] = [
        Text(f"{clean(difference.before)} → {clean(difference.after)}", style="bold")
    ]
    for op in difference.ops:
        parts += _op_lines(op, difference.old)
    parts += [
        _diff_line("-", f"{item.role or item.kind}: {shorten(item_text(item), 200)}")
        for item in difference.removed
    ]
    parts += [
        _diff_line("+", f"{item.role or item.kind}: {shorten(item_text(item), 200)}")
        for item in difference.added
    ]
    if len(parts) == 1:
        parts.append(Text("Nothing differs."))
    return Group(*parts)


def _op_lines(op: Op, old: Document) -> Iterable[Text]:
    where, before = path_text(op.path), _value_at(old, op.path)
    if op_name(op) == "append":
        return [_diff_line("+", f"{where}[] = {shorten(getattr(op, 'value', None), 200)}")]
    lines = [] if before is None else [_diff_line("-", f"{where} = {shorten(before, 200)}")]
    if isinstance(op, Delete):
        return lines
    return [*lines, _diff_line("+", f"{where} = {shorten(op.value, 200)}")]


def _value_at(document: JSON, path: Path) -> JSON:
    for key in path:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _diff_line(sign: str, text: str) -> Text:
    return Text(f"{sign} {clean(text)}", style={"+": "green", "-": "red"}[sign])


# Keeping.


def quantity(count: int, noun: str) -> str:
    """A number of things in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def verdict_table(verdicts: Sequence[Verdict], missing: Sequence[str]) -> RenderableType:
    """The results of verifying threads, with the hash of each head; ``missing`` are heads kept outside."""
    table = empty_table("", "thread", "version", "head hash", right=("version",), fold=("thread",))
    for verdict in verdicts:
        mark = Text("ok", style="green") if verdict.ok else Text("BAD", style="bold red")
        name = Text(clean(name_of(verdict.tenant, verdict.thread)))
        table.add_row(mark, name, str(verdict.version), verdict.hash[:32])
    parts: list[RenderableType] = [table, Text()] if verdicts else []
    parts += problems_of(verdicts)
    parts += [_diff_line("-", problem) for problem in missing]
    parts += [
        Text(f"  {clean(name_of(v.tenant, v.thread))}: erased on purpose: {clean(e)}")
        for v in verdicts
        for e in v.erased
    ]
    return Group(*parts, _verdict_summary(verdicts, missing))


def problems_of(found: Sequence[Verdict]) -> list[Text]:
    """The problems of threads, one line each."""
    return [
        _diff_line("-", f"{name_of(v.tenant, v.thread)}: {problem}") for v in found for problem in v.problems
    ]


def name_of(tenant: str, thread: str) -> str:
    """A thread among those of several tenants."""
    return thread if tenant == DEFAULT_TENANT else f"{thread} of tenant {tenant!r}"


def _verdict_summary(verdicts: Sequence[Verdict], missing: Sequence[str]) -> Text:
    failure_count, erasure_count = sum(not v.ok for v in verdicts), sum(len(v.erased) for v in verdicts)
    parts = [f"{failure_count:,} with problems"] if failure_count else []
    parts += [f"{quantity(len(missing), 'head')} kept outside not found"] if missing else []
    parts += [] if parts else ["all is well"]
    parts += [f"{quantity(erasure_count, 'part')} erased on purpose"] if erasure_count else []
    tenants = sorted({verdict.tenant for verdict in verdicts})
    whose = f"tenant {clean(tenants[0])!r}" if len(tenants) == 1 else quantity(len(tenants), "tenant")
    words = f"{quantity(len(verdicts), 'thread')} of {whose} checked: {', '.join(parts)}."
    return Text(words, style="bold red" if failure_count or missing else "bold green")


class HeadHash(msgspec.Struct, frozen=True, kw_only=True):
    """A head to be kept outside: with it, a changeset dropped later is found."""

    tenant: str = DEFAULT_TENANT
    thread: str
    version: int
    hash: str


class HeadsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The heads in the output of verify, export and backup with ``--json``."""

    threads: list[HeadHash]


def head_table(sentence: str, heads: Sequence[HeadHash]) -> RenderableType:
    """The threads that were moved, with the heads to be kept outside."""
    table = empty_table("thread", "version", "head hash", right=("version",), fold=("thread",))
    for head in heads[:MOST_HEADS]:
        name = Text(clean(name_of(head.tenant, head.thread)))
        table.add_row(name, str(head.version), head.hash[:32])
    parts: list[RenderableType] = [Text(sentence, style="bold")]
    if heads:
        parts += [Text(), table]
    if len(heads) > MOST_HEADS:
        parts.append(Text(f"… and {len(heads) - MOST_HEADS:,} more; --json lists all of them.", style="dim"))
    return Group(*parts)


# Tending.


def store_report(report: StoreReport, environment: dict[str, str], problems: Sequence[str]) -> RenderableType:
    """The report of a store and its surroundings."""
    details = empty_details()
    rows = {"store": report.store, "format": report.format, **report.facts, **environment}
    for name, value in rows.items():
        details.add_row(name.replace("_", " "), Text(_fact_text(value)))
    lines = [_diff_line("-", problem) for problem in problems] or [Text("Nothing is wrong.", style="green")]
    return Group(details, Text(), *lines)


def _fact_text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:,}" if isinstance(value, int) else clean(str(value))
