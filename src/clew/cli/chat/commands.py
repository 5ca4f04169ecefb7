"""The commands of the chat: which there are, what a line means, and what was meant by a typing error."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rich.console import Group
from rich.table import Table
from rich.text import Text

from clew.cli.chat import actions, views
from clew.cli.chat.messages import Told
from clew.cli.chat.session import Talk
from clew.core.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, what may stand behind it, and what it is for."""

    name: str
    about: str
    do: Callable[[Talk, Sequence[str]], Awaitable[Told]]
    takes: str = ""

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"{self.name} {self.takes}".strip()


async def help_(talk: Talk, words: Sequence[str]) -> Told:
    """All commands, one line each."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="cyan", no_wrap=True)
    shown.add_column(overflow="fold")
    for command in COMMANDS:
        shown.add_row(Text(command.usage), Text(command.about))
    facts = {"commands": {command.usage: command.about for command in COMMANDS}}
    keys = Text("Tab completes. Ctrl-C stops an answer; twice, or Ctrl-D, leaves.", style="dim")
    return Told(kind="help", facts=facts, shown=Group(shown, keys))


COMMANDS: tuple[Command, ...] = (
    Command(name="/help", about="this list", do=help_),
    Command(name="/status", about="thread, user, session, model", do=views.status),
    Command(name="/history", takes="[N]", about="what was said last", do=views.history),
    Command(name="/memory", about="what is remembered", do=views.memory),
    Command(name="/forget", takes="ID", about="forget it, after a yes", do=actions.forget),
    Command(
        name="/undo", takes="[turn]", about="undo what memory did last, or the last turn", do=actions.undo
    ),
    Command(name="/search", takes="WORDS", about="find what was said or is known", do=views.search),
    Command(name="/export", takes="[FILE]", about="write it to a file, .md or .json", do=actions.export),
    Command(name="/threads", takes="[N]", about="your threads, newest first", do=views.threads),
    Command(
        name="/resume", takes="[ID]", about="go on with a thread, or a cut-off answer", do=actions.resume
    ),
    Command(name="/new", takes="[ID]", about="begin another thread", do=actions.new),
    Command(name="/end", about="end this session", do=actions.end),
    Command(name="/exit", about="leave", do=actions.leave),
)
NAMES = {command.name: command for command in COMMANDS}
ALIASES = {"/quit": "/exit", "/q": "/exit", "/?": "/help"}


def parsed(line: str) -> tuple[str, list[str]] | None:
    """The command that a line is, and the words behind it; None if it is a message.

    A path or a fraction is a message: a command is one word of letters behind the slash.
    """
    first, *words = line.split()
    is_command = first.startswith("/") and (first[1:].isalpha() or first in ALIASES)
    return (ALIASES.get(first.lower(), first.lower()), words) if is_command else None


async def done(talk: Talk, name: str, words: Sequence[str]) -> Told:
    """Run a command.

    Raises:
        InvalidArgument: There is none of that name; the error says which was meant.
    """
    command = NAMES.get(name)
    if command is None:
        raise InvalidArgument(problem=unknown(name))
    return await command.do(talk, words)


def unknown(name: str) -> str:
    """What to say of a command that there is not."""
    begun = [known for known in NAMES if known.startswith(name)]
    close = begun or get_close_matches(name, NAMES, n=1)
    return f"{name}? Did you mean {close[0]}?" if close else f"There is no {name}. /help lists what there is."
