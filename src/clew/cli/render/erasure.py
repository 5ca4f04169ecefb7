"""Views of receipts, holds and retention rules. Pure."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.render.values import clean, empty_details, empty_table, quantity, utc_time
from clew.core.erasure.receipts import COMPLETE, PREVIEW, Receipt
from clew.core.erasure.retention import RetentionRule
from clew.core.log.holds import Hold
from clew.database.retention import RuleResult

STYLES = {COMPLETE: "green", PREVIEW: "cyan"}


def receipt_detail(receipt: Receipt) -> RenderableType:
    """One receipt, with all that it says."""
    details = empty_details()
    if receipt.id:
        details.add_row("receipt", receipt.id)
        details.add_row("begun", utc_time(receipt.time))
        details.add_row("subject", f"{receipt.what} {receipt.subject}")
    for name, count in sorted(receipt.counts.items()):
        details.add_row(clean(name), f"{count:,}")
    for rest in receipt.kept:
        until = f", until {utc_time(rest.until)}" if rest.until is not None else ""
        details.add_row("kept", f"{rest.count:,} of kind {clean(rest.kind)}{until}")
    for reason in receipt.waiting:
        details.add_row("waits", clean(reason))
    for place in receipt.beyond:
        details.add_row("out of reach", clean(place))
    if receipt.hash:
        details.add_row("hash", receipt.hash)
    return Group(details, Text(), outcome_text(receipt))


def outcome_text(receipt: Receipt) -> Text:
    """The outcome of a receipt, in a sentence."""
    if receipt.status == PREVIEW and not receipt.counts:
        return Text("There is nothing to erase. Check the name, and --tenant.")
    words = {
        PREVIEW: "This would be erased. Nothing was removed.",
        COMPLETE: "Erased. The receipt is kept.",
    }
    sentence = words.get(
        receipt.status, "Erased from the database, but traces wait to be removed: settle it."
    )
    return Text(sentence, style=STYLES.get(receipt.status, "yellow"))


def receipt_table(receipts: Sequence[Receipt]) -> RenderableType:
    """All receipts, a line each."""
    if not receipts:
        return Text("Nothing was erased yet.")
    table = empty_table("receipt", "begun", "what", "threads", "items", "status", right=("threads", "items"))
    for each in receipts:
        counts = [f"{each.counts.get(name, 0):,}" for name in ("threads", "items")]
        status = Text(each.status, style=STYLES.get(each.status, "yellow"))
        table.add_row(each.id, utc_time(each.time), each.what, *counts, status)
    return table


def hold_table(holds: Sequence[Hold]) -> RenderableType:
    """All holds, a line each."""
    if not holds:
        return Text("Nothing is held.")
    table = empty_table("what", "name", "since", "reason", fold=("name", "reason"))
    for hold in holds:
        table.add_row(hold.what, Text(clean(hold.name)), utc_time(hold.since), Text(clean(hold.reason)))
    return table


def rule_result_lines(results: Sequence[RuleResult], *, dry_run: bool) -> RenderableType:
    """The results of retention rules."""
    if not results:
        return Text("There is no rule. Give --older-than, or put one in force with --keep.")
    parts = [_rule_result_line(each, dry_run=dry_run) for each in results]
    return Group(*parts)


def _rule_result_line(result: RuleResult, *, dry_run: bool) -> Text:
    verb = "would go" if dry_run else "went"
    hold_note = f"; {quantity(result.held, 'thread')} held" if result.held else ""
    receipt = f" ({result.receipt.id}, {result.receipt.status})" if result.receipt is not None else ""
    return Text(
        f"{clean(result.rule)}: {quantity(len(result.threads), 'thread')} {verb}{hold_note}{receipt}."
    )


def rule_table(rules: Sequence[RetentionRule]) -> RenderableType:
    """The rules in force."""
    table = empty_table("rule", "days", "label", right=("days",))
    for rule in rules:
        table.add_row(Text(clean(rule.name)), f"{rule.days:g}", Text(clean(rule.label or "any")))
    return table if rules else Text("There is no rule.")
