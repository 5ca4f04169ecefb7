"""Calls of memory."""

from typing import Literal

from clew.api.memory import (
    AUDIT_MEMORY,
    CATCH_UP,
    CORRECT_MEMORY,
    EXPORT_MEMORY,
    FORGET_MEMORY,
    GET_MEMORY,
    LIST_MEMORY,
    SET_RECALL,
    UNDO_MEMORY,
    CatchUp,
    ForgetView,
    MemoryAuditView,
    MemoryPage,
    NewCorrection,
    NewForgetRequest,
    NewUndo,
    RecallSetting,
    UndoView,
)
from clew.client.call import ApiCall, CallMethod, api_call
from clew.core.encoding import JSON


class MemoryMethods:
    """Calls of memory: that of a user, or with ``thread`` that of a thread which is nobody's."""

    @CallMethod
    def memory(
        self,
        *,
        kind: Literal["facts", "arcs"] = "facts",
        at: str | None = None,
        past: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        user: str | None = None,
        thread: str | None = None,
    ) -> ApiCall[MemoryPage]:
        """Return a memory, page by page: ``at`` a time ("2026-05"), or also what held once with ``past``."""
        return api_call(
            LIST_MEMORY, kind=kind, at=at, past=past, limit=limit, cursor=cursor, user=user, thread=thread
        )

    @CallMethod
    def audit_memory(self, *, user: str | None = None, thread: str | None = None) -> ApiCall[MemoryAuditView]:
        """Check every fact of a memory for its quote, its turn, and what excludes it."""
        return api_call(AUDIT_MEMORY, user=user, thread=thread)

    @CallMethod
    def memory_entry(
        self, id: str, *, user: str | None = None, thread: str | None = None
    ) -> ApiCall[dict[str, JSON]]:
        """Return one fact, arc or rule."""
        return api_call(GET_MEMORY, id, user=user, thread=thread)

    @CallMethod
    def catch_up(self, *, user: str | None = None, thread: str | None = None) -> ApiCall[CatchUp]:
        """Return the last session in a line, for the beginning of another."""
        return api_call(CATCH_UP, user=user, thread=thread)

    @CallMethod
    def export_memory(
        self, *, user: str | None = None, thread: str | None = None
    ) -> ApiCall[dict[str, JSON]]:
        """Return the whole memory, as one document."""
        return api_call(EXPORT_MEMORY, user=user, thread=thread)

    @CallMethod
    def correct_memory(
        self,
        id: str,
        object: str,
        *,
        negated: bool = False,
        since: str | None = None,
        user: str | None = None,
        thread: str | None = None,
        key: str | None = None,
    ) -> ApiCall[dict[str, JSON]]:
        """Correct a fact or a rule; a fact that was right until a time, ``since`` that time."""
        body = NewCorrection(object=object, negated=negated, since=since)
        return api_call(CORRECT_MEMORY, id, body=body, key=key, user=user, thread=thread)

    @CallMethod
    def forget_memory(
        self,
        ids: list[str],
        *,
        confirmed: bool = False,
        user: str | None = None,
        thread: str | None = None,
        key: str | None = None,
    ) -> ApiCall[ForgetView]:
        """Forget some entries: they are first shown, then confirmed."""
        body = NewForgetRequest(ids=ids, confirmed=confirmed)
        return api_call(FORGET_MEMORY, body=body, key=key, user=user, thread=thread)

    @CallMethod
    def undo_memory(
        self,
        version: int | None = None,
        *,
        user: str | None = None,
        thread: str | None = None,
        key: str | None = None,
    ) -> ApiCall[UndoView]:
        """Undo the last change of a memory."""
        return api_call(UNDO_MEMORY, body=NewUndo(version=version), key=key, user=user, thread=thread)

    @CallMethod
    def set_recall(
        self, *, on: bool, user: str | None = None, thread: str | None = None
    ) -> ApiCall[RecallSetting]:
        """Let memory be recalled in turns, or not."""
        return api_call(SET_RECALL, body=RecallSetting(on=on), user=user, thread=thread)
