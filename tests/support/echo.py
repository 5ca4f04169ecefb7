"""A plain chat for servers under test: it says again what it heard, and knows nothing of any companion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from clew import Context, Delta, State
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.server.settings import ServerSettings
from clew.server.tenants.agent import is_pinned
from clew.server.tenants.runtimes import MakeRuntime

T = TypeVar("T")
LONGEST = 400


class EchoModel:
    """Says again what was said last."""

    name = "echo"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """One short answer, word by word."""
        texts = [message.text for message in request.messages if message.role == "user" and message.text]
        text = f"You said: “{texts[-1][:LONGEST] if texts else ''}”."
        words = text.split(" ")
        for index, word in enumerate(words):
            yield TextChunk(word if index == len(words) - 1 else f"{word} ")
        input_tokens = sum(len(message.text.split()) for message in request.messages)
        yield Reply(text=text, usage=Usage(calls=1, input_tokens=input_tokens, output_tokens=len(words)))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing: it can fill no form."""
        raise ModelFailed(model=self.name, problem="it gives no typed answers")


def chatting(model: Model | None = None, settings: ServerSettings | None = None) -> MakeRuntime:
    """Makes runtimes that chat with a model, as the settings of a server say."""
    server_settings, speaker = settings or ServerSettings(), model or EchoModel()

    def make(db: Database) -> Runtime:
        return Runtime(
            db,
            model=speaker,
            config=RuntimeConfig(
                leases=LeaseConfig(sweep_seconds=server_settings.sweep_seconds),
                sessions=SessionConfig(finalize_active_sessions_on_close=False),
                pinned=is_pinned(server_settings),
            ),
            finalize=Finalizer(speaker),
        )

    return make


def failing_runtime(error: Exception) -> MakeRuntime:
    """Makes runtimes whose only stage raises an error, as a mistake in it would."""

    async def fail(state: State, ctx: Context) -> Delta:
        raise error

    return lambda db: Runtime(
        db,
        stages=[fail],
        config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False)),
    )
