"""What every interpreter does, wherever it runs: subclass it and say how one is made."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from clew.core.errors import InterpreterGone, InvalidArgument
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Interpreter,
    InterpreterLimits,
    Interpreters,
    Output,
    OverflowOutput,
    Sandbox,
    StopOutput,
    StreamOutput,
)

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAIT = "import os, time\nwhile not os.path.exists({flag!r}): time.sleep(0.01)\n"

Make = Callable[[InterpreterLimits], Awaitable[Interpreter]]


async def outputs(interpreter: Interpreter, code: str) -> list[Output]:
    """Everything that a run gives."""
    return [output async for output in interpreter.run(code)]


def text(outputs: Sequence[Output], stream: str = "stdout") -> str:
    """What was printed, as one text."""
    return "".join(
        output.text for output in outputs if isinstance(output, StreamOutput) and output.stream == stream
    )


async def value(interpreter: Interpreter, expression: str) -> str:
    """The value of an expression, as text."""
    return text(await outputs(interpreter, f"print({expression}, end='')"))


class InterpreterContract:
    """Needs three fixtures: ``interpreters``; ``warm``, one for many tests; ``make``, for one with limits."""

    async def test_the_value_of_the_last_expression_is_shown_as_the_result(self, warm: Interpreter) -> None:
        result = await outputs(warm, "a = 20\na + 22")

        assert [
            (display.forms["text/plain"], display.result)
            for display in result
            if isinstance(display, DisplayOutput)
        ] == [("42", True)]

    async def test_a_statement_gives_nothing(self, warm: Interpreter) -> None:
        assert await outputs(warm, "nothing = 1") == []

    async def test_no_code_gives_nothing(self, warm: Interpreter) -> None:
        assert await outputs(warm, "") == []

    @pytest.mark.promise("F-06")
    async def test_variables_stay_from_run_to_run(self, warm: Interpreter) -> None:
        await outputs(warm, "kept = 'still here'")

        assert await value(warm, "kept") == "still here"

    async def test_output_comes_while_the_code_still_runs(
        self, warm: Interpreter, warm_folders: tuple[Path, Path]
    ) -> None:
        flag = warm_folders[1] / "flag"
        code = "print('first', flush=True)\n" + WAIT.format(flag=str(flag)) + "print('second')"

        result = []
        async for output in warm.run(code):
            result.append(output)
            flag.touch()

        assert text(result) == "first\nsecond\n"

    async def test_the_two_streams_are_apart(self, warm: Interpreter) -> None:
        result = await outputs(warm, "import sys\nprint('out')\nprint('err', file=sys.stderr)")

        assert (text(result), text(result, "stderr")) == ("out\n", "err\n")

    async def test_an_error_has_its_name_its_message_and_a_clean_traceback(self, warm: Interpreter) -> None:
        result = await outputs(warm, "def half(x):\n    return x / 0\nhalf(1)")

        [failure] = result
        assert isinstance(failure, ErrorOutput)
        assert (failure.name, failure.message) == ("ZeroDivisionError", "division by zero")
        assert "return x / 0" in failure.traceback or "line 2" in failure.traceback
        assert "\x1b" not in failure.traceback

    async def test_variables_stay_after_an_error(self, warm: Interpreter) -> None:
        await outputs(warm, "before_error = 1\nraise KeyError('x')")

        assert await value(warm, "before_error") == "1"

    async def test_code_that_is_not_python_is_an_error(self, warm: Interpreter) -> None:
        result = await outputs(warm, "this is (not")

        assert isinstance(result[-1], ErrorOutput)
        assert result[-1].name == "SyntaxError"

    async def test_code_that_is_not_text_is_refused(self, warm: Interpreter) -> None:
        with pytest.raises(InvalidArgument):
            await outputs(warm, "'\ud800'")

    async def test_a_picture_is_shown_as_base64(self, warm: Interpreter) -> None:
        result = await outputs(
            warm,
            "import base64\nclass Picture:\n    def _repr_png_(self):\n"
            f"        return base64.b64decode({PICTURE!r})\nPicture()",
        )

        [display] = [output for output in result if isinstance(output, DisplayOutput)]
        assert display.forms["image/png"].strip() == PICTURE

    async def test_something_displayed_on_the_way_is_not_the_result(self, warm: Interpreter) -> None:
        result = await outputs(warm, "display('seen')\nnothing = 1")

        assert [
            (display.forms["text/plain"], display.result)
            for display in result
            if isinstance(display, DisplayOutput)
        ] == [("'seen'", False)]

    async def test_text_of_every_kind_comes_through(self, warm: Interpreter) -> None:
        words = "naïve ☕ 日本語 🧵 \x00 \u2028 end"

        result = await outputs(warm, f"print({words!r})")

        assert text(result) == words + "\n"

    async def test_many_prints_come_through_or_are_said_to_be_dropped(self, warm: Interpreter) -> None:
        result = await outputs(warm, "for number in range(6000): print(f'{number:0300}')")

        whole = "".join(f"{number:0300}\n" for number in range(6000))
        rest = text(result)
        assert whole.startswith(rest)
        assert result[-1] == OverflowOutput(len(whole) - len(rest))

    async def test_input_is_refused(self, warm: Interpreter) -> None:
        result = await outputs(warm, "input('who? ')")

        assert isinstance(result[-1], ErrorOutput)

    async def test_an_interrupt_ends_the_code_and_keeps_its_variables(self, warm: Interpreter) -> None:
        result = []
        async for output in warm.run("going = 1\nprint('on', flush=True)\nwhile True: going += 1"):
            result.append(output)
            await warm.interrupt()

        assert result[-1] == StopOutput("interrupted", "it was interrupted", alive=True)
        assert int(await value(warm, "going")) >= 1

    async def test_an_interrupt_of_nothing_is_nothing(self, warm: Interpreter) -> None:
        await warm.interrupt()

        assert await value(warm, "1 + 1") == "2"

    async def test_two_runs_at_once_go_one_after_the_other(self, warm: Interpreter) -> None:
        await outputs(warm, "order = []")
        code = "import time\norder.append({0})\ntime.sleep(0.1)\norder.append({0})"

        await asyncio.gather(*(outputs(warm, code.format(number)) for number in range(3)))

        assert await value(warm, "order") in (
            str([a, a, b, b, c, c])
            for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        )

    async def test_leaving_the_loop_early_interrupts_the_code(self, warm: Interpreter) -> None:
        running = warm.run("left = 1\nprint('on', flush=True)\nwhile True: left += 1")
        async for _ in running:
            break
        await running.aclose()  # type: ignore[attr-defined]  # every run is an async generator

        assert int(await asyncio.wait_for(value(warm, "left"), 30)) >= 1

    async def test_a_cancelled_reader_interrupts_the_code(self, warm: Interpreter) -> None:
        start = asyncio.Event()

        async def consume() -> None:
            async for _ in warm.run("cancelled = 1\nprint('on', flush=True)\nwhile True: cancelled += 1"):
                start.set()

        reading = asyncio.create_task(consume())
        await start.wait()
        reading.cancel()

        assert int(await asyncio.wait_for(value(warm, "cancelled"), 30)) >= 1

    @pytest.mark.promise("F-05")
    async def test_the_code_finds_its_volume_and_its_scratch(
        self, warm: Interpreter, warm_folders: tuple[Path, Path]
    ) -> None:
        await outputs(
            warm,
            "import os, pathlib\n"
            "pathlib.Path(os.environ['CLEW_VOLUME'], 'lasting').write_text('volume')\n"
            "pathlib.Path('passing').write_text('scratch')",
        )

        volume, scratch = warm_folders
        assert ((volume / "lasting").read_text(), (scratch / "passing").read_text()) == ("volume", "scratch")

    async def test_only_the_named_variables_are_in_its_environment(self, warm: Interpreter) -> None:
        await outputs(warm, "import os")

        assert await value(warm, "os.environ.get('OPENAI_API_KEY'), os.environ.get('NAMED')") == "None named"

    async def test_code_over_its_time_is_stopped_and_keeps_its_variables(self, make: Make) -> None:
        interpreter = await make(InterpreterLimits(seconds=0.5))

        result = await outputs(interpreter, "late = 'kept'\nwhile True: pass")

        assert result == [StopOutput("time", "it took longer than 0.5 s", alive=True)]
        assert await value(interpreter, "late") == "kept"

    async def test_code_that_does_not_obey_is_killed(self, make: Make) -> None:
        interpreter = await make(InterpreterLimits(seconds=0.5))

        result = await outputs(
            interpreter,
            "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass",
        )

        assert isinstance(result[-1], StopOutput)
        assert (result[-1].why, result[-1].alive) == ("time", False)
        with pytest.raises(InterpreterGone):
            await outputs(interpreter, "1")

    async def test_output_over_its_limit_is_dropped_and_said_and_nothing_is_shared(
        self, warm: Interpreter, make: Make
    ) -> None:
        interpreter = await make(InterpreterLimits(output=1000))
        await outputs(warm, "mine = 1")

        result = await outputs(interpreter, "print('x' * 5000)\nafter = 1\nafter")

        assert text(result) == "x" * 1000
        assert result[-1] == OverflowOutput(4001 + len("1"))
        assert await value(interpreter, "'mine' in globals()") == "False"

    async def test_an_interpreter_that_ends_itself_is_gone(self, make: Make) -> None:
        interpreter = await make(InterpreterLimits())

        result = await outputs(interpreter, "import os\nprint('bye', flush=True)\nos._exit(3)")

        assert isinstance(result[-1], StopOutput)
        assert (result[-1].why, result[-1].alive, await interpreter.alive()) == ("died", False, False)
        with pytest.raises(InterpreterGone):
            await outputs(interpreter, "1")

    async def test_closing_while_code_runs_ends_the_run(self, make: Make) -> None:
        interpreter = await make(InterpreterLimits())

        result = []
        async for output in interpreter.run("print('on', flush=True)\nwhile True: pass"):
            result.append(output)
            if isinstance(output, StreamOutput):
                await interpreter.close()

        assert result[-1] == StopOutput("closed", "the interpreter was closed", alive=False)

    async def test_a_closed_one_stays_closed_and_is_not_attached(
        self, interpreters: Interpreters, make: Make, warm_sandbox: Sandbox
    ) -> None:
        interpreter = await make(InterpreterLimits())
        await interpreter.close()
        await interpreter.close()

        with pytest.raises(InterpreterGone):
            await outputs(interpreter, "1")
        with pytest.raises(InterpreterGone):
            await interpreters.attach(interpreter.id, warm_sandbox)
        assert not await interpreter.alive()

    @pytest.mark.promise("F-06")
    async def test_one_that_is_alive_is_attached_with_its_variables(
        self, interpreters: Interpreters, warm: Interpreter, warm_sandbox: Sandbox
    ) -> None:
        await outputs(warm, "attached = 'yes'")

        again = await interpreters.attach(warm.id, warm_sandbox)

        assert await value(again, "attached") == "yes"

    @pytest.mark.promise("F-06")
    async def test_one_on_another_volume_is_not_attached(
        self, interpreters: Interpreters, warm: Interpreter, other_sandbox: Sandbox
    ) -> None:
        with pytest.raises(InterpreterGone, match="another volume"):
            await interpreters.attach(warm.id, other_sandbox)

    async def test_one_that_never_was_is_not_attached(
        self, interpreters: Interpreters, warm_sandbox: Sandbox
    ) -> None:
        with pytest.raises(InterpreterGone):
            await interpreters.attach("nobody/never", warm_sandbox)


async def interpreter_maker(
    make: Callable[[InterpreterLimits], Awaitable[Interpreter]],
) -> AsyncIterator[Make]:
    """A way to make interpreters that are closed when the test is over."""
    interpreters: list[Interpreter] = []

    async def remember(limits: InterpreterLimits) -> Interpreter:
        interpreters.append(await make(limits))
        return interpreters[-1]

    yield remember
    for interpreter in interpreters:
        await interpreter.close()
