"""Calls of turns."""

import secrets
from collections.abc import Sequence
from typing import cast

from clew.api.events import StreamEvent
from clew.api.route import Route
from clew.api.turns import POST_TURN, ChannelName, MemoryModeName, NewTurn, TurnView, WhenBusy
from clew.client.call import ApiCall, CallMethod, StreamMethod, api_call

TURN_EVENTS = cast("Route[StreamEvent]", POST_TURN)
"""The same route, whose reply is a stream of events if the client accepts one."""


class TurnMethods:
    """Calls of turns."""

    @CallMethod
    def run_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: MemoryModeName | None = None,
        message_id: str | None = None,
        busy: WhenBusy = "wait",
        channel: ChannelName = "web",
        installed_skills: Sequence[str] = (),
        agent: str | None = None,
        key: str | None = None,
    ) -> ApiCall[TurnView]:
        """Run one turn, and return its result."""
        body = NewTurn(
            message=message,
            user=user,
            mode=mode,
            message_id=message_id,
            busy=busy,
            channel=channel,
            installed_skills=tuple(installed_skills),
            agent=agent,
        )
        return api_call(POST_TURN, thread, body=body, key=key)

    @StreamMethod
    def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: MemoryModeName | None = None,
        busy: WhenBusy = "wait",
        channel: ChannelName = "web",
        installed_skills: Sequence[str] = (),
        agent: str | None = None,
        key: str | None = None,
        after: str | None = None,
    ) -> ApiCall[StreamEvent]:
        """Run one turn, and iterate over its events as they come. A lost connection is made again."""
        body = NewTurn(
            message=message,
            user=user,
            mode=mode,
            busy=busy,
            channel=channel,
            installed_skills=tuple(installed_skills),
            agent=agent,
        )
        # Without a key the second connection would begin a second turn.
        return api_call(TURN_EVENTS, thread, body=body, key=key or secrets.token_hex(16), last_event=after)
