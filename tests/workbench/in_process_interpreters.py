"""Interpreters that are only a dict of variables, for tests that are not about processes."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import itertools
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from clew.core.errors import InterpreterFailed, InterpreterGone
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Isolation,
    Output,
    Sandbox,
    StopOutput,
    StreamOutput,
)


class InProcess:
    """Runs code in a namespace of its own. ``die()`` ends it, and bytes are taken for a picture."""

    def __init__(self, id: str, sandbox: Sandbox) -> None:
        self.id = id
        self.sandbox = sandbox
        self.variables: dict[str, Any] = {"die": self._die}
        self.is_alive = True
        self.refuses = ""
        self.codes: list[str] = []

    def describe(self) -> Isolation:
        return Isolation(network=False, files=False, processes=False, notes=("It is no sandbox.",))

    async def run(self, code: str) -> AsyncIterator[Output]:
        if not self.is_alive:
            raise InterpreterGone(interpreter=self.id, problem="it is dead")
        self.codes.append(code)
        if self.refuses and self.refuses in code:
            yield ErrorOutput(name="RuntimeError", message="refused", traceback="refused")
            return
        for output in self._outputs(code):
            yield output
        if not await self.alive():
            yield StopOutput(why="died", detail="it ended itself", alive=False)

    def _outputs(self, code: str) -> list[Output]:
        stream = io.StringIO()
        outputs: list[Output] = []
        try:
            with contextlib.redirect_stdout(stream):
                value = self._value(code)
            if isinstance(value, bytes):
                outputs.append(DisplayOutput(forms={"image/png": base64.b64encode(value).decode()}))
            elif value is not None:
                outputs.append(DisplayOutput(forms={"text/plain": repr(value)}, result=True))
        except Exception as error:  # noqa: BLE001  # what code raises is an output
            trace = traceback.format_exc()
            outputs.append(ErrorOutput(name=type(error).__name__, message=str(error), traceback=trace))
        return [
            *([StreamOutput(stream="stdout", text=stream.getvalue())] if stream.getvalue() else []),
            *outputs,
        ]

    def _value(self, code: str) -> Any:
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<code>", "exec"), self.variables)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), "<code>", "eval"), self.variables)

    def _die(self) -> None:
        self.is_alive = False

    async def interrupt(self) -> None:
        return None

    async def alive(self) -> bool:
        return self.is_alive

    async def close(self) -> None:
        self.is_alive = False


class InProcesses:
    """Makes them, and finds those again that it made."""

    def __init__(self) -> None:
        self.interpreters: list[InProcess] = []
        self.fails = False
        self.refuses = ""
        self._numbers = itertools.count(1)

    @property
    def alive(self) -> list[str]:
        """Those that live."""
        return [each.id for each in self.interpreters if each.is_alive]

    async def make(self, sandbox: Sandbox) -> InProcess:
        if self.fails:
            raise InterpreterFailed(where="in process", problem="it is broken")
        assert _is_there(sandbox)
        interpreter = InProcess(f"box-{next(self._numbers)}", sandbox)
        interpreter.refuses = self.refuses
        self.interpreters.append(interpreter)
        return interpreter

    async def attach(self, id: str, sandbox: Sandbox) -> InProcess:
        interpreter = next((each for each in self.interpreters if each.id == id and each.is_alive), None)
        if interpreter is None:
            raise InterpreterGone(interpreter=id, problem="there is none with this id")
        if interpreter.sandbox.volume != sandbox.volume:
            raise InterpreterGone(interpreter=id, problem="it is on another volume")
        return interpreter

    async def close(self) -> None:
        for each in self.interpreters:
            await each.close()


def _is_there(sandbox: Sandbox) -> bool:
    return Path(sandbox.scratch).is_dir() and Path(sandbox.volume).is_dir()
