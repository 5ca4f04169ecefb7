"""Commands of the chat that look: where it stands, what was said, what is known, what can be found."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from rich.console import Group
from rich.text import Text

from clew.cli.chat import screen
from clew.cli.chat.messages import Told
from clew.cli.chat.session import Talk
from clew.companion.memory.candidates import as_known, unrefused_among
from clew.companion.memory.control import sentence_of
from clew.core.encoding import plain
from clew.core.errors import InvalidArgument, StoreReadOnly
from clew.runtime.memory.recall.render import rendered
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate
from clew.runtime.records.episodes import ACTIVE
from clew.runtime.search import Hit, Search, search_everything

SHOWN, LISTED, FOUND, RECENT = 10, 12, 5, 60
LEFT_OFF = 2
"""How many messages of the time before a chat opens with."""


async def opening(talk: Talk) -> Told:
    """The first thing that a chat says: who, where, and what came before."""
    who, found = talk.who, await talk.status()
    said = await talk.said(LEFT_OFF)
    catch_up = [] if said or who.is_guest else await _catch_up(talk)
    facts = {**_facts(talk), "status": found.status, "catch_up": catch_up}
    shown = Group(screen.opening(who, talk.model), *screen.welcome(found, said, catch_up))
    return Told(kind="opened", facts=facts, shown=shown)


async def _catch_up(talk: Talk) -> list[str]:
    """The last session of somebody who begins another thread, unless they want nothing brought up."""
    if not (await talk.memory.profile()).recall:
        return []
    return [rendered(entry) for entry in await Retriever(talk.memory).catch_up()]


def _facts(talk: Talk) -> dict[str, object]:
    who = talk.who
    return {"thread": who.thread, "user": who.user, "mode": str(who.mode), "model": talk.model}


async def status(talk: Talk, words: Sequence[str]) -> Told:
    """Where the chat stands."""
    found = await talk.status()
    facts = {**_facts(talk), "store": talk.store, **plain(found), "advice": found.advice}
    return Told(kind="status", facts=facts, shown=screen.status(talk.who, talk.model, talk.store, found))


async def history(talk: Talk, words: Sequence[str]) -> Told:
    """The newest messages."""
    said = await talk.said(count(words, SHOWN))
    return Told(kind="history", facts={"messages": said}, shown=screen.conversation(said))


async def threads(talk: Talk, words: Sequence[str]) -> Told:
    """The newest threads of whoever talks."""
    found = await talk.threads(count(words, LISTED))
    return Told(kind="threads", facts={"threads": found}, shown=screen.threads(found, talk.who.thread))


async def memory(talk: Talk, words: Sequence[str]) -> Told:
    """What is known; with ``recall on`` or ``recall off``, whether it may be brought up."""
    match [word.lower() for word in words]:
        case []:
            return await _known(talk)
        case ["recall", ("on" | "off") as toggle]:
            await talk.memory.set_recall(on=toggle == "on")
            effect = "may be brought up" if toggle == "on" else "is brought up only if you ask"
            shown = Text(f"Recall is {toggle}: what is known {effect}.")
            return Told(kind="memory", facts={"recall": toggle == "on"}, shown=shown)
    raise InvalidArgument(problem="Say /memory, or /memory recall on, or /memory recall off.")


async def _known(talk: Talk) -> Told:
    profile = await talk.memory.profile()
    facts, arcs = await talk.memory.page("facts", limit=50), await talk.memory.page("arcs", limit=SHOWN)
    ids = screen.short_ids([entry.id for entry in await talk.known()])
    more, noted = facts.next is not None or arcs.next is not None, await _noted(talk)
    shown = screen.memory(profile, facts.facts, arcs.arcs, ids, noted=noted, more=more)
    known = {"rules": profile.rules, "facts": facts.facts, "arcs": arcs.arcs, "noted": noted}
    return Told(kind="memory", facts={"recall": profile.recall, **known}, shown=shown)


async def _noted(talk: Talk) -> list[str]:
    """What was told in the session that is open, and is kept when it ends, in words."""
    episode = (await talk.status()).episode
    if episode is None or episode.status != ACTIVE:
        return []
    candidates = [msgspec.convert(each, Candidate) for each in episode.candidates]
    said = [message.text for message in await talk.said(RECENT) if message.role == "user"]
    return [sentence_of(as_known(each)) for each in unrefused_among(candidates, said)]


async def search(talk: Talk, words: Sequence[str]) -> Told:
    """What was said and what is known about something, the best first."""
    if not words:
        raise InvalidArgument(problem="Say what to look for: /search train to lisbon.")
    memory = talk.memory.thread
    with suppress(StoreReadOnly):  # what is indexed must do then
        await talk.db.index()
    query = Search(query=" ".join(words))
    if talk.who.user is not None:
        hits = await _found(talk, query)
    else:  # without a user only this thread, and what is known in it, is one's own
        within = (talk.who.thread, memory)
        hits = [hit for thread in within for hit in await _found(talk, query, thread)]
    return Told(kind="search", facts={"found": hits}, shown=screen.hits(hits[:FOUND], query.query))


async def _found(talk: Talk, query: Search, thread: str | None = None) -> Sequence[Hit]:
    asked = msgspec.structs.replace(query, thread=thread)
    return (await search_everything(talk.own, asked, limit=FOUND)).hits


def count(words: Sequence[str], otherwise: int) -> int:
    """A number that was given to a command, or the usual one.

    Raises:
        InvalidArgument: It is none.
    """
    if not words:
        return otherwise
    if len(words) > 1 or not words[0].isdecimal() or not 0 < int(words[0]) <= 1000:
        raise InvalidArgument(problem="Give one number from 1 to 1000, or none.")
    return int(words[0])
