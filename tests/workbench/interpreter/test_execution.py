"""One run as its reader sees it: outputs within the limit, and one end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.workbench.interpreter.execution import Execution, wait_for_end
from clew.workbench.interpreter.kernel import is_idle, output_of
from clew.workbench.interpreter.local import LocalInterpreter
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Output,
    OverflowOutput,
    Sandbox,
    StopOutput,
    StreamOutput,
)


async def outputs_of(execution: Execution) -> list[Output]:
    return [output async for output in execution.outputs()]


async def test_text_is_cut_at_the_limit_between_characters() -> None:
    execution = Execution(5)
    for text in ("ab", "日本", "c"):
        execution.take(StreamOutput("stdout", text))
    execution.finish(None)

    assert await outputs_of(execution) == [
        StreamOutput("stdout", "ab"),
        StreamOutput("stdout", "日"),
        OverflowOutput(4),
    ]


async def test_a_value_is_never_cut() -> None:
    execution = Execution(5)
    execution.take(DisplayOutput({"text/plain": "123456"}))
    execution.take(StreamOutput("stdout", "abc"))
    execution.finish(None)

    assert await outputs_of(execution) == [StreamOutput("stdout", "abc"), OverflowOutput(6)]


async def test_the_error_comes_last() -> None:
    execution = Execution(100)
    execution.take(ErrorOutput("E", "m", "t"))
    execution.take(StreamOutput("stderr", "late"))
    execution.finish(None)

    assert await outputs_of(execution) == [StreamOutput("stderr", "late"), ErrorOutput("E", "m", "t")]


async def test_a_stop_hides_the_error_by_which_it_was_obeyed() -> None:
    execution = Execution(100)
    stop = StopOutput("interrupted", "it was interrupted", alive=True)
    execution.take(ErrorOutput("KeyboardInterrupt", "", ""))
    execution.finish(stop)

    assert await outputs_of(execution) == [stop]


async def test_the_first_who_asks_for_a_stop_gives_the_reason() -> None:
    execution = Execution(100)
    execution.stop("interrupted")
    execution.stop("time")

    assert execution.stop_reason == "interrupted"


async def test_an_interrupt_that_was_not_heard_is_sent_again() -> None:
    execution, signals = Execution(100), 0

    async def interrupt() -> None:
        nonlocal signals
        signals += 1
        if signals == 2:
            execution.completion.set()

    has_obeyed = await wait_for_end(execution, seconds=0.01, grace=5.0, interrupt=interrupt)

    assert (has_obeyed, signals, execution.stop_reason) == (True, 2, "time")


async def test_an_error_reaches_the_reader() -> None:
    execution = Execution(100)
    execution.fail(TimeoutError())

    with pytest.raises(TimeoutError):
        await outputs_of(execution)


@pytest.mark.parametrize(
    ("kind", "content", "output"),
    [
        ("stream", {"name": "stderr", "text": "x"}, StreamOutput("stderr", "x")),
        (
            "execute_result",
            {"data": {"application/json": {"a": 1}}},
            DisplayOutput({"application/json": '{"a": 1}'}, result=True),
        ),
        ("display_data", {"data": "nonsense"}, DisplayOutput({})),
        (
            "error",
            {"ename": "E", "evalue": "\x1b[31mred\x1b[0m", "traceback": ["a", "b"]},
            ErrorOutput("E", "red", "a\nb"),
        ),
        ("error", {}, ErrorOutput("None", "None", "None")),
        ("comm_msg", {}, None),
        ("clear_output", {}, None),
    ],
)
def test_a_message_of_the_kernel_is_read(
    kind: str, content: dict[str, object], output: Output | None
) -> None:
    assert output_of({"msg_type": kind, "content": content}) == output


def test_a_busy_kernel_is_not_idle() -> None:
    assert not is_idle({"msg_type": "status", "content": {"execution_state": "busy"}})


class BrokenChannels:
    """Sockets that hear nothing and take nothing."""

    def request(self, kind: str, **content: Any) -> dict[str, Any]:
        return {}

    async def send(self, request: dict[str, Any]) -> None:
        raise OSError("the socket is broken")

    async def next_publication(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    next_reply = next_publication

    def close(self) -> None:
        pass


class Alone:
    """A family of processes that is only a mark."""

    def __init__(self) -> None:
        self.exit_event = asyncio.Event()

    async def kill(self, why: str) -> None:
        self.exit_event.set()


async def test_an_error_that_nobody_foresaw_reaches_whoever_waits_for_outputs() -> None:
    family: Any = Alone()
    channels: Any = BrokenChannels()
    interpreter = LocalInterpreter(Sandbox(volume="/v", scratch="/s"), family, channels, grace=1.0)
    with pytest.raises(OSError, match="the socket is broken"):
        async with asyncio.timeout(10):
            [output async for output in interpreter.run("1 + 1")]
    await interpreter.close()
