"""Memory by talk: seen, corrected, forgotten in two steps, undone. No model is asked."""

import re
from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import Any, TypeAlias

import msgspec

from clew.companion.language.commands import Command, command_in
from clew.companion.language.phrases import simple
from clew.companion.memory.candidates import as_known, noted
from clew.companion.memory.load import memory_in, source_in
from clew.companion.state import Companion
from clew.core.errors import InvalidArgument, RecordNotFound, RewindRefused
from clew.core.text.words import stem, words
from clew.runtime.context import Context, MemoryMode
from clew.runtime.memory import Arc, Candidate, Fact, Memory, Rule, Target, stated
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.phrases.refusals import refusals
from clew.runtime.model.messages import Message
from clew.runtime.turn.draft import Delta

Known: TypeAlias = Fact | Arc | Rule
READ = 500
ROOT, ENDING = 4, 3
VAGUE = frozenset(
    map(
        stem,
        words(
            "everything anything something thing all fact know remember tell told said call called name me"
        ),
    )
)


async def matching(memory: Memory, about: str, *, loosely: bool = False) -> list[Known]:
    """What is known about some words, the newest first; everything if there are none.

    What is not English has other endings than those that a stem leaves out, so it may be looked for loosely.
    """
    profile = await memory.profile()
    listed = (await memory.page("facts", limit=READ)).facts
    arcs = (await memory.page("arcs", limit=READ)).arcs
    return about_words([*profile.rules, *listed, *arcs], about, loosely=loosely)


def about_words(known: Sequence[Known], about: str, *, loosely: bool = False) -> list[Known]:
    """What of it is about some words: by what it says, and only then by the sentence that it comes from."""
    wanted = telling(about)
    if not wanted:
        return list(known)
    for text in (_own_text, _text):
        found = [each for each in known if wanted <= _stems(text(each))]
        if found:
            return found
    return [each for each in known if loosely and _is_alike(about, _text(each))]


def _is_alike(about: str, text: str) -> bool:
    """Whether every word of some is in a text, but for its ending."""
    there = words(simple(text))
    return all(any(_differ_in_ending(word, other) for other in there) for word in words(simple(about)))


def _differ_in_ending(first: str, second: str) -> bool:
    same = sum(1 for _ in takewhile(bool, map(eq, first, second)))
    return first == second or (same >= ROOT and max(len(first), len(second)) - same <= ENDING)


def _text(known: Known) -> str:
    if isinstance(known, Rule):
        return f"{known.about} {known.text}"
    return f"{known.text} {known.summary}" if isinstance(known, Arc) else known.text


def _own_text(known: Known) -> str:
    """What something says without the words that it comes from, which may say more."""
    return _text(known) if not isinstance(known, Fact) else _text(known).removesuffix(known.quote)


def telling(about: str) -> set[str]:
    """The stems that say what a command is about."""
    return {stem(word) for word in words(about) if word not in FUNCTION_WORDS and word not in VAGUE} - VAGUE


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}


SHOWN = 12
SECOND = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
NOT_KEPT = (
    "I keep nothing in this conversation: it is not stored, so there is nothing to look at, to change or to "
    "forget."
)
WHICH = "Which of these do you mean? Say it with a word that only one of them has."
HOW = "“No, it is Anna, not Ann” puts such a thing right, and “forget that” has me forget it."
NOT_KEEPING = "I will not keep what you said just now."
NOTHING_OF_IT = "There is nothing just before this that I could forget."
NAME, ASKED, MENTIONED = "IS_CALLED", "ASKED_TO_REMEMBER", "MENTIONED"
"""What a fact says of a name, and what it says if all of it is in its object."""

BIRTHDAY = "HAS_BIRTHDAY_ON"
WHEN = re.compile(r"(?:in|on|at)\b", re.IGNORECASE)
USER = re.compile(r"\b[Tt]he user(?P<s>'s)?\b")
"""Whom a rule speaks of; they read it themselves."""

BEFORE = 4


async def memory_control(state: Companion, ctx: Context) -> Delta:
    """Do what the message asks of the memory, and say what was done."""
    memory = memory_in(ctx)
    if memory is None:
        return _said(NOT_KEPT)
    action = dict(state.memory_control.action)
    answer = action.pop("answer", "")
    if answer:
        return await _answered(memory, state.memory_control.pending_action or {}, agreed=answer == "yes")
    command = msgspec.convert(action, Command)
    match command.kind:
        case "list":
            return _said(await _listed(memory, command, state, ctx))
        case "forget":
            return await _proposed(memory, command, state.message)
        case "forget_that":
            return await _proposed_that(memory, await state.history.tail(BEFORE))
        case "wrong":
            return _said(await _asked_how(memory, await state.history.tail(BEFORE)))
        case "correct":
            return _said(await _corrected(memory, command, state, ctx))
        case "remember":
            return _said(await _remembered(memory, command.what, ctx, state.message))
        case "undo":
            return _said(await _undone(memory))
        case _:
            return _said(await _recall(memory, on=command.kind == "recall_on"))


def sentence_of(known: Known) -> str:
    """One line for what is known, as a person reads it."""
    if isinstance(known, Rule):
        return USER.sub(
            lambda found: f"{'Y' if found[0][0] == 'T' else 'y'}ou{'r' if found['s'] else ''}", known.text
        )
    if isinstance(known, Arc):
        return f"Earlier session: {known.summary}"
    if known.predicate == BIRTHDAY:
        told = f"Your birthday is {'' if WHEN.match(known.object) else 'on '}{known.object}."
    elif known.predicate == ASKED:
        told = f"You asked me to remember: {known.object}."
    elif known.subject.lower() == "user":
        told = f"You {_in_second_person(known)} {known.object}."
    else:
        told = f"Your {known.subject} {known.worded} {known.object}."
    return f"{told} You said: “{known.quote}”" if known.quote else told


def _in_second_person(fact: Fact) -> str:
    """What a fact says of the person, to the person: lives in is live in."""
    first, *rest = fact.predicate.replace("_", " ").lower().split()
    verb = SECOND.get(first) or (f"{first[:-3]}y" if first.endswith("ies") else first.removesuffix("s"))
    denied = [verb, "not"] if verb in ("are", "were") else ["do not", verb]
    return " ".join([*(denied if fact.negated else [verb]), *rest])


async def _listed(memory: Memory, command: Command, state: Companion, ctx: Context) -> str:
    """What is kept and what is only noted so far, each under its name."""
    about, loosely = command.what, bool(command.language)
    everything = await matching(memory, "")
    new = [as_known(each) for each in await noted(state, ctx) if not _is_settled(each, everything)]
    kept, fresh = (about_words(known, about, loosely=loosely) for known in (everything, new))
    if not kept and not fresh:
        what = f"about {about}" if telling(about) else "about you yet"
        return f"I remember nothing {what}."
    parts = [f"This is what I remember:\n{_lines(kept)}"] if kept else []
    parts += [f"In this conversation you have told me:\n{_lines(fresh)}\n{LATER}"] if fresh else []
    recall = (await memory.profile()).recall
    parts += [] if recall else ["I do not bring these up unless you ask, as you wished."]
    return "\n".join([*parts, "You can ask me to correct or to forget any of it.", *_until(ctx)])


def _is_settled(candidate: Candidate, kept: Sequence[Known]) -> bool:
    """Whether the memory says the same as a candidate, or something newer in its place."""
    new = as_known(candidate)
    return any(
        sentence_of(known) == sentence_of(new) or (candidate.single and _replaces(known, candidate))
        for known in kept
    )


def _replaces(known: Known, candidate: Candidate) -> bool:
    """Whether a fact is about the same as a candidate, of which there can be one only, and newer."""
    if not isinstance(known, Fact):
        return False
    is_same = (known.subject, known.predicate) == (candidate.subject, candidate.predicate)
    return is_same and _time(known) > _time(candidate)


def _time(learned: Fact | Candidate) -> int:
    return 0 if learned.source is None else learned.source.time


LATER = "What is worth it is kept when the session ends."
UNTIL = "I remember it until this conversation ends; nothing of it is kept."


def _until(ctx: Context) -> list[str]:
    """How long what is remembered lasts, where that is not long."""
    return [UNTIL] if ctx.memory_mode is MemoryMode.INCOGNITO else []


def _lines(found: Sequence[Known]) -> str:
    """What is known, a line each; not more than can be read."""
    lines = "\n".join(f"- {sentence_of(known)}" for known in found[:SHOWN])
    return lines + (f"\n… and {len(found) - SHOWN} more." if len(found) > SHOWN else "")


async def _proposed(memory: Memory, command: Command, message: str) -> dict[str, Any]:
    """Show what would be forgotten, and wait for a word."""
    found = await matching(memory, command.what, loosely=bool(command.language))
    if not found:
        again = " I will not keep it from this conversation either." if refusals([message]) else ""
        what = f"about {command.what}" if telling(command.what) else "about you"
        return _said(f"I have kept nothing {what}, so there is nothing to forget.{again}")
    return await _pending(memory, found)


async def _pending(memory: Memory, found: Sequence[Known]) -> dict[str, Any]:
    targets = await memory.targets([known.id for known in found])
    pending = {"action": "forget", "targets": msgspec.to_builtins(targets)}
    text = f"Shall I forget this?\n{_lines(found)}\nSay yes to forget it. Anything else leaves it as it is."
    return {**_said(text), "memory_control": {"pending_action": pending}}


async def _proposed_that(memory: Memory, recent: Sequence[Message]) -> dict[str, Any]:
    """Show what "that" would forget: what the last reply told of the memory, or else what was just said."""
    found = await _told_last(memory, recent)
    if len(found) == 1:
        return await _pending(memory, found)
    if found:
        return _said(f"{WHICH}\n{_lines(found)}")
    said = [entry.text for entry in recent if entry.role == "user"]
    return _said(NOT_KEEPING if len(said) > 1 and refusals(said) else NOTHING_OF_IT)


async def _asked_how(memory: Memory, recent: Sequence[Message]) -> str:
    found = await _told_last(memory, recent)
    lines = f"\n{_lines(found)}" if found else ""
    return f"Then tell me how it is.{lines}\n{HOW}"


async def _told_last(memory: Memory, recent: Sequence[Message]) -> list[Known]:
    """What the last reply told of the memory."""
    if not is_about_memory(recent):
        return []
    reply = next(entry.text for entry in reversed(recent) if entry.role == "assistant")
    return [known for known in await matching(memory, "") if sentence_of(known) in reply]


def is_about_memory(recent: Sequence[Message]) -> bool:
    """Whether the last reply was about the memory."""
    replies = [entry for entry in recent if entry.role == "assistant"]
    return bool(replies) and replies[-1].meta.get("response_style") == "memory_control"


def was_command(said: Message, reply: Message) -> bool:
    """Whether a message was a command, done at once. One that corrects says how it is, like any message."""
    command = command_in(said.text) if is_about_memory([reply]) else None
    return command is not None and command.kind not in ("list", "wrong", "correct")


async def _answered(memory: Memory, pending: dict[str, Any], *, agreed: bool) -> dict[str, Any]:
    """Do what waited, or give it up."""
    done = {"memory_control": {"pending_action": None}}
    if not agreed:
        return {**_said("Nothing was forgotten. It stays as it is."), **done}
    targets = msgspec.convert(pending.get("targets", []), list[Target])
    forgotten = await memory.forget(targets)
    changed = len(forgotten.changed)
    left = f" {changed} of it had changed since, so I left it." if changed else ""
    if not forgotten.ids:
        return {**_said(f"Nothing was forgotten.{left}"), **done}
    text = f"Forgotten: {_counted(len(forgotten.ids))}.{left} You can still say “undo that”."
    return {**_said(text), **done}


async def _corrected(memory: Memory, command: Command, state: Companion, ctx: Context) -> str:
    found = await _correctable(memory, command)
    if not found and await _kept_now(memory, command, state, ctx):
        found = await _correctable(memory, command)
    if not found and command.said:
        return await _remembered(memory, command.said, ctx, state.message)
    if not found:
        return f"I remember nothing about {command.old}, so there is nothing to correct."
    if len(found) > 1:
        return f"{WHICH}\n{_lines(found)}"
    before = found[0]
    try:
        after = await memory.correct(
            before.id, object=_replacing(before, command), quote=state.message, source=await source_in(ctx)
        )
    except RecordNotFound:
        return "That is not in my memory any more, so nothing was changed."
    return f"Corrected. I now remember: {sentence_of(after)}"


async def _kept_now(memory: Memory, command: Command, state: Companion, ctx: Context) -> bool:
    """Keep at once what was only noted and is being corrected, so that there is something to correct."""
    about, loosely = command.old or command.what, bool(command.language)
    meant = [
        candidate
        for candidate in await noted(state, ctx)
        if about_words([as_known(candidate)], about, loosely=loosely)
    ]
    if meant:
        await memory.learn(meant, run=ctx.turn.id, key=f"correct {ctx.turn.id}")
    return bool(meant)


async def _correctable(memory: Memory, command: Command) -> Sequence[Fact | Rule]:
    """What a correction may mean. One that says a name, and not what was wrong, is about a name first."""
    about = command.old or command.what
    alike = await matching(memory, about, loosely=bool(command.language))
    found = [known for known in alike if not isinstance(known, Arc)]
    if not command.said:
        return found
    whose = {each.subject for each in stated(_sentence(command.said)) if each.predicate == NAME}
    facts = [known for known in await matching(memory, "") if isinstance(known, Fact)]
    named = [fact for fact in facts if fact.predicate == NAME and (fact in found or fact.subject in whose)]
    return named or [fact for fact in facts if fact in found]


def _replacing(known: Known, command: Command) -> str:
    """What a fact says once the new words stand for the old ones."""
    old, new = command.old, command.new
    if not old:
        return command.said if isinstance(known, Fact) and known.predicate in (ASKED, MENTIONED) else new
    if isinstance(known, Rule):
        return known.text.replace(old, new) if old in known.text else new
    if (
        isinstance(known, Fact)
        and old.lower() in known.object.lower()
        and old.lower() != known.object.lower()
    ):
        at = known.object.lower().index(old.lower())
        return f"{known.object[:at]}{new}{known.object[at + len(old) :]}"
    return new


async def _remembered(memory: Memory, what: str, ctx: Context, message: str) -> str:
    source = await source_in(ctx)
    candidates = stated(_sentence(what), source=source) or [
        Candidate(
            predicate=ASKED, object=what, quote=message[:QUOTE], confidence=1.0, plain=True, source=source
        )
    ]
    learned = await memory.learn(candidates, run=ctx.turn.id, key=f"remember {ctx.turn.id}")
    ids = {outcome.id for outcome in learned.outcomes}
    lines = _lines([known for known in await matching(memory, "") if known.id in ids])
    kept = f":\n{lines}\n" if lines else ". "
    if ctx.memory_mode is MemoryMode.INCOGNITO:
        return f"I will remember that{kept}{UNTIL}"
    return f"I will remember that{kept}You can ask what I remember at any time, and have me forget it."


QUOTE = 280


async def _undone(memory: Memory) -> str:
    try:
        await memory.undo()
    except InvalidArgument:
        return "There is nothing to undo in what I remember."
    except RewindRefused:
        return "That has been changed again since, so I cannot take it back."
    return "Undone. What I remember is as it was before the last change."


async def _recall(memory: Memory, *, on: bool) -> str:
    await memory.set_recall(on=on)
    if on:
        return "I may bring up what I remember again. How you want to be answered holds either way."
    return (
        "I will not bring up what I remember unless you ask. How you want to be answered still holds, and "
        "nothing was forgotten."
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text else text


def _counted(count: int) -> str:
    return "one thing" if count == 1 else f"{count} things"


def _said(text: str) -> dict[str, Any]:
    return {"response_text": text, "response_style": "memory_control", "response_style_source": "command"}
