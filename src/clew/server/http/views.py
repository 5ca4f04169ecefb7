"""Values of the library as the wire has them."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clew.api.jobs import JobView
from clew.api.runs import RunView
from clew.api.sessions import EpisodeStatusView, EpisodeView
from clew.api.threads import (
    ChangesetView,
    CommitView,
    ItemPage,
    ItemView,
    MessageView,
    ParentView,
    ThreadDetail,
    ThreadView,
    UnreadableItemView,
)
from clew.api.turns import ApprovalView, TurnView, UsageView
from clew.core.encoding import JSON, as_json
from clew.core.messages.plain import with_tool_names
from clew.core.messages.projection import project_item
from clew.core.values import (
    Changeset,
    Committed,
    Head,
    Item,
    Job,
    Parent,
    ThreadSummary,
    UnreadableItem,
    Window,
)
from clew.runtime.records.episodes import Episode
from clew.runtime.records.runs import Run
from clew.runtime.state.call_state import Approval
from clew.runtime.turn.result import TurnResult
from clew.server.tenants.thread_list import ThreadTexts


def parent_view(parent: Parent | None) -> ParentView | None:
    """Return the thread and version that a fork comes from."""
    return ParentView(thread=parent.thread, version=parent.version) if parent is not None else None


def thread_view(summary: ThreadSummary, texts: ThreadTexts | None = None) -> ThreadView:
    """Return a thread as lists show it, with its first and last text if they are given."""
    return ThreadView(
        id=summary.id,
        owner=summary.owner,
        version=summary.version,
        created=summary.created,
        updated=summary.updated,
        title=summary.title,
        labels=list(summary.labels),
        parent=parent_view(summary.parent),
        items=summary.items,
        first=None if texts is None else texts.first,
        last=None if texts is None else texts.last,
    )


def thread_detail(head: Head, first: str | None = None) -> ThreadDetail:
    """Return a thread at one version, with its first message if that is given."""
    about = head.state.get("$thread")
    labels = about.get("labels", []) if isinstance(about, dict) else []
    return ThreadDetail(
        id=head.id,
        owner=head.owner,
        version=head.version,
        created=head.created,
        updated=head.updated,
        hash=head.hash.hex(),
        title=head.title,
        labels=labels if isinstance(labels, list) else [],
        parent=parent_view(head.parent),
        agent=head.agent,
        first=first,
        logs={name: size.length for name, size in head.counters.logs.items()},
        open_calls=list(head.counters.open),
    )


def item_view(item: Item) -> ItemView:
    """Return an item; bytes become base64."""
    body = base64.b64encode(item.body).decode() if isinstance(item.body, bytes) else item.body
    fields = {name: getattr(item, name) for name in ItemView.__struct_fields__}
    return ItemView(**{**fields, "body": body})


def unreadable_item_view(item: UnreadableItem) -> UnreadableItemView:
    """Return an entry that cannot be read."""
    return UnreadableItemView(log=item.log, place=item.place, version=item.version, problem=item.problem)


def item_page(thread: str, window: Window, next: str | None) -> ItemPage:
    """Return a page of items."""
    return ItemPage(
        thread=thread,
        version=window.version,
        items=[item_view(item) for item in window],
        next=next,
        broken=[unreadable_item_view(entry) for entry in window.broken],
    )


def message_views(items: Sequence[Item]) -> list[MessageView]:
    """Return items as messages, whatever their formats."""
    pairs = [(item, message) for item in items for message in project_item(item)]
    messages = with_tool_names(message for _, message in pairs)
    return [
        msgspec.convert(
            as_json(message)
            | {
                name: getattr(item, name)
                for name in ("place", "version", "time", "id", "format", "run", "visibility")
            }
            | {"meta": _application_meta(item)},
            MessageView,
        )
        for (item, _), message in zip(pairs, messages, strict=True)
    ]


def _application_meta(item: Item) -> JSON:
    """Return what an application added to an item of our own format."""
    meta = item.body.get("meta") if item.format == "clew" and isinstance(item.body, dict) else None
    return meta if isinstance(meta, dict) else {}


def changeset_view(change: Changeset) -> ChangesetView:
    """Return one change."""
    return ChangesetView(
        version=change.version,
        time=change.time,
        hash=change.hash.hex(),
        reason=change.reason,
        items=[item_view(item) for item in change.items],
        patches=as_json(change.patches),
        cuts=as_json(change.cuts),
        snapshot=change.snapshot,
        state_actions=list(change.state_actions),
        run_id=change.run_id,
        parent_run_id=change.parent_run_id,
        run_meta=change.run_meta,
        author=change.author,
        erased=bool(change.erased),
    )


def commit_view(commit: Committed) -> CommitView:
    """Return the version of a thread after a change."""
    return CommitView(
        thread=commit.thread,
        version=commit.version,
        time=commit.time,
        hash=commit.hash.hex(),
        repeated=commit.repeated,
    )


def approval_view(approval: Approval) -> ApprovalView:
    """Return a call that waits."""
    return msgspec.convert(as_json(approval), ApprovalView)


def turn_view(result: TurnResult[Any]) -> TurnView:
    """Return a turn that is over."""
    return TurnView(
        thread=result.thread,
        run=result.run,
        version=result.version,
        text=result.text,
        output=as_json(result.output),
        termination=result.termination,
        waiting=[approval_view(each) for each in result.waiting],
        usage=msgspec.convert(as_json(result.usage), UsageView),
        effects=as_json(list(result.effects)),
    )


def run_view(run: Run, approvals: Iterable[Approval] = ()) -> RunView:
    """Return a run, with the calls that it waits for, which its thread knows."""
    return RunView(
        id=run.id,
        thread=run.thread,
        status=run.status,
        origin=run.origin,
        started=run.started,
        parent=run.parent,
        user=run.user,
        ended=run.ended,
        termination=run.termination,
        problem=run.problem,
        usage=msgspec.convert(as_json(run.usage), UsageView),
        waiting=[approval_view(each) for each in approvals],
        in_doubt=list(run.in_doubt),
    )


def episode_view(episode: Episode) -> EpisodeView:
    """Return an episode without what was noticed in it."""
    fields = {name: getattr(episode, name) for name in EpisodeView.__struct_fields__ if name != "session"}
    return EpisodeView(session=episode.thread, **fields)


def episode_status_view(thread: str, episode: Episode | None) -> EpisodeStatusView:
    """Return the status of the episode of a session; ``none`` without an episode."""
    if episode is None:
        return EpisodeStatusView(session=thread)
    return EpisodeStatusView(session=thread, episode=episode.id, status=episode.status)


def job_view(job: Job, problem: str | None) -> JobView:
    """Return a job without its body, which may hold private data, and with its visible problem."""
    fields = {name: getattr(job, name) for name in JobView.__struct_fields__}
    return JobView(**{**fields, "problem": problem})
