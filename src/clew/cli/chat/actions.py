"""Commands of the chat that do something: forget, undo, export, go to another thread, end, leave."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Group
from rich.text import Text

from clew.cli.chat import screen, views
from clew.cli.chat.messages import Question, Told
from clew.cli.chat.session import Talk
from clew.cli.render.memory import UNDONE, says
from clew.cli.render.values import clean, some
from clew.companion.memory.control import sentence_of
from clew.core.encoding import JSON, plain
from clew.core.errors import InvalidArgument
from clew.core.messages.plain import PlainMessage
from clew.runtime.memory.learn.finalizer import Kept, kept_of
from clew.runtime.memory.memory import settled
from clew.runtime.memory.values import Arc
from clew.runtime.records.episodes import ENDED
from clew.runtime.sessions.status import NONE

FEEDBACK = {"y": "positive", "n": "negative", "s": "skip"}
ASKED = "Did this help? y/n/s (Enter skips): "
SURE = "Forget it? yes or no: "
EVERYTHING = 1_000_000
TURN = 50
"""A turn has no more messages than that."""

FILE_MODE = 0o600
BY = "cli"


async def forget(talk: Talk, words: Sequence[str]) -> Told:
    """Show what would be forgotten, and wait for a yes. Ids may be cut short; other words are looked for."""
    if not words:
        raise InvalidArgument(problem="Say what to forget: /forget ID, as /memory shows it, or a word of it.")
    memory = talk.memory
    pending = await memory.propose(await _meant(talk, words))

    async def answered(reply: str) -> Told:
        done = await settled(memory, reply)
        gone = f"Forgotten: {some(len(done.ids), 'thing')}. /undo brings it back."
        lines = [Text(gone)] if done.ids else []
        lines += [Text(f"{clean(id)} changed meanwhile, and stays.") for id in done.changed]
        shown = Group(*lines) if lines else Text("Nothing is forgotten.")
        return Told(kind="forgotten", facts={"ids": done.ids, "changed": done.changed}, shown=shown)

    question = Question(prompt=SURE, then=answered, needed=True)
    facts = {"would_forget": pending.targets}
    known = {entry.id: sentence_of(entry) for entry in await talk.known()}
    told = [known.get(target.id, target.text) for target in pending.targets]
    return Told(kind="forget", facts=facts, shown=screen.targets(told), question=question)


async def _meant(talk: Talk, words: Sequence[str]) -> list[str]:
    """The ids that are meant: by their beginning, or by words that stand in what is known."""
    known = await talk.known()
    ids = [entry.id for entry in known]
    named = [[id for id in ids if id.startswith(word) and "-" in word] for word in words]
    if all(len(found) == 1 for found in named):
        return list(dict.fromkeys(id for found in named for id in found))
    asked = " ".join(words).casefold()
    found = [entry.id for entry in known if asked in says(entry).casefold()]
    if not found:
        raise InvalidArgument(problem=f"Nothing known matches {' '.join(words)!r}. /memory shows it all.")
    return found


async def undo(talk: Talk, words: Sequence[str]) -> Told:
    """Take back the last change of what is known, or the last turn of the conversation."""
    if list(words) == ["turn"]:
        return await _undo_turn(talk)
    if words:
        raise InvalidArgument(problem="Say /undo for what is remembered, or /undo turn for the last turn.")
    memory = talk.memory
    undone = await memory.undo()
    (change,) = await memory.db.thread(memory.thread).changesets(after=undone - 1, upto=undone, limit=1)
    effect = UNDONE.get(change.reason, "it is as it was")
    facts = {"undone": undone, "what": change.reason}
    return Told(kind="undo", facts=facts, shown=Text(f"Undone: {effect}."))


async def _undo_turn(talk: Talk) -> Told:
    """Take back the last turn and what it changed in the state: an exercise stands where it stood."""
    who = talk.who
    window = await talk.runtime.history(who.thread, last=TURN, user=who.user)
    run = window[-1].run if len(window) else None
    if run is None:
        raise InvalidArgument(problem="There is no turn to take back.")
    before = min(item.version for item in window if item.run == run) - 1
    state = await talk.runtime.state(who.thread, user=who.user)
    if before and not state.session_progress.risk_level:
        done = await talk.runtime.rewind(who.thread, to=before, user=who.user)
    else:  # that somebody may be in danger is not taken back
        done = await talk.runtime.rewind(who.thread, run, user=who.user)
    shown = Text(f"The last turn is taken back: {some(done.ended, 'message')}.")
    return Told(kind="undo", facts={"run": run, "version": done.version, "messages": done.ended}, shown=shown)


async def export(talk: Talk, words: Sequence[str]) -> Told:
    """Write the conversation into a new file: Markdown, or JSON by its name."""
    file = " ".join(words) or f"{talk.who.thread.replace(os.sep, '-')}.md"
    said = await talk.said(EVERYTHING)
    if not said:
        raise InvalidArgument(problem="Nothing has been said yet, so there is nothing to write.")
    data = msgspec.json.encode({"thread": talk.who.thread, "messages": said})
    is_json = file.endswith(".json")
    text = msgspec.json.format(data).decode() if is_json else screen.markdown(talk.who.thread, said)
    await asyncio.to_thread(_write, Path(file), text)
    shown = Text(f"{some(len(said), 'message')} written to {clean(file)}.")
    return Told(kind="export", facts={"file": file, "messages": len(said)}, shown=shown)


def _write(file: Path, text: str) -> None:
    """Write a file that was not there before, for the eyes of its owner alone.

    Raises:
        InvalidArgument: It is there, or cannot be made.
    """
    try:
        descriptor = os.open(file.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        problem = f"There is a file {str(file)!r} already. Give another name: /export FILE."
        raise InvalidArgument(problem=problem) from None
    except OSError as error:
        raise InvalidArgument(problem=f"{str(file)!r} cannot be made: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)


async def new(talk: Talk, words: Sequence[str]) -> Told:
    """Begin another thread, with an id that was given or a new one."""
    before = talk.who
    await talk.move(_one(words) or talk.new_id())
    if (await talk.status()).status != NONE or await talk.said(1):
        taken, talk.who = talk.who.thread, before
        raise InvalidArgument(problem=f"There is a thread {taken!r} already. /resume goes on with it.")
    return await views.opening(talk)


async def resume(talk: Talk, words: Sequence[str]) -> Told:
    """Go on with another thread; without a name, with an answer that was cut off."""
    wanted = _one(words)
    if wanted is None:
        return await _taken_up(talk)
    if talk.who.is_guest:
        raise InvalidArgument(problem="You are a guest, and have this conversation alone.")
    ids = [thread.id for thread in await talk.threads(1000)]
    found = [id for id in ids if id == wanted] or [id for id in ids if id.startswith(wanted)]
    if len(found) != 1:
        problem = "is no thread of yours" if not found else f"could be any of {', '.join(found[:5])}"
        raise InvalidArgument(problem=f"{wanted!r} {problem}. /threads lists them.")
    await talk.move(found[0])
    return await views.opening(talk)


async def _taken_up(talk: Talk) -> Told:
    if (await talk.status()).status != "interrupted":
        return await views.threads(talk, ())
    done = await talk.runtime.resume(talk.who.thread, user=talk.who.user)
    shown = screen.conversation([PlainMessage(role="assistant", text=done.text)])
    facts = {"thread": done.thread, "run": done.run, "text": done.text, "termination": done.termination}
    return Told(kind="answer", facts=facts, shown=shown)


async def end(talk: Talk, words: Sequence[str]) -> Told:
    """End the session, after a question that need not be answered."""
    given = _one(words)
    if given is not None and given.lower() not in FEEDBACK:
        raise InvalidArgument(problem="Say /end, or /end with y, n or s for what you thought of it.")
    if (await talk.status()).idle_since is None:
        return Told(kind="ended", facts={"ended": None}, shown=Text("No session is open; nothing to end."))
    if given is not None:
        return await _ended(talk, given)
    question = Question(prompt=ASKED, then=lambda reply: _ended(talk, reply))
    return Told(kind="end", facts={}, question=question)


async def _ended(talk: Talk, reply: str) -> Told:
    """The session is ended whatever the reply is; one that is none of the offered counts as none."""
    label = FEEDBACK.get(reply.strip().lower()[:1])
    ended = await talk.runtime.end_session(talk.who.thread, feedback=label, by=BY, user=talk.who.user)
    if ended is None:
        return Told(kind="ended", facts={"ended": None}, shown=Text("The session had ended already."))
    facts = {"ended": plain(ended), "feedback": label}
    if talk.who.is_guest:
        return Told(kind="ended", facts=facts, shown=Text(screen.GUEST_ENDED))
    kept = await kept_of(talk.memory, ended)
    ids = screen.short_ids([entry.id for entry in await talk.known()])
    shown = screen.ended(ended.turns, kept, ids, is_made=ended.status == ENDED)
    return Told(kind="ended", facts=facts | _left(kept), shown=shown)


def _left(kept: Kept) -> dict[str, JSON]:
    """What a session left behind, by the names that it has over HTTP."""
    arc = kept.arc or Arc(id="", episode="", summary="")
    left: dict[str, JSON] = {
        "summary": arc.summary,
        "themes": plain(arc.themes),
        "open_loops": plain(arc.open_loops),
        "facts": [plain(fact) | {"says": sentence_of(fact)} for fact in kept.facts],
        "rules": plain(kept.rules),
    }
    return left


async def leave(talk: Talk, words: Sequence[str]) -> Told:
    """Leave the chat."""
    return Told(kind="leaving", facts={}, leaves=True)


def _one(words: Sequence[str]) -> str | None:
    """The one word that was given to a command, if any.

    Raises:
        InvalidArgument: There are several.
    """
    if len(words) > 1:
        raise InvalidArgument(problem="Give one id, without spaces.")
    return words[0] if words else None
