"""The command that talks: a chat in the terminal, on a thread that survives."""

import os
import secrets
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from clew.cli.chat.session import Mode, Who, who_talks
from clew.cli.command import COMMON, Answer, Call, url_of
from clew.cli.render.values import clean
from clew.core.redaction import without_password

if TYPE_CHECKING:
    from clew.cli.chat.conversation import Tally

GOES_ON = " \\"
USUAL = str(COMMON["db"][1])
Url = Annotated[str | None, typer.Argument(metavar="[URL]", help="The database; the same as --db.")]
ThreadId = Annotated[
    str | None, typer.Option("--thread-id", metavar="ID", help="The thread; without it a new one.")
]
UserId = Annotated[
    str | None, typer.Option("--user-id", metavar="ID", help="Whose memory; without it the thread's own.")
]
ChatMode = Annotated[Mode, typer.Option("--mode", help="A guest leaves nothing behind.")]
Model = Annotated[
    str | None,
    typer.Option("--model", envvar="CLEW_MODEL", metavar="PROVIDER:NAME", help="Offline without one."),
]


async def chat(
    call: Call,
    url: Url = None,
    *,
    thread_id: ThreadId = None,
    user_id: UserId = None,
    mode: ChatMode = Mode.PERSISTENT,
    model: Model = None,
) -> Answer:
    """Talk with the companion in the terminal.

    What is said is kept in a thread, and survives whatever happens to this program. /help lists what can be
    asked for besides. Without a terminal it reads a message a line; with --json it answers in JSON, a line
    each.

    Example: clew chat --thread-id alice-s1 --user-id alice
    """
    from clew.cli.chat.conversation import chatted
    from clew.cli.chat.frontends import front_for
    from clew.cli.chat.session import opened

    who = who_talks(thread=thread_id, user=user_id or call.scope.user, mode=mode, new_id=new_id)
    where = call.url if url is None else url_of(url)
    opening = opened(where, call.scope.tenant, who, model, new_id)
    tally = chatted(opening, lambda: front_for(call.out, call.err, as_json=call.as_json))
    shown = Text(farewell(tally, who, where, call.err.width), style="dim")
    value = {"thread": tally.thread, "turns": tally.turns, "failed": tally.failed}
    return Answer(value=value, shown=shown, ok=not tally.failed, aside=True)


def new_id() -> str:
    """The id of a thread that nobody has named."""
    return f"local-{secrets.token_hex(6)}"


def farewell(tally: "Tally", who: Who, where: str, width: int) -> str:
    """The last words, and how to go on, in lines that a shell takes as they are."""
    if who.is_guest:
        return "Goodbye. Nothing is kept."
    if not tally.is_begun:
        return "Goodbye."
    parts = [["clew", "chat"], ["--thread-id", tally.thread]]
    parts += [] if who.user is None else [["--user-id", who.user]]
    is_usual = where == url_of(os.environ.get("CLEW_DB", USUAL))
    parts += [] if is_usual else [["--db", without_password(where)]]
    return clean(f"Goodbye. To go on:\n{_in_lines([shlex.join(part) for part in parts], width)}")


def _in_lines(parts: Sequence[str], width: int) -> str:
    """The parts of a command in lines of a width, as few as there may be."""
    lines = [f"  {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len(" " + GOES_ON) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return f"{GOES_ON}\n".join(lines)
