"""Checking out the repository of a session: git behind walls, whose only way out is a proxy of ours.

git works in a folder that nothing else can write to. Only when it is done and gone is the checkout moved to
where code of the session runs.
"""

import asyncio
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.errors import ClewError, RepositoryFailed
from clew.workbench.interpreter.port import InterpreterLimits
from clew.workbench.interpreter.processes import SupervisedProcesses, launch_plan, make_private_folder
from clew.workbench.interpreter.walls import LISTENER_PORT
from clew.workbench.repository.proxy import Lookup, RepositoryProxy, check_host, look_up
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import RepositorySource, check_ref, context_problems, host_of
from clew.workbench.volume.tree import Tree, remove_path

FOLDER: Final = "repository"
"""The name of the checkout in the working directory of its session."""
SCRIPT: Final = Path(__file__).with_name("checkout_script.py")
WALLS: Final = frozenset({"namespaces"})
MOST_FILES: Final = 100_000
LONGEST_NEWS: Final = 200
LARGEST_RESULT: Final = 1 << 20
COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
PROGRAM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class CheckoutResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The repository of a session as it was checked out, or the reason why it was not, by its name.

    ``problems`` says what is wrong with context paths, by path.
    """

    url: str
    ref: str | None = None
    commit: str | None = None
    context_paths: tuple[str, ...] = ()
    problems: Mapping[str, str] = {}
    reason: str | None = None
    problem: str | None = None


def checkout_news(result: CheckoutResult) -> str:
    """The text about a repository for the agent. Nothing of it was said by a server."""
    if result.commit is None:
        return f"The repository {result.url[:LONGEST_NEWS]!r} is not there ({result.reason})."
    ref = f", ref {result.ref}" if result.ref is not None else ""
    lines = [
        f"The repository {result.url}{ref} is checked out at commit {result.commit}, without its history, in "
        f"the folder `{FOLDER}` of the working directory."
    ]
    if result.context_paths:
        lines.append("Read first: " + ", ".join(f"`{FOLDER}/{path}`" for path in result.context_paths) + ".")
    if result.problems:
        lines.append("Not in it: " + ", ".join(repr(path[:LONGEST_NEWS]) for path in result.problems) + ".")
    return " ".join(lines)


class _ScriptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to the script."""

    url: str
    ref: str | None
    context_paths: list[str]
    ca_file: str | None
    bytes: int
    files: int = MOST_FILES
    proxy: str = f"http://127.0.0.1:{LISTENER_PORT}"


class _ScriptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the script: a commit and the problems of context paths, or a reason."""

    commit: str | None = None
    problems: dict[str, str] = {}
    reason: str = "clone_failed"
    problem: str = "git ended without a result"


async def check_out(
    source: RepositorySource, settings: RepositorySettings, target: Path | None, *, lookup: Lookup = look_up
) -> CheckoutResult | None:
    """Put a checkout of a session's repository into a folder of this machine, in place of an earlier one.

    None if the session has no repository. Whatever is wrong is in the result, and then nothing is left.
    """
    try:
        if target is not None:
            await asyncio.to_thread(remove_path, target / FOLDER)
        if source.url is None:
            return None
        return await _check_out(source, source.url, settings, target, lookup)
    except RepositoryFailed as error:
        return CheckoutResult(url=error.url, ref=source.ref, reason=error.reason, problem=error.problem)
    except (ClewError, OSError) as error:
        return CheckoutResult(url=source.url or "", ref=source.ref, reason="clone_failed", problem=str(error))


async def _check_out(
    source: RepositorySource, url: str, settings: RepositorySettings, target: Path | None, lookup: Lookup
) -> CheckoutResult:
    check_host(url, host_of(url), settings)
    check_ref(source)
    if target is None:
        raise RepositoryFailed(url, "not_at_provider", "repositories are checked out on this machine alone")
    if shutil.which("git", path=PROGRAM_PATH) is None:
        raise RepositoryFailed(url, "git_missing", "git is not installed on this machine")
    refused = context_problems(source.context_paths)
    paths = [path for path in source.context_paths if path not in refused]
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        result = await _run_git(source, url, paths, settings, folder, lookup)
        await asyncio.to_thread((folder / FOLDER).rename, target / FOLDER)
    finally:
        await asyncio.to_thread(remove_path, folder)
    problems = {**refused, **result.problems}
    return CheckoutResult(
        url=url,
        ref=source.ref,
        commit=result.commit,
        context_paths=tuple(path for path in paths if path not in problems),
        problems=problems,
    )


async def _run_git(
    source: RepositorySource,
    url: str,
    paths: list[str],
    settings: RepositorySettings,
    folder: Path,
    lookup: Lookup,
) -> _ScriptResult:
    """Run the script to its end, to a limit, or to the first refusal of the proxy."""
    proxy = RepositoryProxy(url, settings, lookup)
    request = _ScriptRequest(
        url=url, ref=source.ref, context_paths=paths, ca_file=settings.ca_file, bytes=settings.bytes
    )
    async with _supervised(request, settings, folder, proxy) as processes:
        waits = [asyncio.create_task(event.wait()) for event in (processes.exit_event, proxy.failure)]
        try:
            await asyncio.wait(waits, timeout=settings.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        has_ended = processes.exit_event.is_set()
        why = processes.exit_reason.why
    if proxy.problem is not None:
        raise proxy.problem
    if not has_ended:
        raise RepositoryFailed(url, "too_slow", f"it takes longer than {settings.seconds:g} s")
    if why in ("memory", "processes"):
        raise RepositoryFailed(url, "too_large", f"git used more {why} than it may")
    result = await asyncio.to_thread(_read_result, folder)
    if result.commit is None:
        raise RepositoryFailed(url, result.reason, result.problem)
    return result


@asynccontextmanager
async def _supervised(
    request: _ScriptRequest, settings: RepositorySettings, folder: Path, proxy: RepositoryProxy
) -> AsyncIterator[SupervisedProcesses]:
    """The script behind its walls, with the proxy before them. Nothing of it is left at the end."""
    private = make_private_folder(SCRIPT)
    receiver, sender = socket.socketpair()
    with receiver, sender:
        plan = _script_plan(private, request, settings, folder)
        try:
            processes = await SupervisedProcesses.start(plan, listener_sender=sender)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        try:
            async with proxy.serve(_received_listener(processes, receiver, request.url)):
                yield processes
        finally:
            await asyncio.shield(processes.kill("it is not waited for"))


def _script_plan(
    private: Path, request: _ScriptRequest, settings: RepositorySettings, folder: Path
) -> dict[str, Any]:
    script = str(private / "run" / SCRIPT.name)
    temporary = str(private / "temporary")
    return launch_plan(
        private,
        [sys.executable, "-I", "-S", script, msgspec.json.encode(request).decode()],
        environment={"HOME": temporary, "TMPDIR": temporary},
        read=[settings.ca_file] if settings.ca_file is not None else [],
        write=[str(folder)],
        limits=InterpreterLimits(file_size=settings.bytes),
        walls=WALLS,
        needs_walls=True,
    )


def _received_listener(processes: SupervisedProcesses, receiver: socket.socket, url: str) -> socket.socket:
    """The listener behind the walls.

    Raises:
        RepositoryFailed: There are none.
    """
    if not processes.report["started"]:
        problem = f"this machine does not keep git apart: {processes.report['confined']}"
        raise RepositoryFailed(url, "no_walls", problem)
    _, descriptors, _, _ = socket.recv_fds(receiver, 64, 1)
    return socket.socket(fileno=descriptors[0])


def _read_result(folder: Path) -> _ScriptResult:
    """The result of the script; a file that is no such thing counts as none."""
    try:
        content = Tree(folder).read(("result.json",), LARGEST_RESULT)
        result = msgspec.json.decode(content, type=_ScriptResult)
    except (ClewError, msgspec.MsgspecError, UnicodeDecodeError):
        return _ScriptResult()
    is_commit = result.commit is None or COMMIT.match(result.commit)
    return result if is_commit else _ScriptResult()
