"""The command that talks: a chat in the terminal, on a thread that survives."""

import os
import secrets
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from clew.agents.discovery import find_agent
from clew.agents.options import AgentOptions
from clew.cli.agent_options import EmbedderOption, SearchProviderOption, SkillsOption
from clew.cli.chat.session import ChatMode, Participant, new_participant
from clew.cli.command import COMMON_OPTIONS, CommandCall, CommandResult, database_url
from clew.cli.commands.agents import AgentOption
from clew.cli.render.values import clean
from clew.core.redaction import without_password

if TYPE_CHECKING:
    from clew.cli.chat.conversation import Tally

LINE_CONTINUATION = " \\"
DEFAULT_DATABASE = str(COMMON_OPTIONS["db"][1])
Url = Annotated[str | None, typer.Argument(metavar="[URL]", help="The database; the same as --db.")]
ThreadId = Annotated[
    str | None, typer.Option("--thread-id", metavar="ID", help="The thread; without it a new one.")
]
UserId = Annotated[
    str | None, typer.Option("--user-id", metavar="ID", help="Whose memory; without it the thread's own.")
]
ModeOption = Annotated[ChatMode, typer.Option("--mode", help="A guest leaves nothing behind.")]
Model = Annotated[
    str | None,
    typer.Option("--model", envvar="CLEW_MODEL", metavar="PROVIDER:NAME", help="Offline without one."),
]

ContextOption = Annotated[
    bool, typer.Option("--context", help="Show after each answer what it was made with.")
]


async def chat(
    call: CommandCall,
    url: Url = None,
    *,
    thread_id: ThreadId = None,
    user_id: UserId = None,
    mode: ModeOption = ChatMode.PERSISTENT,
    agent: AgentOption = None,
    model: Model = None,
    embedder: EmbedderOption = None,
    search_provider: SearchProviderOption = None,
    skills: SkillsOption = None,
    context: ContextOption = False,
) -> CommandResult:
    """Talk with an agent in the terminal.

    It is the companion where that is installed, unless --agent names another. What is said is kept in a
    thread, and survives whatever happens to this program. /help lists what can be asked for besides. Without
    a terminal it reads a message a line; with --json it answers in JSON, a line each.

    Example: clew chat --thread-id alice-s1 --user-id alice
    """
    from clew.cli.chat.conversation import run_chat
    from clew.cli.chat.frontends import frontend_for
    from clew.cli.chat.session import open_chat

    participant = new_participant(thread=thread_id, user=user_id or call.scope.user, mode=mode, new_id=new_id)
    store_url = call.url if url is None else database_url(url)
    chat_agent = find_agent(agent)
    options = AgentOptions(model=model, embedder=embedder, search_provider=search_provider, skills=skills)
    opening = open_chat(
        store_url, call.scope.tenant, participant, chat_agent, options, new_id, shows_context=context
    )
    labels = chat_agent.stage_labels
    tally = run_chat(opening, lambda: frontend_for(call.out, call.err, labels, as_json=call.as_json))
    display = Text(farewell(tally, participant, store_url, agent, call.err.width), style="dim")
    value = {"thread": tally.thread, "turns": tally.turns, "failed": tally.failures}
    return CommandResult(value=value, display=display, ok=not tally.failures, to_stderr=True)


def new_id() -> str:
    """The id of a thread that nobody has named."""
    return f"local-{secrets.token_hex(6)}"


def farewell(tally: "Tally", participant: Participant, store_url: str, agent: str | None, width: int) -> str:
    """The last words, and how to go on, in lines that a shell takes as they are."""
    if participant.is_guest:
        return "Goodbye. Nothing is kept."
    if not tally.has_thread:
        return "Goodbye."
    parts = [["clew", "chat"], ["--thread-id", tally.thread]]
    parts += [] if participant.user is None else [["--user-id", participant.user]]
    parts += [] if agent in (None, os.environ.get("CLEW_AGENT")) else [["--agent", agent]]
    is_default = store_url == database_url(os.environ.get("CLEW_DB", DEFAULT_DATABASE))
    parts += [] if is_default else [["--db", without_password(store_url)]]
    return clean(f"Goodbye. To go on:\n{_wrap_command([shlex.join(part) for part in parts], width)}")


def _wrap_command(parts: Sequence[str], width: int) -> str:
    """The parts of a command in lines of a width, as few as there may be."""
    lines = [f"  {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len(" " + LINE_CONTINUATION) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return f"{LINE_CONTINUATION}\n".join(lines)
