"""Commands of the chat that do something: forget, undo, export, go to another thread, end, leave."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Group
from rich.text import Text

from clew.cli.chat import screen, views
from clew.cli.chat.messages import ChatOutput, ChatQuestion
from clew.cli.chat.session import Chat
from clew.cli.render.memory import UNDO_OUTCOMES, entry_text, undo_effects
from clew.cli.render.values import clean, quantity
from clew.core.encoding import JSON, as_json
from clew.core.errors import InvalidArgument
from clew.core.messages.plain import PlainMessage
from clew.runtime.memory.learn.finalizer import EpisodeMemory, read_episode_memory
from clew.runtime.memory.memory import answer_pending
from clew.runtime.memory.recall.render import sentence_of
from clew.runtime.memory.values import Arc
from clew.runtime.records.episodes import ENDED
from clew.runtime.sessions.status import NONE

FEEDBACK_LABELS = {"y": "positive", "n": "negative", "s": "skip"}
FEEDBACK_PROMPT = "Did this help? y/n/s (Enter skips): "
FORGET_PROMPT = "Forget it? yes or no: "
ALL_MESSAGES = 1_000_000
MOST_TURN_MESSAGES = 50
"""A turn has no more messages than that."""

FILE_MODE = 0o600
CLIENT_NAME = "cli"


async def forget(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Show what would be forgotten, and wait for a yes. Ids may be cut short; other words are looked for."""
    if not words:
        raise InvalidArgument(problem="Say what to forget: /forget ID, as /memory shows it, or a word of it.")
    memory = chat.memory
    proposal = await memory.propose_forgetting(await _matching_ids(chat, words))

    async def forget_if_confirmed(reply: str) -> ChatOutput:
        result = await answer_pending(memory, reply)
        summary = f"Forgotten: {quantity(len(result.ids), 'thing')}. /undo brings it back."
        lines = [Text(summary)] if result.ids else []
        lines += [Text(f"{clean(id)} changed meanwhile, and stays.") for id in result.changed]
        display = Group(*lines) if lines else Text("Nothing is forgotten.")
        return ChatOutput(
            kind="forgotten", facts={"ids": result.ids, "changed": result.changed}, display=display
        )

    question = ChatQuestion(prompt=FORGET_PROMPT, on_answer=forget_if_confirmed, is_required=True)
    facts = {"would_forget": proposal.targets}
    sentences = {entry.id: sentence_of(entry) for entry in await chat.memory_entries()}
    texts = [sentences.get(target.id, target.text) for target in proposal.targets]
    return ChatOutput(kind="forget", facts=facts, display=screen.forget_preview(texts), question=question)


async def _matching_ids(chat: Chat, words: Sequence[str]) -> list[str]:
    """The ids that are meant: by their beginning, or by words of the entries."""
    entries = await chat.memory_entries()
    ids = [entry.id for entry in entries]
    ids_by_prefix = [[id for id in ids if id.startswith(word) and "-" in word] for word in words]
    if all(len(matches) == 1 for matches in ids_by_prefix):
        return list(dict.fromkeys(id for found in ids_by_prefix for id in found))
    phrase = " ".join(words).casefold()
    found = [entry.id for entry in entries if phrase in entry_text(entry).casefold()]
    if not found:
        raise InvalidArgument(problem=f"Nothing known matches {' '.join(words)!r}. /memory shows it all.")
    return found


async def undo(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Take back the last change of what is known, or the last turn of the conversation."""
    if list(words) == ["turn"]:
        return await _undo_turn(chat)
    if words:
        raise InvalidArgument(problem="Say /undo for what is remembered, or /undo turn for the last turn.")
    memory = chat.memory
    preview = await memory.preview_undo()
    await memory.undo(preview.version)
    outcome = UNDO_OUTCOMES.get(preview.reason, "it is as it was")
    facts = {"undone": preview.version, "what": preview.reason}
    display = Group(*undo_effects(preview), Text(f"Undone: {outcome}."))
    return ChatOutput(kind="undo", facts=facts, display=display)


async def _undo_turn(chat: Chat) -> ChatOutput:
    """Take back the last turn and what it changed in the state: an exercise is at its earlier step again."""
    participant = chat.participant
    window = await chat.runtime.history(participant.thread, last=MOST_TURN_MESSAGES, user=participant.user)
    run = window[-1].run if len(window) else None
    if run is None:
        raise InvalidArgument(problem="There is no turn to take back.")
    previous_version = min(item.version for item in window if item.run == run) - 1
    state = await chat.runtime.state(participant.thread, user=participant.user)
    if previous_version and chat.agent.rewinds_state(state):
        result = await chat.runtime.rewind(participant.thread, to=previous_version, user=participant.user)
    else:  # the agent keeps its state, such as that a person may be in danger
        result = await chat.runtime.rewind(participant.thread, run, user=participant.user)
    display = Text(f"The last turn is taken back: {quantity(result.items_removed, 'message')}.")
    return ChatOutput(
        kind="undo",
        facts={"run": run, "version": result.version, "messages": result.items_removed},
        display=display,
    )


async def export(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Write the conversation into a new file: Markdown, or JSON by its name."""
    file = " ".join(words) or f"{chat.participant.thread.replace(os.sep, '-')}.md"
    messages = await chat.messages(ALL_MESSAGES)
    if not messages:
        raise InvalidArgument(problem="Nothing has been said yet, so there is nothing to write.")
    data = msgspec.json.encode({"thread": chat.participant.thread, "messages": messages})
    is_json = file.endswith(".json")
    text = (
        msgspec.json.format(data).decode() if is_json else screen.markdown(chat.participant.thread, messages)
    )
    await asyncio.to_thread(_write_new_file, Path(file), text)
    display = Text(f"{quantity(len(messages), 'message')} written to {clean(file)}.")
    return ChatOutput(kind="export", facts={"file": file, "messages": len(messages)}, display=display)


def _write_new_file(file: Path, text: str) -> None:
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


async def begin_thread(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Begin another thread, with an id that was given or a new one."""
    previous = chat.participant
    await chat.move_to(_only_word(words) or chat.new_id())
    if (await chat.status()).status != NONE or await chat.messages(1):
        thread_id, chat.participant = chat.participant.thread, previous
        raise InvalidArgument(problem=f"There is a thread {thread_id!r} already. /resume goes on with it.")
    return await views.opening(chat)


async def resume(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Go on with another thread; without a name, with an answer that was cut off."""
    prefix = _only_word(words)
    if prefix is None:
        return await _resume_answer(chat)
    if chat.participant.is_guest:
        raise InvalidArgument(problem="You are a guest, and have this conversation alone.")
    ids = [thread.id for thread in await chat.threads(1000)]
    matches = [id for id in ids if id == prefix] or [id for id in ids if id.startswith(prefix)]
    if len(matches) != 1:
        problem = "is no thread of yours" if not matches else f"could be any of {', '.join(matches[:5])}"
        raise InvalidArgument(problem=f"{prefix!r} {problem}. /threads lists them.")
    await chat.move_to(matches[0])
    return await views.opening(chat)


async def _resume_answer(chat: Chat) -> ChatOutput:
    if (await chat.status()).status != "interrupted":
        return await views.threads(chat, ())
    result = await chat.runtime.resume(chat.participant.thread, user=chat.participant.user)
    display = screen.conversation([PlainMessage(role="assistant", text=result.text)])
    facts = {
        "thread": result.thread,
        "run": result.run,
        "text": result.text,
        "termination": result.termination,
    }
    return ChatOutput(kind="answer", facts=facts, display=display)


async def ask_and_record_feedback(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Record what the person thinks of the session, which goes on; a question need not be answered."""
    reply = _only_word(words)
    if reply is not None and reply.lower() not in FEEDBACK_LABELS:
        raise InvalidArgument(problem="Say /feedback, or /feedback with y, n or s.")
    if (await chat.status()).status == NONE:
        raise InvalidArgument(problem="No session has begun here yet. Say something first.")
    if reply is not None:
        return await _record_feedback(chat, reply)
    question = ChatQuestion(prompt=FEEDBACK_PROMPT, on_answer=lambda answer: _record_feedback(chat, answer))
    return ChatOutput(kind="feedback", facts={}, question=question)


async def _record_feedback(chat: Chat, reply: str) -> ChatOutput:
    """Record an answer; one that is none of the offered counts as none."""
    label = FEEDBACK_LABELS.get(reply.strip().lower()[:1])
    if label is None:
        return ChatOutput(kind="feedback", facts={"feedback": None}, display=Text("Nothing is recorded."))
    participant = chat.participant
    await chat.runtime.record_session_feedback(
        participant.thread, label, source=CLIENT_NAME, user=participant.user
    )
    display = Text("Thank you. Only that answer is recorded, never a word of yours.")
    return ChatOutput(kind="feedback", facts={"feedback": label}, display=display)


async def ask_and_end_session(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """End the session, after a question that need not be answered. What was answered before is not asked."""
    feedback = _only_word(words)
    if feedback is not None and feedback.lower() not in FEEDBACK_LABELS:
        raise InvalidArgument(problem="Say /end, or /end with y, n or s for what you thought of it.")
    status = await chat.status()
    if status.idle_since is None:
        return ChatOutput(
            kind="ended", facts={"ended": None}, display=Text("No session is open; nothing to end.")
        )
    if feedback is not None or status.feedback is not None:
        return await _end_session(chat, feedback or "")
    question = ChatQuestion(prompt=FEEDBACK_PROMPT, on_answer=lambda reply: _end_session(chat, reply))
    return ChatOutput(kind="end", facts={}, question=question)


async def _end_session(chat: Chat, reply: str) -> ChatOutput:
    """The session is ended whatever the reply is; one that is none of the offered counts as none."""
    label = FEEDBACK_LABELS.get(reply.strip().lower()[:1])
    episode = await chat.runtime.end_session(
        chat.participant.thread, feedback=label, by=CLIENT_NAME, user=chat.participant.user
    )
    if episode is None:
        return ChatOutput(kind="ended", facts={"ended": None}, display=Text("The session had ended already."))
    facts = {"ended": as_json(episode), "feedback": episode.feedback}
    if chat.participant.is_guest:
        return ChatOutput(kind="ended", facts=facts, display=Text(screen.GUEST_END_NOTE))
    episode_memory = await read_episode_memory(chat.memory, episode)
    ids = screen.short_ids([entry.id for entry in await chat.memory_entries()])
    display = screen.session_end(episode.turns, episode_memory, ids, is_complete=episode.status == ENDED)
    return ChatOutput(kind="ended", facts=facts | _memory_facts(episode_memory), display=display)


def _memory_facts(episode_memory: EpisodeMemory) -> dict[str, JSON]:
    """The memory that a session left, by the names that it has over HTTP."""
    arc = episode_memory.arc or Arc(id="", episode="", summary="")
    facts: dict[str, JSON] = {
        "summary": arc.summary,
        "themes": as_json(arc.themes),
        "open_loops": as_json(arc.open_loops),
        "facts": [as_json(fact) | {"says": sentence_of(fact)} for fact in episode_memory.facts],
        "rules": as_json(episode_memory.rules),
    }
    return facts


async def leave(chat: Chat, words: Sequence[str]) -> ChatOutput:
    """Leave the chat."""
    return ChatOutput(kind="leaving", facts={}, ends_chat=True)


def _only_word(words: Sequence[str]) -> str | None:
    """The one word that was given to a command, if any.

    Raises:
        InvalidArgument: There are several.
    """
    if len(words) > 1:
        raise InvalidArgument(problem="Give one id, without spaces.")
    return words[0] if words else None
