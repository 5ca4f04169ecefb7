"""Server-sent events: read line by line, over as many connections as it takes."""

from collections.abc import Iterator

import msgspec

from clew.api.events import END_EVENT, EVENT_STREAM_TYPE, PROBLEM_EVENT, StreamEvent
from clew.api.problems import Problem, error_from_problem
from clew.api.route import LAST_EVENT_ID
from clew.core.errors import ClewError

STREAM_ATTEMPTS = 5
"""How often a lost stream is resumed in a row without a single new event."""
PAUSE_SECONDS = 0.2
"""The pause before the first of them; each one after it is twice as long."""


class EventReader:
    """Reads events from the lines of a stream. It knows the last id, and whether the stream is over."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.is_over = False
        self._id: str | None = None
        self._type = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[StreamEvent]:
        """Yield the event that a line completes, if it does.

        Raises:
            ClewError: The stream ends with a problem.
        """
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            yield from self._complete_event()
        elif name == "id":
            self._id = value
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)

    def _complete_event(self) -> Iterator[StreamEvent]:
        id, kind, data = self._id, self._type, "\n".join(self._data)
        self._id, self._type, self._data = None, "message", []
        if not data:
            return
        if kind == END_EVENT:
            self.is_over = True
        elif kind == PROBLEM_EVENT:
            self.is_over = True
            raise error_from_problem(msgspec.json.decode(data, type=Problem))
        else:
            self.last_id = id if id is not None else self.last_id
            yield StreamEvent(type=kind, data=msgspec.json.decode(data), id=id)


class TextPosition:
    """The position in the text of a running answer: a new connection sends it from its beginning again."""

    def __init__(self) -> None:
        self._answer: tuple[object, ...] | None = None
        self._length = 0

    def new_part(self, event: StreamEvent) -> StreamEvent | None:
        """Return an event, if it is text without what came before; None if nothing is left of it."""
        if event.type == "run_started":
            self._answer = None  # a run that goes on answers anew
        if event.type != "text":
            return event
        answer = tuple(event.data.get(name) for name in ("run", "step", "attempt"))
        text, offset = event.data["text"], event.data.get("offset", 0)
        if answer != self._answer:
            self._answer, self._length = answer, 0
        known = max(self._length - offset, 0)
        self._length = max(self._length, offset + len(text))
        if known == 0:
            return event
        data = {**event.data, "text": text[known:], "offset": offset + known}
        return StreamEvent(type=event.type, data=data, id=event.id) if text[known:] else None


class ResumableStream:
    """One stream over several connections, each of which goes on behind the last event of the one before.

    It does no I/O: a client asks it for headers, feeds it lines, and tells it when a connection was lost.
    """

    def __init__(self, last_id: str | None) -> None:
        self._reader = EventReader(last_id)
        self._position = TextPosition()
        self._failures = 0

    @property
    def is_over(self) -> bool:
        """True once the server has said that the stream is over."""
        return self._reader.is_over

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next connection."""
        last_id = self._reader.last_id
        return {"Accept": EVENT_STREAM_TYPE, **({} if last_id is None else {LAST_EVENT_ID: last_id})}

    @property
    def pause_seconds(self) -> float:
        """The pause before the next connection."""
        return float(PAUSE_SECONDS * 2 ** max(0, self._failures - 1))

    def feed(self, line: str) -> Iterator[StreamEvent]:
        """Yield the event that a line completes, if it does.

        Raises:
            ClewError: The stream ends with a problem.
        """
        for event in self._reader.feed(line):
            part = self._position.new_part(event)
            if part is not None:
                self._failures = 0  # only connections that bring nothing new are counted
                yield part

    def count_failure(self, error: ClewError) -> None:
        """Count a connection that was lost before the stream was over.

        Raises:
            ClewError: The given one, once there were too many in a row.
        """
        self._failures += 1
        if self._failures >= STREAM_ATTEMPTS:
            raise error
