"""How things look: from values to text, tables and JSON. Pure."""

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
from clew.core.messages.projection import project
from clew.core.ops import Document, Increment, Op, Path, Set
from clew.core.ops import name_of as op_name
from clew.core.ports import Report
from clew.core.values import DEFAULT_TENANT, Broken, Changeset, Head, Item, Page, Window
from clew.database.verify import Verdict

PREVIEW = 400
SHOWN_HEADS = 20
CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
CONTROLS |= {127: 0x2421} | dict.fromkeys(range(128, 160), 0xFFFD)
ROLES = {"user": "bold cyan", "assistant": "bold green", "system": "bold yellow", "tool": "bold magenta"}


# JSON.


def as_json(value: object) -> str:
    """A value as JSON text: hashes in hexadecimal, other bytes in base64."""
    plain = _plain(msgspec.to_builtins(value, builtin_types=(bytes,)), "")
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any, key: str) -> JSON:
    match value:
        case bytes():
            return value.hex() if key == "hash" else base64.b64encode(value).decode()
        case dict():
            return {name: _plain(part, name) for name, part in value.items()}
        case list() | tuple():
            return [_plain(part, key) for part in value]
        case _:
            return value


def error_value(error: Exception) -> dict[str, JSON]:
    """An error as JSON: its code, its sentence and its facts."""
    facts = error.facts() if isinstance(error, ClewError) else {}
    return {"error": {"code": _code(error), "message": _sentence(error), **facts}}


def error_line(error: Exception) -> Text:
    """An error as one line."""
    return Text.assemble(("error: ", "bold red"), clean(_sentence(error)), (f" ({_code(error)})", "dim"))


def _code(error: Exception) -> str:
    if isinstance(error, ClewError):
        return error.code
    return "file_error" if isinstance(error, OSError) else "unexpected"


def _sentence(error: Exception) -> str:
    if isinstance(error, ClewError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'}: {error.strerror or error}."
    return f"Something unforeseen: {type(error).__name__}: {error}. CLEW_DEBUG=1 shows where."


# Small parts.


def clean(text: str) -> str:
    """Text that cannot move the cursor or change colours: control characters become pictures."""
    return text.translate(CONTROLS)


def when(time: int) -> str:
    """A time to the second, in UTC."""
    return datetime.fromtimestamp(time / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def short(value: JSON, width: int = 60) -> str:
    """A value in a few letters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = clean(" ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def path_of(path: Path) -> str:
    """A path as one reads it: ``progress.week[2]``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{clean(key)}" for key in path]
    return "".join(parts).lstrip(".") or "(the whole state)"


def op_line(op: Op) -> str:
    """An op in a few words."""
    where = path_of(op.path)
    match op:
        case Set():
            return f"{where} = {short(op.value, 30)}"
        case Increment():
            return f"{where} {'+' if op.value >= 0 else '−'} {abs(op.value)}"
    value = getattr(op, "value", None)
    return f"{op_name(op)} {where}" + ("" if value is None else f" {short(value, 30)}")


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """An empty table; some columns flush right, some folded and never cut."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold" if name in fold else "ellipsis",
            no_wrap=name not in fold,
            min_width=12 if name in fold else len(name),
        )
    return made


def facts() -> Table:
    """An empty table of names and values."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def said(item: Item) -> str:
    """What an item says, whatever its format."""
    told = "\n".join(line for message in project(item) for line in _lines(message))
    if not told and isinstance(item.body, bytes):
        return f"‹{len(item.body):,} bytes of {item.format}, {item.codec}›"
    return told or short(item.body, PREVIEW)


def _lines(message: PlainMessage) -> Iterator[str]:
    """What a message says, what it calls, and what tools gave."""
    if message.text:
        yield message.text
    yield from (f"{call.name}({short(call.arguments, PREVIEW)})" for call in message.calls)
    yield from (short(result.output, PREVIEW) for result in message.results)


# Looking.


def threads(page: Page) -> RenderableType:
    """A page of threads."""
    if not page.threads and not page.broken:
        return Text("There are no threads here.")
    titled, owned = any(t.title for t in page.threads), any(t.owner for t in page.threads)
    columns = ["thread", "version", "items", "updated (UTC)", *["owner"] * owned, *["title"] * titled]
    shown = table(*columns, right=("version", "items"), fold=("thread",))
    for each in page.threads:
        cells = [clean(each.id), str(each.version), f"{each.items:,}", when(each.updated)]
        cells += [clean(each.owner or "")] * owned + [clean(each.title or "")] * titled
        shown.add_row(*map(Text, cells))
    broken = [
        Text(f"{clean(id)} cannot be read: {clean(page.broken[id])}", style="red") for id in page.broken
    ]
    more = [Text(f"\nMore: --after '{clean(page.next)}'", style="dim")] if page.next else []
    return Group(*([shown] if page.threads else []), *broken, *more)


def thread(head: Head, window: Window, log: str) -> RenderableType:
    """A thread: what it is, its state, and the end of a log."""
    parts: list[RenderableType] = [title(head), about(head)]
    if head.state:
        parts += [Text("\nState", style="bold"), state(head.state)]
    length = head.length(log)
    count = f"the last {len(window)} of {length:,} items" if len(window) < length else f"{length:,} items"
    parts += [Text(f"\n{clean(log)} · {count}", style="bold"), transcript(window)]
    return Group(*parts)


def title(head: Head) -> Text:
    """A thread's id, and its title if it has one."""
    words = f"  “{clean(head.title)}”" if head.title else ""
    return Text.assemble((clean(head.id), "bold"), words)


def about(head: Head) -> Text:
    """What a thread is, in a line or two."""
    facts = [f"version {head.version}", f"owner {clean(head.owner)}" if head.owner else "no owner"]
    facts += [f"created {when(head.created)}", f"updated {when(head.updated)} UTC"]
    if head.parent:
        facts.append(f"forked from {clean(head.parent.thread)} at {head.parent.version}")
    return Text(" · ".join([*facts, f"hash {head.hash.hex()[:12]}"]), style="dim")


def state(document: Document) -> Text:
    """A state document, indented."""
    return Text(clean(json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)))


def transcript(window: Window) -> RenderableType:
    """Items one below the other, and what could not be read among them."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(justify="right", style="dim", no_wrap=True)
    shown.add_column(no_wrap=True, max_width=12)
    shown.add_column(overflow="fold")
    entries: list[Item | Broken] = sorted([*window.items, *window.broken], key=lambda entry: entry.place)
    for entry in entries:
        shown.add_row(f"v{entry.version}", *_entry(entry))
    return shown if entries else Text("(nothing)", style="dim")


def _entry(entry: Item | Broken) -> tuple[Text, Text]:
    if isinstance(entry, Broken):
        return Text("unreadable", style="bold red"), Text(clean(entry.problem), style="red")
    name = entry.role or entry.kind
    text = clean(said(entry))
    long = text if len(text) <= PREVIEW * 10 else f"{text[: PREVIEW * 10]}… ({len(text):,} characters)"
    return Text(clean(name), style=ROLES.get(entry.role, "bold")), Text(long)


def messages(told: Sequence[PlainMessage]) -> RenderableType:
    """Plain messages one below the other."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(no_wrap=True, max_width=12)
    shown.add_column(overflow="fold")
    for message in told:
        name = Text(clean(message.role), style=ROLES.get(message.role, "bold"))
        shown.add_row(name, Text(clean("\n".join(_lines(message)))))
    return shown if told else Text("(nothing)", style="dim")


class Fitted:
    """Something that looks different in a narrow and in a wide terminal."""

    def __init__(self, shown: Callable[[int], RenderableType]) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._shown(options.max_width)


def timeline(changes: Sequence[Changeset]) -> RenderableType:
    """Changesets, one line each."""
    if not changes:
        return Text("There are no changesets yet.")
    return Fitted(lambda width: _timeline(changes, width))


def _timeline(changes: Sequence[Changeset], width: int) -> Table:
    """As many columns as there is room for; the last but one takes what the others leave."""
    days = {when(change.time)[5:10] for change in changes}
    clock = slice(0, 19) if len(days) > 1 else slice(11, 19)
    word = 24 if width >= 110 else 13
    columns = {
        "ver": [str(change.version) for change in changes],
        "time (UTC)" if len(days) > 1 else f"{min(days)} UTC": [
            when(change.time)[clock] for change in changes
        ],
        "reason": [short(change.reason, word) for change in changes],
    }
    if width >= 70:
        columns["author"] = [short(change.author or "", word - 3) for change in changes]
        columns["run"] = [short(change.run_id or "", word - 3) for change in changes]
    columns |= {"items": list(map(_items, changes)), "changes": list(map(_changes, changes))}
    columns["hash"] = [change.hash.hex()[:8] for change in changes]
    return _filled({name: cells for name, cells in columns.items() if any(cells) or name == "changes"})


def _filled(columns: Mapping[str, Sequence[str]]) -> Table:
    """A table in which only the column of changes is cut."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), expand=True)
    for name, cells in columns.items():
        right: JustifyMethod = "right" if name in ("ver", "items") else "left"
        if name == "changes":
            shown.add_column(name, no_wrap=True, ratio=1)
        else:
            shown.add_column(name, no_wrap=True, justify=right, width=max(map(len, [name, *cells])))
    for row in zip(*columns.values(), strict=True):
        shown.add_row(*map(Text, row))
    return shown


def _items(change: Changeset) -> str:
    ended = sum(cut.count for cut in change.cuts)
    return " ".join([f"+{len(change.items)}"] * bool(change.items) + [f"−{ended}"] * bool(ended))


def _changes(change: Changeset) -> str:
    """What a changeset does to the state: its named actions first, then its ops."""
    if change.erased:
        return "(erased)"
    actions = [_action(action) for action in change.state_actions]
    replaced = ["state replaced"] if change.snapshot is not None else []
    return "; ".join([*actions, *replaced, *map(op_line, change.patches)])


def _action(action: JSON) -> str:
    if isinstance(action, dict) and isinstance(action.get("name"), str):
        return f"{clean(action['name'])}({short(action.get('arguments', ''), 40)})"
    return short(action, 40)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions, or two threads: ops with the value before, and items."""

    before: str
    after: str
    ops: list[Op]
    old: Document
    added: list[Item]
    removed: list[Item]


def difference(found: Difference) -> RenderableType:
    """What differs, as one reads a diff."""
    parts: list[RenderableType] = [Text(f"{clean(found.before)} → {clean(found.after)}", style="bold")]
    for op in found.ops:
        parts += _op_lines(op, found.old)
    parts += [_sign("-", f"{item.role or item.kind}: {short(said(item), 200)}") for item in found.removed]
    parts += [_sign("+", f"{item.role or item.kind}: {short(said(item), 200)}") for item in found.added]
    if len(parts) == 1:
        parts.append(Text("Nothing differs."))
    return Group(*parts)


def _op_lines(op: Op, old: Document) -> Iterable[Text]:
    where, before = path_of(op.path), _at(old, op.path)
    if op_name(op) == "append":
        return [_sign("+", f"{where}[] = {short(getattr(op, 'value', None), 200)}")]
    lines = [] if before is None else [_sign("-", f"{where} = {short(before, 200)}")]
    return lines if op_name(op) == "delete" else [*lines, _sign("+", f"{where} = {short(op.value, 200)}")]  # type: ignore[union-attr]  # only Delete has no value


def _at(document: JSON, path: Path) -> JSON:
    for key in path:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _sign(sign: str, text: str) -> Text:
    return Text(f"{sign} {clean(text)}", style={"+": "green", "-": "red"}[sign])


# Keeping.


def some(count: int, noun: str) -> str:
    """A number of things in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def verdicts(found: Sequence[Verdict], missing: Sequence[str]) -> RenderableType:
    """What checking threads came to, with the hash of each head; ``missing`` are heads kept outside."""
    shown = table("", "thread", "version", "head hash", right=("version",), fold=("thread",))
    for verdict in found:
        mark = Text("ok", style="green") if verdict.ok else Text("BAD", style="bold red")
        name = Text(clean(name_of(verdict.tenant, verdict.thread)))
        shown.add_row(mark, name, str(verdict.version), verdict.hash[:32])
    parts: list[RenderableType] = [shown, Text()] if found else []
    parts += problems_of(found)
    parts += [_sign("-", problem) for problem in missing]
    parts += [
        Text(f"  {clean(name_of(v.tenant, v.thread))}: erased on purpose: {clean(e)}")
        for v in found
        for e in v.erased
    ]
    return Group(*parts, _outcome(found, missing))


def problems_of(found: Sequence[Verdict]) -> list[Text]:
    """What is wrong with threads, one line each."""
    return [_sign("-", f"{name_of(v.tenant, v.thread)}: {problem}") for v in found for problem in v.problems]


def name_of(tenant: str, thread: str) -> str:
    """A thread among those of several tenants."""
    return thread if tenant == DEFAULT_TENANT else f"{thread} of tenant {tenant!r}"


def _outcome(found: Sequence[Verdict], missing: Sequence[str]) -> Text:
    bad, erased = sum(not v.ok for v in found), sum(len(v.erased) for v in found)
    parts = [f"{bad:,} with problems"] if bad else []
    parts += [f"{some(len(missing), 'head')} kept outside not found"] if missing else []
    parts += [] if parts else ["all is well"]
    parts += [f"{some(erased, 'part')} erased on purpose"] if erased else []
    tenants = sorted({verdict.tenant for verdict in found})
    whose = f"tenant {clean(tenants[0])!r}" if len(tenants) == 1 else some(len(tenants), "tenant")
    words = f"{some(len(found), 'thread')} of {whose} checked: {', '.join(parts)}."
    return Text(words, style="bold red" if bad or missing else "bold green")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A head to be kept outside: with it, a changeset dropped later is found."""

    tenant: str = DEFAULT_TENANT
    thread: str
    version: int
    hash: str


class Heads(msgspec.Struct, frozen=True, kw_only=True):
    """What verify, export and backup write with ``--json``, as far as heads go."""

    threads: list[Kept]


def kept(sentence: str, heads: Sequence[Kept]) -> RenderableType:
    """What was moved, and the heads to be kept outside."""
    shown = table("thread", "version", "head hash", right=("version",), fold=("thread",))
    for head in heads[:SHOWN_HEADS]:
        name = Text(clean(name_of(head.tenant, head.thread)))
        shown.add_row(name, str(head.version), head.hash[:32])
    parts: list[RenderableType] = [Text(sentence, style="bold")]
    if heads:
        parts += [Text(), shown]
    if len(heads) > SHOWN_HEADS:
        parts.append(Text(f"… and {len(heads) - SHOWN_HEADS:,} more; --json lists all of them.", style="dim"))
    return Group(*parts)


# Tending.


def report(found: Report, environment: dict[str, str], problems: Sequence[str]) -> RenderableType:
    """What a store and its surroundings say about themselves."""
    shown = facts()
    every = {"store": found.store, "format": found.format, **found.facts, **environment}
    for name, value in every.items():
        shown.add_row(name.replace("_", " "), Text(_fact(value)))
    lines = [_sign("-", problem) for problem in problems] or [Text("Nothing is wrong.", style="green")]
    return Group(shown, Text(), *lines)


def _fact(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:,}" if isinstance(value, int) else clean(str(value))
