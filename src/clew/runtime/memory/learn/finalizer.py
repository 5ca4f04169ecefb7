"""The end of an episode in the memory of its user: an arc and the promoted candidates, in one commit.

``Runtime(finalize=Finalizer(model))`` does it for every episode, however it ends.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from clew.core.arguments import check_methods
from clew.core.encoding import as_json
from clew.core.errors import DeadlineExceeded, ModelFailed, ThreadNotFound
from clew.core.text.words import words
from clew.core.values import HISTORY, AppendTo, Write
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.learn.extraction import UserTurn, decide_promotions, extract_candidates, user_turns
from clew.runtime.memory.learn.promotion import PLAIN_RULES, PromotionRules, candidates_to_keep
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.phrases.refusals import without_refusals
from clew.runtime.memory.thread import write_counts
from clew.runtime.memory.values import MOST_THEMES, Arc, Candidate, Fact, MemorySource, Rule
from clew.runtime.memory.vectors.jobs import embedding_job
from clew.runtime.model import call
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, ModelRequest, Usage
from clew.runtime.records.episodes import Episode, EpisodeResult
from clew.runtime.records.steps import watched_step

T = TypeVar("T")
LONGEST_SUMMARY = 240
LEAST_WORD_LENGTH = 4
INSTRUCTIONS = """\
This conversation has ended. Tell what it was about, for whoever goes on with it another day: up to
three themes of one or two words, a summary of one or two sentences that begins with a verb in the past
("talked about …"), the mood at its beginning and at its end, what was left open, which approach was
taken, and in a few words what it was taken for (approach_context). Say nothing that was not said, and
nothing that the person asked not to remember."""


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in short, as a model tells it."""

    themes: list[str] = []
    summary: str
    mood_opened: str = ""
    mood_closed: str = ""
    open_loops: list[str] = []
    approach: str = ""
    approach_context: str = ""


@check_methods
class Finalizer:
    """Ends episodes: summary, arc, promotion. Without a model, or if it fails, by plain statements alone.

    With an embedder, jobs for the vectors of facts and arcs are queued; with ``embed_items``, also for those
    of all that was said. ``is_command`` says of a message and its reply whether that was a command: it did
    its work at once and is not looked through, since it may have been undone. ``rules`` are those of
    promotion that an application adds.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
        embed_items: bool = False,
        retry_policy: RetryPolicy = RetryPolicy(),
        is_command: Callable[[Message, Message], bool] = lambda message, reply: False,
        rules: PromotionRules = PLAIN_RULES,
    ) -> None:
        self._model = model
        self._is_command = is_command
        self._rules = rules
        self._embedder = embedder
        self._embed_items = embed_items
        self._retry_policy = retry_policy

    async def __call__(self, db: Database, episode: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        """Make the memory of an episode; it is committed with the end of its job."""
        turns = await _turns_of_episode(db, episode)
        if not turns:
            return EpisodeResult(episode=episode)
        texts = without_refusals([message.text for message in turns])
        if not any(texts):
            return EpisodeResult(episode=msgspec.structs.replace(episode, candidates=()))
        extraction = await extract_candidates(turns, self._fill if self._model is not None else None)
        command_texts = {
            message.text for message, reply in pairwise(transcript) if self._is_command(message, reply)
        }
        fresh = [
            candidate
            for candidate in extraction.candidates
            if turns[candidate.turn].text not in command_texts
        ]
        summary = await self._summarize(
            _transcript_without_refusals(transcript, turns, texts)
        ) or _summarize_plainly(texts)

        async def plan(episode: Episode) -> EpisodeResult:
            result = await self._plan_result(db, episode, turns, fresh, summary)
            counts = result.episode.write_counts
            if extraction.rejected_count:
                counts = {**counts, "rejected": extraction.rejected_count}
            counted = msgspec.structs.replace(result.episode, write_counts=counts)
            return msgspec.structs.replace(result, episode=counted, replan=plan)

        return await plan(episode)

    async def _plan_result(
        self,
        db: Database,
        episode: Episode,
        turns: Sequence[UserTurn],
        fresh: Sequence[Candidate],
        summary: ConversationSummary,
    ) -> EpisodeResult:
        """The arc and what is promoted, merged into the memory as it is now. No model is asked."""
        memory = memory_of(db, episode.thread, episode.user)
        candidates = [*_candidates_of_episode(episode, turns), *fresh]
        decisions = await decide_promotions(memory, turns, candidates, self._rules)
        arc = _arc_of(episode, summary)
        writes = await memory.episode_writes(arc, candidates_to_keep(decisions))
        episode_with_arc = msgspec.structs.replace(
            episode, arc=as_json(arc), candidates=(), write_counts=_write_counts(len(candidates), writes)
        )
        return EpisodeResult(
            episode=episode_with_arc, writes=[*writes, *self._embedding_jobs(episode, memory)]
        )

    async def _fill(self, request: ModelRequest, kind: type[T]) -> T:
        assert self._model is not None
        with watched_step("model", self._model.name) as step:

            def record_usage(usage: Usage) -> None:
                step.add_usage(usage)

            step.watch.add_request(request, output_type="json")
            answer, usage = await call.fill(self._model, request, kind, self._retry_policy, record_usage)
            record_usage(usage)
        return answer

    async def _summarize(self, transcript: Sequence[Message]) -> ConversationSummary | None:
        """The conversation in short; None if there is no model, it fails, or it has nothing to say."""
        if self._model is None:
            return None
        messages = [
            message for message in transcript if message.role in ("user", "assistant") and message.text
        ]
        try:
            summary = await self._fill(
                ModelRequest(messages=messages, instructions=INSTRUCTIONS), ConversationSummary
            )
        except (ModelFailed, DeadlineExceeded):
            return None
        return summary if summary.summary.strip() else None

    def _embedding_jobs(self, episode: Episode, memory: Memory) -> list[Write]:
        """Jobs for the vectors of what is new."""
        if self._embedder is None:
            return []
        jobs: list[Write] = [embedding_job(memory.thread, memory.owner, episode.id)]
        if self._embed_items:
            jobs.append(embedding_job(episode.thread, episode.user, episode.id, [HISTORY]))
        return jobs


def _write_counts(candidate_count: int, writes: Sequence[Write]) -> dict[str, int]:
    """The candidates that there were, and the entries of each kind that some writes keep."""
    counts = Counter({"candidates": candidate_count})
    for write in writes:
        if isinstance(write, AppendTo):
            counts.update(write_counts(write.change))
    return dict(counts)


async def _turns_of_episode(db: Database, episode: Episode) -> list[UserTurn]:
    """The turns of the user in an episode, each with its source."""
    try:
        items = await db.thread(episode.thread).items(after=episode.first - 1, at=episode.last, whole=True)
    except ThreadNotFound:
        return []
    return user_turns(items, episode.thread)


def _candidates_of_episode(episode: Episode, turns: Sequence[UserTurn]) -> list[Candidate]:
    """The candidates held in the episode's row, each with the number of its turn."""
    numbers = {turn.source.place: number for number, turn in enumerate(turns)}
    candidates = [msgspec.convert(candidate, Candidate) for candidate in episode.candidates]
    return [
        msgspec.structs.replace(candidate, turn=numbers[candidate.source.place])
        for candidate in candidates
        if candidate.source is not None and candidate.source.place in numbers
    ]


def _transcript_without_refusals(
    transcript: Sequence[Message], turns: Sequence[UserTurn], texts: Sequence[str]
) -> list[Message]:
    """A conversation without what the user asked not to keep, nor the answer to a turn of nothing else."""
    text_by_message = {turn.text: text for turn, text in zip(turns, texts, strict=True)}
    messages: list[Message] = []
    is_allowed = True
    for message in transcript:
        if message.role == "user":
            text = text_by_message.get(message.text, message.text)
            is_allowed = bool(text)
            messages += [Message(role="user", content=text)] if is_allowed else []
        elif is_allowed:
            messages.append(message)
    return messages


def _arc_of(episode: Episode, summary: ConversationSummary) -> Arc:
    return Arc(
        id=f"arc-{episode.id}",
        episode=episode.id,
        summary=summary.summary,
        themes=tuple(summary.themes[:MOST_THEMES]),
        mood_opened=summary.mood_opened,
        mood_closed=summary.mood_closed,
        open_loops=tuple(summary.open_loops),
        approach=summary.approach,
        approach_context=summary.approach_context,
        source=MemorySource(thread=episode.thread, version=episode.last or 0),
        began=episode.started,
        ended=episode.ended or episode.touched,
    )


def _summarize_plainly(turns: Sequence[str]) -> ConversationSummary:
    """Without a model: the words said most, and the longest turn in the user's own words."""
    counts = Counter(
        word
        for text in turns
        for word in words(text)
        if word not in FUNCTION_WORDS and len(word) >= LEAST_WORD_LENGTH
    )
    longest = " ".join(max(turns, key=len).split())
    excerpt = (
        longest if len(longest) <= LONGEST_SUMMARY else f"{longest[: LONGEST_SUMMARY - 1].rsplit(' ', 1)[0]}…"
    )
    return ConversationSummary(
        themes=[word for word, _ in counts.most_common(MOST_THEMES)], summary=f"they said: “{excerpt}”"
    )


NEWEST_FACTS = 200
"""So many of the newest facts are looked through: an episode teaches a few."""


class EpisodeMemory(msgspec.Struct, frozen=True, kw_only=True):
    """An episode in short, and what was learned in it, the newest first."""

    arc: Arc | None = None
    facts: tuple[Fact, ...] = ()
    rules: tuple[Rule, ...] = ()


async def read_episode_memory(memory: Memory, episode: Episode) -> EpisodeMemory:
    """Read the memory that an episode left, without entries corrected, forgotten or undone since."""
    facts = (await memory.page(limit=NEWEST_FACTS)).facts
    rules = (await memory.profile()).rules
    return EpisodeMemory(
        arc=None if episode.arc is None else msgspec.convert(episode.arc, Arc),
        facts=tuple(fact for fact in facts if _is_from(fact.source, episode)),
        rules=tuple(rule for rule in rules if _is_from(rule.source, episode)),
    )


def _is_from(source: MemorySource | None, episode: Episode) -> bool:
    """Return whether an entry was learned from a turn of an episode."""
    if source is None or source.thread != episode.thread or source.place < episode.first:
        return False
    return episode.last is None or source.version <= episode.last
