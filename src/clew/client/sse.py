"""Server-sent events, line by line."""

from collections.abc import Iterator

import msgspec

from clew.api.problems import error_from
from clew.api.threads import Problem, Told

END = "end"
PROBLEM = "problem"


class Reader:
    """Makes events of the lines of a stream, and knows the last id and whether the stream has ended well."""

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        self.ended = False
        self._id: str | None = None
        self._type = "message"
        self._data: list[str] = []

    def take(self, line: str) -> Iterator[Told]:
        """The event that a line completes, if it does.

        Raises:
            ClewError: The stream ends with a problem.
        """
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            yield from self._complete()
        elif name == "id":
            self._id = value
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)

    def _complete(self) -> Iterator[Told]:
        id, kind, data = self._id, self._type, "\n".join(self._data)
        self._id, self._type, self._data = None, "message", []
        if not data:
            return
        if kind == END:
            self.ended = True
        elif kind == PROBLEM:
            self.ended = True
            raise error_from(msgspec.json.decode(data, type=Problem))
        else:
            self.last = id if id is not None else self.last
            yield Told(type=kind, data=msgspec.json.decode(data), id=id)
