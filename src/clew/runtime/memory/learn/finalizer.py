"""What an ended episode leaves in the memory of its user: an arc and what is promoted, in one commit.

``Runtime(finalize=Finalizer(model))`` does it for every episode, whoever ends it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from clew.core.arguments import check_methods
from clew.core.encoding import plain
from clew.core.errors import DeadlineExceeded, ModelFailed, ThreadNotFound
from clew.core.text.words import words
from clew.core.values import HISTORY, Write
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.learn.extraction import Said, extracted, said_by_user, weighed
from clew.runtime.memory.learn.promotion import promoted
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.phrases.refusals import unrefused
from clew.runtime.memory.values import THEMES, Arc, Candidate, Fact, Rule, Source
from clew.runtime.memory.vectors.jobs import embedding
from clew.runtime.model import call
from clew.runtime.model.call import Patience
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, Request
from clew.runtime.records.episodes import Episode, Left

T = TypeVar("T")
SUMMARY = 240
LONG_WORD = 4
INSTRUCTIONS = """\
This conversation has ended. Tell what it was about, for whoever goes on with it another day: up to
three themes of one or two words, a summary of one or two sentences that begins with a verb in the past
("talked about …"), the mood at its beginning and at its end, what was left open, and which approach was
taken. Say nothing that was not said, and nothing that the person asked not to remember."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in short, as a model tells it."""

    themes: list[str] = []
    summary: str
    mood_opened: str = ""
    mood_closed: str = ""
    open_loops: list[str] = []
    approach: str = ""


@check_methods
class Finalizer:
    """Ends episodes: summary, arc, promotion. Without a model, or if it fails, by plain statements alone.

    With an embedder, jobs for the vectors of facts and arcs are queued; with ``embed_items``, also for those
    of all that was said. ``is_done`` says of what somebody said and its reply whether that was a command: it
    did its work at once and is not looked through, since it may have been undone.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
        embed_items: bool = False,
        patience: Patience | None = None,
        is_done: Callable[[Message, Message], bool] = lambda said, reply: False,
    ) -> None:
        self._model = model
        self._is_done = is_done
        self._embedder = embedder
        self._embed_items = embed_items
        self._patience = patience or Patience()

    async def __call__(self, db: Database, episode: Episode, transcript: Sequence[Message]) -> Left:
        """What an episode leaves behind; it is committed with the end of its job."""
        turns = await _turns(db, episode)
        if not turns:
            return Left(episode=episode)
        left = unrefused([said.text for said in turns])
        if not any(left):
            return Left(episode=msgspec.structs.replace(episode, candidates=()))
        noticed = await extracted(turns, self._filled if self._model is not None else None)
        done = {said.text for said, reply in pairwise(transcript) if self._is_done(said, reply)}
        fresh = [found for found in noticed.candidates if turns[found.turn].text not in done]
        told = await self._told(_without_refused(transcript, turns, left)) or _told_plainly(left)

        async def plan(episode: Episode) -> Left:
            planned = await self._planned(db, episode, turns, fresh, told)
            return msgspec.structs.replace(planned, replan=plan)

        return await plan(episode)

    async def _planned(
        self, db: Database, episode: Episode, turns: Sequence[Said], fresh: Sequence[Candidate], told: Told
    ) -> Left:
        """The arc and what is promoted, merged into the memory as it is now. No model is asked."""
        memory = memory_of(db, episode.thread, episode.user)
        decisions = await weighed(memory, turns, [*_held(episode, turns), *fresh])
        arc = _arc(episode, told)
        writes = await memory.closing(arc, promoted(decisions))
        ended = msgspec.structs.replace(episode, arc=plain(arc), candidates=())
        return Left(episode=ended, writes=[*writes, *self._embedding(episode, memory)])

    async def _filled(self, request: Request, kind: type[T]) -> T:
        assert self._model is not None
        return (await call.fill(self._model, request, kind, self._patience))[0]

    async def _told(self, transcript: Sequence[Message]) -> Told | None:
        """The conversation in short; None if there is no model, it fails, or it has nothing to say."""
        if self._model is None:
            return None
        said = [message for message in transcript if message.role in ("user", "assistant") and message.text]
        try:
            told = await self._filled(Request(messages=said, instructions=INSTRUCTIONS), Told)
        except (ModelFailed, DeadlineExceeded):
            return None
        return told if told.summary.strip() else None

    def _embedding(self, episode: Episode, memory: Memory) -> list[Write]:
        """Jobs for the vectors of what is new."""
        if self._embedder is None:
            return []
        jobs: list[Write] = [embedding(memory.thread, memory.owner, episode.id)]
        if self._embed_items:
            jobs.append(embedding(episode.thread, episode.user, episode.id, [HISTORY]))
        return jobs


async def _turns(db: Database, episode: Episode) -> list[Said]:
    """What the user said in an episode, with where each turn stands."""
    try:
        items = await db.thread(episode.thread).items(after=episode.first - 1, at=episode.last, whole=True)
    except ThreadNotFound:
        return []
    return said_by_user(items, episode.thread)


def _held(episode: Episode, turns: Sequence[Said]) -> list[Candidate]:
    """The candidates held in the episode's row, each with the number of its turn."""
    numbers = {said.source.place: number for number, said in enumerate(turns)}
    found = [msgspec.convert(candidate, Candidate) for candidate in episode.candidates]
    return [
        msgspec.structs.replace(candidate, turn=numbers[candidate.source.place])
        for candidate in found
        if candidate.source is not None and candidate.source.place in numbers
    ]


def _without_refused(
    transcript: Sequence[Message], turns: Sequence[Said], left: Sequence[str]
) -> list[Message]:
    """A conversation without what the user asked not to keep, nor the answer to a turn of nothing else."""
    kept_of = {said.text: text for said, text in zip(turns, left, strict=True)}
    found: list[Message] = []
    is_kept = True
    for message in transcript:
        if message.role == "user":
            text = kept_of.get(message.text, message.text)
            is_kept = bool(text)
            found += [Message(role="user", content=text)] if is_kept else []
        elif is_kept:
            found.append(message)
    return found


def _arc(episode: Episode, told: Told) -> Arc:
    return Arc(
        id=f"arc-{episode.id}",
        episode=episode.id,
        summary=told.summary,
        themes=tuple(told.themes[:THEMES]),
        mood_opened=told.mood_opened,
        mood_closed=told.mood_closed,
        open_loops=tuple(told.open_loops),
        approach=told.approach,
        source=Source(thread=episode.thread, version=episode.last or 0),
        began=episode.started,
        ended=episode.ended or episode.touched,
    )


def _told_plainly(turns: Sequence[str]) -> Told:
    """Without a model: the words said most, and the longest turn in the user's own words."""
    counts = Counter(
        word
        for text in turns
        for word in words(text)
        if word not in FUNCTION_WORDS and len(word) >= LONG_WORD
    )
    longest = " ".join(max(turns, key=len).split())
    cut = longest if len(longest) <= SUMMARY else f"{longest[: SUMMARY - 1].rsplit(' ', 1)[0]}…"
    return Told(themes=[word for word, _ in counts.most_common(THEMES)], summary=f"they said: “{cut}”")


NEWEST = 200
"""So many of the newest facts are looked through: an episode teaches a few."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An episode in short, and what was learned in it, the newest first."""

    arc: Arc | None = None
    facts: tuple[Fact, ...] = ()
    rules: tuple[Rule, ...] = ()


async def kept_of(memory: Memory, episode: Episode) -> Kept:
    """What an episode left behind. What was corrected, forgotten or undone since is not among it."""
    facts = (await memory.page(limit=NEWEST)).facts
    rules = (await memory.profile()).rules
    return Kept(
        arc=None if episode.arc is None else msgspec.convert(episode.arc, Arc),
        facts=tuple(fact for fact in facts if _is_from(fact.source, episode)),
        rules=tuple(rule for rule in rules if _is_from(rule.source, episode)),
    )


def _is_from(source: Source | None, episode: Episode) -> bool:
    """Whether something was learned from a turn of an episode."""
    if source is None or source.thread != episode.thread or source.place < episode.first:
        return False
    return episode.last is None or source.version <= episode.last
