"""Commands of the chat that show something: its status, its messages, the memory, hits of a search."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from rich.console import Group
from rich.text import Text

from clew.cli.chat import screen
from clew.cli.chat.messages import ChatOutput
from clew.cli.chat.session import Chat
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument, StoreReadOnly
from clew.runtime.memory.phrases.refusals import candidates_without_refusal
from clew.runtime.memory.recall.render import entry_of, render_entry, sentence_of
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate
from clew.runtime.records.episodes import ACTIVE
from clew.runtime.search import Hit, Search, search_everything

DEFAULT_MESSAGES, DEFAULT_THREADS, MOST_HITS, RECENT_MESSAGES = 10, 12, 5, 60
OPENING_MESSAGES = 2
"""How many messages of the time before a chat opens with."""


async def opening(chat: Chat) -> ChatOutput:
    """The first thing that a chat says: who, where, and what came before."""
    participant, session_status = chat.participant, await chat.status()
    messages = await chat.messages(OPENING_MESSAGES)
    catch_up = [] if messages or participant.is_guest else await _catch_up(chat)
    facts = {**_chat_facts(chat), "status": session_status.status, "catch_up": catch_up}
    display = Group(
        screen.opening(participant, chat.model, chat.notices),
        *screen.welcome(session_status, messages, catch_up),
    )
    return ChatOutput(kind="opened", facts=facts, display=display)


async def _catch_up(chat: Chat) -> list[str]:
    """The last session of a user who begins another thread, unless recall is off."""
    if not (await chat.memory.profile()).recall:
        return []
    return [render_entry(entry) for entry in await Retriever(chat.memory).catch_up()]


def _chat_facts(chat: Chat) -> dict[str, object]:
    participant = chat.participant
    return {
        "thread": participant.thread,
        "user": participant.user,
        "mode": str(participant.mode),
        "agent": chat.runtime.agent,
        "model": chat.model,
    }


def _option_names(chat: Chat) -> dict[str, str]:
    """The names of what else the agent was given; empty where there is nothing."""
    embedder, search_provider = chat.settings.embedder, chat.settings.search_provider
    return {
        "embedder": "" if embedder is None else embedder.name,
        "search_provider": "" if search_provider is None else search_provider.name,
    }


async def status(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Show the status of the chat."""
    session_status = await chat.status()
    facts = {
        **_chat_facts(chat),
        **_option_names(chat),
        "skills": list(chat.installed_skills),
        "store": chat.store,
        **as_json(session_status),
        "advice": session_status.advice,
    }
    return ChatOutput(
        kind="status",
        facts=facts,
        display=screen.status_table(
            chat.participant,
            chat.model,
            chat.store,
            session_status,
            _option_names(chat) | {"skills": ", ".join(chat.installed_skills)},
        ),
    )


async def skills(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Show the skills that every answer is made with."""
    texts = {name: chat.settings.skills[name] for name in chat.installed_skills}
    display = screen.skill_list(texts, chat.agent.name, is_used="skills" in chat.agent.uses)
    return ChatOutput(kind="skills", facts={"skills": list(texts)}, display=display)


async def context(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Show what the last answer was made with; with ``on`` or ``off``, set whether each answer shows it."""
    match [word.lower() for word in words]:
        case []:
            sections = chat.context()
            return ChatOutput(
                kind="context", facts={"context": sections}, display=screen.context_panel(sections)
            )
        case [("on" | "off") as toggle]:
            chat.shows_context = toggle == "on"
            outcome = "is shown after each answer" if chat.shows_context else "is shown by /context alone"
            display = Text(f"What an answer was made with {outcome}.")
            return ChatOutput(kind="context", facts={"shown": chat.shows_context}, display=display)
    raise InvalidArgument(problem="Say /context, or /context on, or /context off.")


async def history(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """The newest messages."""
    messages = await chat.messages(parse_count(words, DEFAULT_MESSAGES))
    return ChatOutput(kind="history", facts={"messages": messages}, display=screen.conversation(messages))


async def threads(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """The newest threads of the participant."""
    summaries = await chat.threads(parse_count(words, DEFAULT_THREADS))
    return ChatOutput(
        kind="threads",
        facts={"threads": summaries},
        display=screen.thread_lines(summaries, chat.participant.thread),
    )


async def memory(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Show the memory; with ``recall on`` or ``recall off``, set whether it may be brought up."""
    match [word.lower() for word in words]:
        case []:
            return await _memory_output(chat)
        case ["recall", ("on" | "off") as toggle]:
            await chat.memory.set_recall(on=toggle == "on")
            outcome = "may be brought up" if toggle == "on" else "is brought up only if you ask"
            display = Text(f"Recall is {toggle}: what is known {outcome}.")
            return ChatOutput(kind="memory", facts={"recall": toggle == "on"}, display=display)
    raise InvalidArgument(problem="Say /memory, or /memory recall on, or /memory recall off.")


async def _memory_output(chat: Chat) -> ChatOutput:
    profile = await chat.memory.profile()
    facts, arcs = (
        await chat.memory.page("facts", limit=50),
        await chat.memory.page("arcs", limit=DEFAULT_MESSAGES),
    )
    ids = screen.short_ids([entry.id for entry in await chat.memory_entries()])
    has_more, candidates = facts.next is not None or arcs.next is not None, await _candidate_sentences(chat)
    display = screen.memory_overview(
        profile, facts.facts, arcs.arcs, ids, candidates=candidates, has_more=has_more
    )
    entries = {"rules": profile.rules, "facts": facts.facts, "arcs": arcs.arcs, "noted": candidates}
    return ChatOutput(kind="memory", facts={"recall": profile.recall, **entries}, display=display)


async def _candidate_sentences(chat: Chat) -> list[str]:
    """The candidates of the open session, which are stored when it ends, in words."""
    episode = (await chat.status()).episode
    if episode is None or episode.status != ACTIVE:
        return []
    candidates = [msgspec.convert(each, Candidate) for each in episode.candidates]
    texts = [message.text for message in await chat.messages(RECENT_MESSAGES) if message.role == "user"]
    return [sentence_of(entry_of(each)) for each in candidates_without_refusal(candidates, texts)]


async def search(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Search messages and memory, the best hits first."""
    if not words:
        raise InvalidArgument(problem="Say what to look for: /search train to lisbon.")
    memory_thread = chat.memory.thread
    with suppress(StoreReadOnly):  # what is indexed must do then
        await chat.db.index()
    query = Search(query=" ".join(words))
    if chat.participant.user is not None:
        hits = await _search(chat, query)
    else:  # without a user only this thread, and what is known in it, is one's own
        own_threads = (chat.participant.thread, memory_thread)
        hits = [hit for thread in own_threads for hit in await _search(chat, query, thread)]
    return ChatOutput(
        kind="search", facts={"found": hits}, display=screen.hit_list(hits[:MOST_HITS], query.query)
    )


async def _search(chat: Chat, query: Search, thread: str | None = None) -> Sequence[Hit]:
    thread_query = msgspec.structs.replace(query, thread=thread)
    embedder = chat.runtime.embedding_provider
    return (await search_everything(chat.user_db, thread_query, limit=MOST_HITS, embedder=embedder)).hits


def parse_count(words: Sequence[str], default: int) -> int:
    """A number that was given to a command, or the usual one.

    Raises:
        InvalidArgument: It is none.
    """
    if not words:
        return default
    if len(words) > 1 or not words[0].isdecimal() or not 0 < int(words[0]) <= 1000:
        raise InvalidArgument(problem="Give one number from 1 to 1000, or none.")
    return int(words[0])
