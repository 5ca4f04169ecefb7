"""The interpreter on this machine does what every interpreter does."""

from __future__ import annotations

import pytest

from tests.workbench.interpreter.contract import InterpreterContract

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestLocal(InterpreterContract):
    """The whole contract, on a kernel of this machine."""
