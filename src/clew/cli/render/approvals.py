"""Views of calls that wait for a person. Pure."""

import json
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, empty_details, empty_table, shorten, utc_time
from clew.core.encoding import JSON, as_json
from clew.runtime.turn.inbox import WaitingCall
from clew.runtime.turn.result import TurnResult

QUESTIONS = {
    "approval": "May this be done?",
    "input": "The tool asks something.",
    "in doubt": "Was this done? The process ended while the call was at work.",
}


def waiting_call_value(waiting: WaitingCall) -> dict[str, JSON]:
    """A call that waits, as JSON, with its run, its thread and its agent."""
    value: dict[str, JSON] = {
        "run": waiting.run.id,
        "thread": waiting.run.thread,
        "agent": waiting.agent,
        "user": waiting.owner,
        "title": waiting.title,
        "since": waiting.since,
    }
    fields: dict[str, JSON] = msgspec.to_builtins(waiting.approval)
    return value | fields


def waiting_call_table(calls: Sequence[WaitingCall]) -> RenderableType:
    """Calls that wait, one line each."""
    if not calls:
        return Text("Nothing waits for a decision.")
    table = empty_table("run", "call", "tool", "arguments", "agent", "since (UTC)", fold=("run", "arguments"))
    for waiting in calls:
        approval = waiting.approval
        cells = [clean(waiting.run.id), clean(approval.call), clean(approval.tool)]
        cells += [shorten(approval.arguments, 80), clean(waiting.agent), utc_time(waiting.since)]
        table.add_row(*map(Text, cells))
    return table


def waiting_call_line(waiting: WaitingCall) -> Text:
    """A call that waits, in one line."""
    approval = waiting.approval
    names = clean(f"{waiting.run.id} {approval.call} {approval.tool}")
    return Text(f"{utc_time(waiting.since)}  {names}  {shorten(approval.arguments, 80)}")


def waiting_call_details(calls: Sequence[WaitingCall]) -> RenderableType:
    """All about calls that wait."""
    return Group(*(part for waiting in calls for part in (_details(waiting), Text())))


def _details(waiting: WaitingCall) -> Table:
    approval = waiting.approval
    details = empty_details()
    details.add_row("question", QUESTIONS.get(approval.why, approval.why))
    details.add_row("tool", clean(approval.tool))
    details.add_row("arguments", Text(_json_text(approval.arguments)))
    if approval.question is not None:
        details.add_row("it asks", Text(_json_text(approval.question)))
    details.add_row("call", clean(approval.call))
    details.add_row("run", clean(waiting.run.id))
    details.add_row("thread", clean(waiting.run.thread))
    details.add_row("agent", clean(waiting.agent))
    details.add_row("user", clean(waiting.owner or "nobody"))
    details.add_row("since", f"{utc_time(waiting.since)} UTC")
    return details


def _json_text(value: JSON) -> str:
    return clean(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def decision_value(waiting: WaitingCall, decision: str, result: TurnResult | None) -> dict[str, JSON]:
    """A decision as JSON, with what the run did with it; no ``result`` if nothing was decided."""
    value: dict[str, JSON] = {
        "run": waiting.run.id,
        "thread": waiting.run.thread,
        "call": waiting.approval.call,
        "decision": decision if result is not None else None,
    }
    if result is None:
        return value
    waiting_calls = [as_json(each) for each in result.waiting]
    return value | {"termination": result.termination, "text": result.text, "waiting": waiting_calls}


def decision_text(sentence: str, result: TurnResult) -> RenderableType:
    """A decision, then the answer of the run, and what it waits for now."""
    parts = [Text(clean(sentence), style="bold")]
    if result.text:
        parts.append(Text(clean(result.text)))
    parts += [
        Text(clean(f"{each.tool} ({each.call}) waits for a decision."), style="yellow")
        for each in result.waiting
    ]
    return Group(*parts)
