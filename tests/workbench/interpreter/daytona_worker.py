"""The process behind a context of the stand-in: it reads code as JSON lines and writes pieces of output.

It behaves as the provider's own does where that matters to us: a piece goes out with each line or each
kilobyte, an interrupt is told apart from an error, and standard input is where the commands come from.
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import traceback
from types import FrameType


class Pieces(io.TextIOBase):
    """A stream that sends what is written to it onwards."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._buffer = ""

    def write(self, text: str) -> int:
        """Hold the text until there is a line, or enough of it."""
        self._buffer += text
        if "\n" in text or len(self._buffer) >= 1024:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what is held."""
        text, self._buffer = self._buffer, ""
        if text:
            send(type=self._kind, text=text)


def send(**piece: str) -> None:
    """Write one piece."""
    sys.__stdout__.write(json.dumps(piece) + "\n")  # type: ignore[union-attr]  # it is a pipe here
    sys.__stdout__.flush()  # type: ignore[union-attr]  # it is a pipe here


def run(code: str, names: dict[str, object]) -> None:
    """Run one piece of code and say how it ended."""
    out, err, end = Pieces("stdout"), Pieces("stderr"), "completed"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            exec(compile(code, "<string>", "exec"), names)
    except KeyboardInterrupt:
        end = "interrupted"
    except Exception as error:  # noqa: BLE001  # whatever the code raises is its output
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<string>"
        ]
        places = "".join(f"  line {frame.lineno}, in {frame.name}\n" for frame in frames)
        trace = f"Traceback (most recent call last):\n{places}{type(error).__name__}: {error}"
        out.flush()
        send(type="error", name=type(error).__name__, value=str(error), traceback=trace)
    out.flush()
    err.flush()
    send(type="control", text=end)


def stop(number: int, frame: FrameType | None) -> None:
    """End at once when told to."""
    sys.exit(0)


def main() -> None:
    """Take one command after the other."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, stop)
    names: dict[str, object] = {"__name__": "__main__"}
    while True:
        try:
            if not (line := sys.stdin.readline()):
                return
            run(json.loads(line)["code"], names)
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    main()
