"""Memory by talk: seen, corrected, forgotten in two steps, undone. No model is asked."""

from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import Any

import msgspec

from clew.core.errors import InvalidArgument, RecordNotFound, RewindRefused
from clew.core.text.words import stem, words
from clew.runtime.context import Context, MemoryMode
from clew.runtime.memory import (
    Arc,
    Candidate,
    Fact,
    ForgetTarget,
    Memory,
    Rule,
    UndoPreview,
    statements_in,
)
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.phrases.refusals import refusals_in
from clew.runtime.memory.recall.render import REQUEST_PREDICATE, entry_of, sentence_of
from clew.runtime.memory.values import MemoryEntry
from clew.runtime.model.messages import Message
from clew.runtime.turn.draft import Delta
from clew_companion.language.commands import MemoryCommand, command_in
from clew_companion.language.phrases import normalize_text
from clew_companion.language.second_person import topic_phrase
from clew_companion.memory.candidates import session_notes
from clew_companion.memory.load import NO_WRITES, episode_id, memory_of_turn, message_source
from clew_companion.state import CompanionState

MOST_ENTRIES = 500
ROOT_LETTERS, ENDING_LETTERS = 4, 3
VAGUE_STEMS = frozenset(
    map(
        stem,
        words(
            "everything anything something thing all fact know remember tell told said call called name me"
        ),
    )
)


async def find_entries(memory: Memory, about: str, *, loosely: bool = False) -> list[MemoryEntry]:
    """The entries about some words, the newest first; all if there are none.

    What is not English has other endings than those that a stem leaves out, so it may be looked for loosely.
    """
    profile = await memory.profile()
    facts = (await memory.page("facts", limit=MOST_ENTRIES)).facts
    arcs = (await memory.page("arcs", limit=MOST_ENTRIES)).arcs
    return entries_about([*profile.rules, *facts, *arcs], about, loosely=loosely)


def entries_about(entries: Sequence[MemoryEntry], about: str, *, loosely: bool = False) -> list[MemoryEntry]:
    """The entries about some words: by their own text, and only then by the sentence they come from."""
    stems = subject_stems(about)
    if not stems:
        return list(entries)
    for text in (_entry_own_text, _entry_text):
        matches = [each for each in entries if stems <= _stems(text(each))]
        if matches:
            return matches
    return [each for each in entries if loosely and _is_alike(about, _entry_text(each))]


def _is_alike(about: str, text: str) -> bool:
    """Return whether every word of some is in a text, but for its ending."""
    text_words = words(normalize_text(text))
    return all(
        any(_differ_in_ending(word, other) for other in text_words) for word in words(normalize_text(about))
    )


def _differ_in_ending(first: str, second: str) -> bool:
    same = sum(1 for _ in takewhile(bool, map(eq, first, second)))
    return first == second or (same >= ROOT_LETTERS and max(len(first), len(second)) - same <= ENDING_LETTERS)


def _entry_text(entry: MemoryEntry) -> str:
    if isinstance(entry, Rule):
        return f"{entry.about} {entry.text}"
    return f"{entry.text} {entry.summary}" if isinstance(entry, Arc) else entry.text


def _entry_own_text(entry: MemoryEntry) -> str:
    """The text of an entry without its source sentence, which may say more."""
    return _entry_text(entry) if not isinstance(entry, Fact) else _entry_text(entry).removesuffix(entry.quote)


def subject_stems(about: str) -> set[str]:
    """The stems that say what a command is about."""
    return {
        stem(word) for word in words(about) if word not in FUNCTION_WORDS and word not in VAGUE_STEMS
    } - VAGUE_STEMS


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}


MOST_LINES = 12
NO_MEMORY = (
    "I keep nothing in this conversation: it is not stored, so there is nothing to look at, to change or to "
    "forget."
)
WHICH_ONE = "Which of these do you mean? Say it with a word that only one of them has."
HOW_TO_CORRECT = "“No, it is Anna, not Ann” puts such a thing right, and “forget that” has me forget it."
NOT_KEEPING = "I will not keep what you said just now."
NOTHING_TO_FORGET = "There is nothing just before this that I could forget."
NAME_PREDICATE, MENTION_PREDICATE = "IS_CALLED", "MENTIONED"

RECENT_MESSAGES = 4


async def memory_control(state: CompanionState, context: Context) -> Delta:
    """Do what the message asks of the memory, and say what was done."""
    memory = memory_of_turn(context)
    if memory is None:
        return _reply_delta(NO_MEMORY)
    delta = await _do_command(memory, state, context)
    control = delta.get("memory_control", {})
    if memory.last_version:
        delta = {**delta, "memory_control": {**control, "last_change": memory.last_version}}
    return {**delta, "diagnostics": {"write_counts": {**NO_WRITES, **memory.write_counts}}}


async def _do_command(memory: Memory, state: CompanionState, context: Context) -> dict[str, Any]:
    action = dict(state.memory_control.action)
    answer = action.pop("answer", "")
    if answer:
        return await _finish_pending(
            memory, state.memory_control.pending_action or {}, is_agreed=answer == "yes"
        )
    command = msgspec.convert(action, MemoryCommand)
    match command.kind:
        case "list":
            return _reply_delta(await _list_memory(memory, command, state, context))
        case "forget":
            return await _propose_forgetting(memory, command, state.message, context)
        case "forget_that":
            return await _propose_forgetting_last(memory, await state.history.tail(RECENT_MESSAGES), context)
        case "wrong":
            return _reply_delta(await _ask_for_correction(memory, await state.history.tail(RECENT_MESSAGES)))
        case "correct":
            return _reply_delta(await _correct_entry(memory, command, state, context))
        case "remember":
            return _reply_delta(await _remember(memory, command.what, context, state.message))
        case "undo":
            return await _undo(memory, state.memory_control.last_change, context)
        case _:
            return _reply_delta(await _set_recall(memory, on=command.kind == "recall_on"))


async def _list_memory(
    memory: Memory, command: MemoryCommand, state: CompanionState, context: Context
) -> str:
    """The reply that lists stored entries and candidates, each under its name."""
    about, loosely = command.what, bool(command.language)
    all_entries = await find_entries(memory, "")
    all_notes = [
        entry_of(each)
        for each in await session_notes(state, context)
        if not _is_outdated_note(each, all_entries)
    ]
    entries, notes = (entries_about(group, about, loosely=loosely) for group in (all_entries, all_notes))
    if not entries and not notes:
        what = _topic(about, command) if subject_stems(about) else "about you yet"
        return f"I remember nothing {what}."
    parts = [f"This is what I remember:\n{_entry_lines(entries)}"] if entries else []
    parts += (
        [f"In this conversation you have told me:\n{_entry_lines(notes)}\n{SESSION_END_NOTE}"]
        if notes
        else []
    )
    recall = (await memory.profile()).recall
    parts += [] if recall else ["I do not bring these up unless you ask, as you wished."]
    return "\n".join([*parts, "You can ask me to correct or to forget any of it.", *_duration_notes(context)])


def _topic(text: str, command: MemoryCommand) -> str:
    """The topic of a command, in the right person; words of another language are quoted as they are."""
    return f"about “{text}”" if command.language else topic_phrase(text)


def _is_outdated_note(candidate: Candidate, entries: Sequence[MemoryEntry]) -> bool:
    """Return whether the memory says the same as a candidate, or something newer in its place."""
    note = entry_of(candidate)
    return any(
        sentence_of(entry) == sentence_of(note) or (candidate.single and _is_newer_fact(entry, candidate))
        for entry in entries
    )


def _is_newer_fact(entry: MemoryEntry, candidate: Candidate) -> bool:
    """Return whether a fact is about the same as a candidate, of which there can be one only, and newer."""
    if not isinstance(entry, Fact):
        return False
    is_same = (entry.subject, entry.predicate) == (candidate.subject, candidate.predicate)
    return is_same and _source_time(entry) > _source_time(candidate)


def _source_time(fact: Fact | Candidate) -> int:
    return 0 if fact.source is None else fact.source.time


SESSION_END_NOTE = "What is worth it is kept when the session ends."
INCOGNITO_NOTE = "I remember it until this conversation ends; nothing of it is kept."


def _duration_notes(context: Context) -> list[str]:
    """Notes on entries that do not last long."""
    return [INCOGNITO_NOTE] if context.memory_mode is MemoryMode.INCOGNITO else []


def _entry_lines(entries: Sequence[MemoryEntry]) -> str:
    """Entries, a line each; not more than can be read."""
    lines = "\n".join(f"- {sentence_of(entry)}" for entry in entries[:MOST_LINES])
    return lines + (f"\n… and {len(entries) - MOST_LINES} more." if len(entries) > MOST_LINES else "")


async def _propose_forgetting(
    memory: Memory, command: MemoryCommand, message: str, context: Context
) -> dict[str, Any]:
    """Show what would be forgotten, and wait for a word."""
    entries = await find_entries(memory, command.what, loosely=bool(command.language))
    if not entries:
        assurance = " I will not keep it from this conversation either." if refusals_in([message]) else ""
        what = _topic(command.what, command) if subject_stems(command.what) else "about you"
        return _reply_delta(f"I have kept nothing {what}, so there is nothing to forget.{assurance}")
    return await _ask_to_forget(memory, entries, context)


async def _ask_to_forget(memory: Memory, entries: Sequence[MemoryEntry], context: Context) -> dict[str, Any]:
    targets = await memory.targets([entry.id for entry in entries])
    pending = {
        "action": "forget",
        "targets": msgspec.to_builtins(targets),
        "episode": episode_id(context),
    }
    advice = "Say yes to forget it. Anything else leaves it as it is."
    text = f"Shall I forget this?\n{_entry_lines(entries)}\n{advice}"
    return {**_reply_delta(text), "memory_control": {"pending_action": pending}}


async def _propose_forgetting_last(
    memory: Memory, recent: Sequence[Message], context: Context
) -> dict[str, Any]:
    """Show what "that" would forget: the entries that the last reply named, or else what was just said."""
    entries = await _entries_in_last_reply(memory, recent)
    if len(entries) == 1:
        return await _ask_to_forget(memory, entries, context)
    if entries:
        return _reply_delta(f"{WHICH_ONE}\n{_entry_lines(entries)}")
    texts = [entry.text for entry in recent if entry.role == "user"]
    return _reply_delta(NOT_KEEPING if len(texts) > 1 and refusals_in(texts) else NOTHING_TO_FORGET)


async def _ask_for_correction(memory: Memory, recent: Sequence[Message]) -> str:
    entries = await _entries_in_last_reply(memory, recent)
    lines = f"\n{_entry_lines(entries)}" if entries else ""
    return f"Then tell me how it is.{lines}\n{HOW_TO_CORRECT}"


async def _entries_in_last_reply(memory: Memory, recent: Sequence[Message]) -> list[MemoryEntry]:
    """The entries that the last reply named."""
    if not is_about_memory(recent):
        return []
    reply = next(entry.text for entry in reversed(recent) if entry.role == "assistant")
    return [entry for entry in await find_entries(memory, "") if sentence_of(entry) in reply]


def is_about_memory(recent: Sequence[Message]) -> bool:
    """Return whether the last reply was about the memory."""
    replies = [entry for entry in recent if entry.role == "assistant"]
    return bool(replies) and replies[-1].meta.get("response_style") == "memory_control"


def was_command(message: Message, reply: Message) -> bool:
    """Return whether a message was a command. A correction is none: it states a fact, like any message."""
    command = command_in(message.text) if is_about_memory([reply]) else None
    return command is not None and command.kind not in ("list", "wrong", "correct")


async def _finish_pending(memory: Memory, pending: dict[str, Any], *, is_agreed: bool) -> dict[str, Any]:
    """Do what waited, or give it up."""
    no_pending = {"memory_control": {"pending_action": None}}
    if pending.get("action") == UNDO_ACTION:
        text = await _undo_version(memory, int(pending["version"])) if is_agreed else NOTHING_UNDONE
        return {**_reply_delta(text), **no_pending}
    if not is_agreed:
        return {**_reply_delta("Nothing was forgotten. It stays as it is."), **no_pending}
    targets = msgspec.convert(pending.get("targets", []), list[ForgetTarget])
    result = await memory.forget(targets)
    conflict_count = len(result.changed)
    remark = f" {conflict_count} of it had changed since, so I left it." if conflict_count else ""
    if not result.ids:
        return {**_reply_delta(f"Nothing was forgotten.{remark}"), **no_pending}
    text = f"Forgotten: {_count_in_words(len(result.ids))}.{remark} You can still say “undo that”."
    return {**_reply_delta(text), **no_pending}


async def _correct_entry(
    memory: Memory, command: MemoryCommand, state: CompanionState, context: Context
) -> str:
    entries = await _correction_targets(memory, command)
    if not entries and await _learn_notes_now(memory, command, state, context):
        entries = await _correction_targets(memory, command)
    if not entries and command.said:
        return await _remember(memory, command.said, context, state.message)
    if not entries:
        return f"I remember nothing {_topic(command.old, command)}, so there is nothing to correct."
    if len(entries) > 1:
        return f"{WHICH_ONE}\n{_entry_lines(entries)}"
    before = entries[0]
    try:
        after = await memory.correct(
            before.id,
            object=_new_text(before, command),
            quote=state.message,
            source=await message_source(context),
        )
    except RecordNotFound:
        return "That is not in my memory any more, so nothing was changed."
    return f"Corrected. I now remember: {sentence_of(after)}"


async def _learn_notes_now(
    memory: Memory, command: MemoryCommand, state: CompanionState, context: Context
) -> bool:
    """Keep at once what was only noted and is being corrected, so that there is something to correct."""
    about, loosely = command.old or command.what, bool(command.language)
    candidates = [
        candidate
        for candidate in await session_notes(state, context)
        if entries_about([entry_of(candidate)], about, loosely=loosely)
    ]
    if candidates:
        await memory.learn(candidates, run=context.turn.id, key=f"correct {context.turn.id}")
    return bool(candidates)


async def _correction_targets(memory: Memory, command: MemoryCommand) -> Sequence[Fact | Rule]:
    """The entries that a correction may mean. One that only gives a name is about a name first."""
    about = command.old or command.what
    matches = await find_entries(memory, about, loosely=bool(command.language))
    entries = [entry for entry in matches if not isinstance(entry, Arc)]
    if not command.said:
        return entries
    subjects = {
        each.subject for each in statements_in(_as_sentence(command.said)) if each.predicate == NAME_PREDICATE
    }
    facts = [known for known in await find_entries(memory, "") if isinstance(known, Fact)]
    name_facts = [
        fact
        for fact in facts
        if fact.predicate == NAME_PREDICATE and (fact in entries or fact.subject in subjects)
    ]
    return name_facts or [fact for fact in facts if fact in entries]


def _new_text(entry: MemoryEntry, command: MemoryCommand) -> str:
    """The text of a fact after the new words replace the old ones."""
    old, new = command.old, command.new
    if not old:
        return (
            command.said
            if isinstance(entry, Fact) and entry.predicate in (REQUEST_PREDICATE, MENTION_PREDICATE)
            else new
        )
    if isinstance(entry, Rule):
        return entry.text.replace(old, new) if old in entry.text else new
    if (
        isinstance(entry, Fact)
        and old.lower() in entry.object.lower()
        and old.lower() != entry.object.lower()
    ):
        at = entry.object.lower().index(old.lower())
        return f"{entry.object[:at]}{new}{entry.object[at + len(old) :]}"
    return new


async def _remember(memory: Memory, what: str, context: Context, message: str) -> str:
    source = await message_source(context)
    candidates = statements_in(_as_sentence(what), source=source) or [
        Candidate(
            predicate=REQUEST_PREDICATE,
            object=what,
            quote=message[:LONGEST_QUOTE],
            confidence=1.0,
            plain=True,
            source=source,
        )
    ]
    result = await memory.learn(candidates, run=context.turn.id, key=f"remember {context.turn.id}")
    ids = {outcome.id for outcome in result.outcomes}
    lines = _entry_lines([entry for entry in await find_entries(memory, "") if entry.id in ids])
    listing = f":\n{lines}\n" if lines else ". "
    if context.memory_mode is MemoryMode.INCOGNITO:
        return f"I will remember that{listing}{INCOGNITO_NOTE}"
    return f"I will remember that{listing}You can ask what I remember at any time, and have me forget it."


LONGEST_QUOTE = 280


UNDO_ACTION = "undo"
NOTHING_TO_UNDO = "There is nothing to undo in what I remember."
CHANGED_AGAIN = "That has been changed again since, so I cannot take it back."
NOTHING_UNDONE = "Nothing was undone. It stays as it is."
CHANGE_WORDS = {
    "CloseEpisode": "it is what I kept when a session ended",
    "Learn": "it is something that I learned",
    "Correct": "it is a correction",
    "Forget": "something was forgotten",
    "SetRecall": "bringing things up was switched on or off",
    "Undo": "something was taken back",
}
"""The way a change came about, to the person who asks for its undoing."""


async def _undo(memory: Memory, last_change: int, context: Context) -> dict[str, Any]:
    """Undo the last command, and name what that takes back. Ask first if the last change was none."""
    try:
        preview = await memory.preview_undo()
    except InvalidArgument:
        return _reply_delta(NOTHING_TO_UNDO)
    except RewindRefused:
        return _reply_delta(CHANGED_AGAIN)
    if preview.version == last_change:
        return _reply_delta(await _undo_version(memory, preview.version))
    reason = CHANGE_WORDS.get(preview.reason, "something changed")
    text = (
        f"The last change in what I remember is not your last command: {reason}. Shall I undo it?\n"
        f"{_undo_lines(preview, would=True)}\nSay yes to undo it. Anything else leaves it as it is."
    )
    pending = {"action": UNDO_ACTION, "version": preview.version, "episode": episode_id(context)}
    return {**_reply_delta(text), "memory_control": {"pending_action": pending}}


async def _undo_version(memory: Memory, version: int) -> str:
    try:
        preview = await memory.preview_undo(version)
        await memory.undo(version)
    except InvalidArgument:
        return NOTHING_TO_UNDO
    except RewindRefused:
        return CHANGED_AGAIN
    return f"Undone.\n{_undo_lines(preview)}"


def _undo_lines(preview: UndoPreview, *, would: bool = False) -> str:
    """The effect of an undo, so that the person knows what it takes back."""
    i = "I would" if would else "I"
    parts = [f"{i} no longer remember:\n{_entry_lines(preview.removes)}"] if preview.removes else []
    parts += [f"{i} remember again:\n{_entry_lines(preview.restores)}"] if preview.restores else []
    if preview.recall is not None:
        parts.append(RECALL_ON if preview.recall else RECALL_OFF)
    return "\n".join(parts) or "What I remember says the same as before."


RECALL_ON = "I may bring up what I remember."
RECALL_OFF = "I do not bring up what I remember unless you ask."


async def _set_recall(memory: Memory, *, on: bool) -> str:
    await memory.set_recall(on=on)
    if on:
        return "I may bring up what I remember again. How you want to be answered holds either way."
    return (
        "I will not bring up what I remember unless you ask. How you want to be answered still holds, and "
        "nothing was forgotten."
    )


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text else text


def _count_in_words(count: int) -> str:
    return "one thing" if count == 1 else f"{count} things"


def _reply_delta(text: str) -> dict[str, Any]:
    return {"response_text": text, "response_style": "memory_control", "response_style_source": "command"}
