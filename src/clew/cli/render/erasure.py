"""How receipts, holds and retention rules look. Pure."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.render.values import clean, facts, some, table, when
from clew.core.erasure.receipts import COMPLETE, PREVIEW, Receipt
from clew.core.erasure.retention import Rule
from clew.core.log.holds import Hold
from clew.database.retention import Applied

STYLES = {COMPLETE: "green", PREVIEW: "cyan"}


def receipt(found: Receipt) -> RenderableType:
    """One receipt, with all that it says."""
    shown = facts()
    if found.id:
        shown.add_row("receipt", found.id)
        shown.add_row("begun", when(found.time))
        shown.add_row("subject", f"{found.what} {found.subject}")
    for name, count in sorted(found.counts.items()):
        shown.add_row(clean(name), f"{count:,}")
    for kept in found.kept:
        until = f", until {when(kept.until)}" if kept.until is not None else ""
        shown.add_row("kept", f"{kept.count:,} of kind {clean(kept.kind)}{until}")
    for reason in found.waiting:
        shown.add_row("waits", clean(reason))
    for place in found.beyond:
        shown.add_row("out of reach", clean(place))
    if found.hash:
        shown.add_row("hash", found.hash)
    return Group(shown, Text(), outcome(found))


def outcome(found: Receipt) -> Text:
    """What a receipt comes to, in a sentence."""
    if found.status == PREVIEW and not found.counts:
        return Text("There is nothing to erase. Check the name, and --tenant.")
    words = {
        PREVIEW: "This would be erased. Nothing was removed.",
        COMPLETE: "Erased. The receipt is kept.",
    }
    sentence = words.get(found.status, "Erased from the database, but traces wait to be removed: settle it.")
    return Text(sentence, style=STYLES.get(found.status, "yellow"))


def receipts(found: Sequence[Receipt]) -> RenderableType:
    """All receipts, a line each."""
    if not found:
        return Text("Nothing was erased yet.")
    shown = table("receipt", "begun", "what", "threads", "items", "status", right=("threads", "items"))
    for each in found:
        counts = [f"{each.counts.get(name, 0):,}" for name in ("threads", "items")]
        status = Text(each.status, style=STYLES.get(each.status, "yellow"))
        shown.add_row(each.id, when(each.time), each.what, *counts, status)
    return shown


def holds(found: Sequence[Hold]) -> RenderableType:
    """All holds, a line each."""
    if not found:
        return Text("Nothing is held.")
    shown = table("what", "name", "since", "reason", fold=("name", "reason"))
    for hold in found:
        shown.add_row(hold.what, Text(clean(hold.name)), when(hold.since), Text(clean(hold.reason)))
    return shown


def applied(found: Sequence[Applied], *, dry_run: bool) -> RenderableType:
    """What rules let go."""
    if not found:
        return Text("There is no rule. Give --older-than, or put one in force with --keep.")
    parts = [_let_go(each, dry_run=dry_run) for each in found]
    return Group(*parts)


def _let_go(each: Applied, *, dry_run: bool) -> Text:
    verb = "would go" if dry_run else "went"
    held = f"; {some(each.held, 'thread')} held" if each.held else ""
    receipt = f" ({each.receipt.id}, {each.receipt.status})" if each.receipt is not None else ""
    return Text(f"{clean(each.rule)}: {some(len(each.threads), 'thread')} {verb}{held}{receipt}.")


def rules(found: Sequence[Rule]) -> RenderableType:
    """The rules in force."""
    shown = table("rule", "days", "label", right=("days",))
    for rule in found:
        shown.add_row(Text(clean(rule.name)), f"{rule.days:g}", Text(clean(rule.label or "any")))
    return shown if found else Text("There is no rule.")
