"""Calls that follow threads, event by event."""

from clew.api.events import FOLLOW_THREAD, FOLLOW_THREADS, StreamEvent
from clew.client.call import ApiCall, StreamMethod, api_call


class EventMethods:
    """Calls that follow threads, event by event; a lost connection is made again."""

    @StreamMethod
    def follow(
        self, thread: str, *, after: str | None = None, run: str | None = None
    ) -> ApiCall[StreamEvent]:
        """Iterate over the durable events of a thread as they commit; with a run, until it has ended."""
        return api_call(FOLLOW_THREAD, thread, last_event=after, run=run)

    @StreamMethod
    def follow_threads(self, *, after: str | None = None, wait: bool = True) -> ApiCall[StreamEvent]:
        """Iterate over threads as they are made, changed and deleted."""
        return api_call(FOLLOW_THREADS, last_event=after, wait=None if wait else False)
