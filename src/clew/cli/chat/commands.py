"""The commands of the chat: which there are, what a line means, and what was meant by a typing error."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rich.console import Group
from rich.table import Table
from rich.text import Text

from clew.cli.chat import actions, views
from clew.cli.chat.messages import ChatOutput
from clew.cli.chat.session import Chat
from clew.core.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCommand:
    """A command, its argument, and its purpose."""

    name: str
    description: str
    run: Callable[[Chat, Sequence[str]], Awaitable[ChatOutput]]
    arguments: str = ""

    @property
    def usage(self) -> str:
        """The command's syntax."""
        return f"{self.name} {self.arguments}".strip()


async def show_help(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """All commands, one line each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for command in COMMANDS:
        table.add_row(Text(command.usage), Text(command.description))
    facts = {"commands": {command.usage: command.description for command in COMMANDS}}
    keys = Text("Tab completes. Ctrl-C stops an answer; twice, or Ctrl-D, leaves.", style="dim")
    return ChatOutput(kind="help", facts=facts, display=Group(table, keys))


COMMANDS: tuple[ChatCommand, ...] = (
    ChatCommand(name="/help", description="this list", run=show_help),
    ChatCommand(name="/status", description="thread, user, session, model", run=views.status),
    ChatCommand(
        name="/context",
        arguments="[on|off]",
        description="what the last answer was made with",
        run=views.context,
    ),
    ChatCommand(name="/skills", description="the skills that are installed", run=views.skills),
    ChatCommand(name="/history", arguments="[N]", description="what was said last", run=views.history),
    ChatCommand(name="/memory", description="what is remembered", run=views.memory),
    ChatCommand(name="/forget", arguments="ID", description="forget it, after a yes", run=actions.forget),
    ChatCommand(
        name="/undo",
        arguments="[turn]",
        description="undo what memory did last, or the last turn",
        run=actions.undo,
    ),
    ChatCommand(
        name="/search", arguments="WORDS", description="find what was said or is known", run=views.search
    ),
    ChatCommand(
        name="/export", arguments="[FILE]", description="write it to a file, .md or .json", run=actions.export
    ),
    ChatCommand(
        name="/threads", arguments="[N]", description="your threads, newest first", run=views.threads
    ),
    ChatCommand(
        name="/resume",
        arguments="[ID]",
        description="go on with a thread, or a cut-off answer",
        run=actions.resume,
    ),
    ChatCommand(name="/new", arguments="[ID]", description="begin another thread", run=actions.begin_thread),
    ChatCommand(
        name="/feedback",
        arguments="[y|n]",
        description="say whether it helps so far; the session goes on",
        run=actions.ask_and_record_feedback,
    ),
    ChatCommand(name="/end", description="end this session", run=actions.ask_and_end_session),
    ChatCommand(name="/exit", description="leave", run=actions.leave),
)
COMMANDS_BY_NAME = {command.name: command for command in COMMANDS}
ALIASES = {"/quit": "/exit", "/q": "/exit", "/?": "/help"}


def parse_command(line: str) -> tuple[str, list[str]] | None:
    """The command that a line is, and the words behind it; None if it is a message.

    A path or a fraction is a message: a command is one word of letters behind the slash.
    """
    first, *words = line.split()
    is_command = first.startswith("/") and (first[1:].isalpha() or first in ALIASES)
    return (ALIASES.get(first.lower(), first.lower()), words) if is_command else None


async def run_chat_command(chat: Chat, name: str, words: Sequence[str]) -> ChatOutput:
    """Run a command.

    Raises:
        InvalidArgument: There is none of that name; the error says which was meant.
    """
    command = COMMANDS_BY_NAME.get(name)
    if command is None:
        raise InvalidArgument(problem=unknown_command_message(name))
    return await command.run(chat, words)


def unknown_command_message(name: str) -> str:
    """The message for an unknown command."""
    completions = [candidate for candidate in COMMANDS_BY_NAME if candidate.startswith(name)]
    close = completions or get_close_matches(name, COMMANDS_BY_NAME, n=1)
    return f"{name}? Did you mean {close[0]}?" if close else f"There is no {name}. /help lists what there is."
