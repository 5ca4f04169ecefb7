"""Server-sent events, line by line."""

from collections.abc import Iterator

import msgspec

from clew.api.problems import error_from_problem
from clew.api.threads import Problem, StreamEvent

END_EVENT = "end"
PROBLEM_EVENT = "problem"


class EventReader:
    """Makes events of the lines of a stream, and knows the last id and whether the stream has ended well."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.is_over = False
        self._id: str | None = None
        self._type = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[StreamEvent]:
        """The event that a line completes, if it does.

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
