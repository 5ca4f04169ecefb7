"""Interpreters at Daytona: each in a sandbox of its own, with the provider's volume mounted."""

import asyncio
import math
import shlex
from contextlib import suppress
from pathlib import Path

from clew.core.arguments import check_methods
from clew.core.errors import InterpreterFailed, InterpreterGone, MissingExtra
from clew.workbench.interpreter.port import InterpreterLimits, Sandbox
from clew.workbench.interpreter.remote import RemoteInterpreter, translate_error

try:
    from daytona import (
        AsyncDaytona,
        AsyncSandbox,
        CreateSandboxFromSnapshotParams,
        DaytonaConfig,
        DaytonaError,
        VolumeMount,
    )
    from daytona.common.errors import DaytonaTimeoutError
    from daytona_api_client_async import SandboxState
except ImportError as error:
    raise MissingExtra(extra="daytona", package="daytona") from error

_VOLUME_LABEL = "clew.volume"
"""The label under which a sandbox says on which volume it is."""
_POLL_SECONDS = 0.5
"""Seconds between two looks at a volume that is not ready yet."""


@check_methods
class RemoteInterpreters:
    """Makes interpreters at Daytona, and finds them again, also from another process.

    ``config`` says where and with which key; without it the SDK's own variables do. ``mount`` is where the
    volume is to be found there. A sandbox that nobody uses for ``idle_minutes`` is stopped by the provider,
    and gone. ``grace`` is how long code has to obey an interrupt; ``patience`` how long a sandbox has to
    start.
    """

    def __init__(
        self,
        config: DaytonaConfig | None = None,
        *,
        mount: str = "/volume",
        snapshot: str | None = None,
        idle_minutes: int = 15,
        grace: float = 5.0,
        start_timeout: float = 60.0,
    ) -> None:
        self._config = config
        self._mount = mount
        self._snapshot = snapshot
        self._idle_minutes = idle_minutes
        self._grace = grace
        self._start_timeout = start_timeout
        self._connection: AsyncDaytona | None = None

    def _client(self) -> AsyncDaytona:
        if self._connection is None:
            self._connection = AsyncDaytona(self._config)
        return self._connection

    async def make(self, sandbox: Sandbox) -> RemoteInterpreter:
        """Start a new one, with no variables.

        Raises:
            InterpreterFailed: The provider refused, or it did not come up.
        """
        try:
            remote = await self._create_sandbox(sandbox)
            try:
                return await self._start_context(sandbox, remote)
            except BaseException:
                with suppress(DaytonaError):
                    await asyncio.shield(remote.delete())
                raise
        except DaytonaError as error:
            raise translate_error(error) from error

    async def _create_sandbox(self, sandbox: Sandbox) -> AsyncSandbox:
        client = self._client()
        name, _, folder = sandbox.volume.partition("/")
        volume = await self._wait_for_volume(client, name)
        params = CreateSandboxFromSnapshotParams(
            language="python",
            snapshot=self._snapshot,
            env_vars=self._environment(sandbox),
            labels={_VOLUME_LABEL: sandbox.volume},
            volumes=[VolumeMount(volume_id=volume, mount_path=self._mount, subpath=folder or None)],
            network_block_all=not sandbox.limits.network,
            auto_stop_interval=self._idle_minutes,
            ephemeral=True,
        )
        try:
            return await client.create(params, timeout=self._start_timeout)
        except DaytonaTimeoutError as error:
            if error.sandbox_id is not None:
                with suppress(DaytonaError):
                    await (await client.get(error.sandbox_id)).delete()
            raise

    async def _wait_for_volume(self, client: AsyncDaytona, name: str) -> str:
        volume = await client.volume.get(name, create=True)
        seconds_left = self._start_timeout
        while volume.state != "ready":
            if volume.state == "error" or seconds_left <= 0:
                raise InterpreterFailed(
                    "daytona", f"volume {name!r} is {volume.state.value}", retry=seconds_left <= 0
                )
            await asyncio.sleep(_POLL_SECONDS)
            seconds_left -= _POLL_SECONDS
            volume = await client.volume.get(name)
        return volume.id

    def _environment(self, sandbox: Sandbox) -> dict[str, str]:
        return {
            **sandbox.environment,
            "CLEW_VOLUME": self._mount,
        }

    async def _start_context(self, sandbox: Sandbox, remote: AsyncSandbox) -> RemoteInterpreter:
        await remote.process.exec(f"mkdir -p {shlex.quote(sandbox.scratch)}", timeout=10)
        context = await remote.code_interpreter.create_context(cwd=sandbox.scratch)
        result = await remote.code_interpreter.run_code(
            _start_code(sandbox.limits), context=context, timeout=math.ceil(self._start_timeout)
        )
        process_id = result.stdout.strip()
        if result.error is not None or not process_id.isdecimal():
            problem = result.error.value if result.error else f"it said {process_id[:200]!r}"
            raise InterpreterFailed("daytona", f"its context did not come up: {problem}")
        return RemoteInterpreter(sandbox, remote, context, int(process_id), grace=self._grace)

    async def attach(self, id: str, sandbox: Sandbox) -> RemoteInterpreter:
        """Take up one that is still alive, with its variables, wherever it was made.

        Raises:
            InterpreterGone: There is none with this id, it is dead, or it is on another volume.
            InterpreterFailed: The provider does not say.
        """
        remote_id, _, rest = id.partition("/")
        context_id, _, process_id = rest.partition("/")
        if not process_id.isdecimal():
            raise InterpreterGone(id, "no interpreter has an id like that")
        try:
            remote = await self._client().get(remote_id)
            _check_remote(remote, id, sandbox)
            contexts = await remote.code_interpreter.list_contexts()
        except DaytonaError as error:
            raise translate_error(error, id) from error
        for context in contexts:
            if context.id == context_id and context.active:
                return RemoteInterpreter(sandbox, remote, context, int(process_id), grace=self._grace)
        raise InterpreterGone(id, "it is dead")

    async def close(self) -> None:
        """Let go of the connection; interpreters stay where they are until they are closed or idle."""
        if self._connection is not None:
            await self._connection.close()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
            self._connection = None


def _start_code(limits: InterpreterLimits) -> str:
    """The code that prepares a context, in a namespace of its own."""
    script = Path(__file__).with_name("remote_start.py").read_text(encoding="utf-8")
    namespace = {"__name__": "__main__", "MEMORY": limits.memory, "FILE_SIZE": limits.file_size}
    return f"exec({script!r}, {namespace!r})"


def _check_remote(remote: AsyncSandbox, id: str, sandbox: Sandbox) -> None:
    if remote.state != SandboxState.STARTED:
        raise InterpreterGone(id, f"its sandbox is {remote.state.value if remote.state else 'nowhere'}")
    if remote.labels.get(_VOLUME_LABEL) != sandbox.volume:
        raise InterpreterGone(id, "it is on another volume")
