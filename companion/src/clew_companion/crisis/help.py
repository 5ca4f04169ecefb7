"""Replies in danger: fixed words and bundled lines, never generated."""

import functools
import importlib.resources
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.turn.draft import Delta
from clew_companion.crisis.concepts import read_message
from clew_companion.crisis.floor import ANOTHER, language_of
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.lines import (
    HelpLine,
    directory_addresses,
    emergency_number,
    line_by_id,
    lines_in,
    lines_speaking,
    resources_in,
    tell_contacts,
    tell_number,
)
from clew_companion.crisis.message import earlier_turns, legible_text, texts_of_person
from clew_companion.crisis.unread import find_unread, unread_texts
from clew_companion.crisis.words import COMMA, simplify_text, tokenize
from clew_companion.offline.remarks import least_recent
from clew_companion.state import CompanionState
from clew_companion.values import CrisisLevel, ResourceStatus

CHECK, HELPER, HARM, CLARIFY = "check", "helper", "harm_to_others", "level_1"
CLARIFY_AGAIN = "level_1_again"
"""The question of the first level in other words, for who has heard it."""
RECENT_TEXTS = 4
"""So many of the person's messages decide whether violence at home is spoken of."""
SAID_BEFORE = {
    "level_2": ("level_2", "level_3"),
    "level_3": ("level_3",),
    HELPER: (HELPER,),
    HARM: (HARM,),
}
"""The wordings after which a wording is continued in a few words and not said whole."""
CONTINUATION_CONCEPTS = {
    "nobody": ("nobody", "-nobody", "cannot"),
    "means": ("pills", "gun", "rope", "knife", "height", "poison"),
}
"""What a person speaks of where a continuation is for that."""


def wording_for(level: int, *, about: str = "", kind: str = "") -> str:
    """The fixed wording for a level."""
    if level == CrisisLevel.UNCLEAR:
        return CLARIFY
    if about == ANOTHER:
        return HELPER
    return HARM if kind == "harm to others" else f"level_{int(level)}"


def crisis_reply(wording: str, language: str, region: str = "", *, is_violence: bool = False) -> str:
    """A fixed wording in a language, with the lines of a country, or with the general ones."""
    parts = _texts(language)["wordings"][wording]
    template = "\n\n".join(parts[name] for name in _wording()["parts"])
    return _fill_template(template, language, region, is_violence=is_violence)


def next_crisis_reply(
    wording: str, language: str, region: str, texts: Sequence[str], replies: Sequence[str]
) -> str:
    """The reply in danger after what was said: never the same text twice running.

    ``texts`` are the person's messages, ``replies`` those to them, the newest last. A question that was asked
    in the same words the last time is asked in others. A wording that has just been said is followed up in a
    few words that go by the newest message.
    """
    is_violence = speaks_of_violence(texts)
    text = crisis_reply(wording, language, region, is_violence=is_violence)
    if wording == CLARIFY:
        other_text = crisis_reply(CLARIFY_AGAIN, language, region, is_violence=is_violence)
        questions = [each for each in replies if _is_said(CLARIFY, each) or _is_said(CLARIFY_AGAIN, each)]
        question = other_text if questions and _is_said(CLARIFY, questions[-1]) else text
        return "\n\n".join([*_own_words(texts[-1] if texts else "", region, replies), question])
    if not replies or not any(_is_said(each, replies[-1]) for each in SAID_BEFORE.get(wording, ())):
        return text
    template = _continuation(wording, language, texts[-1] if texts else "", replies)
    return _fill_template(template, language, region, is_violence=is_violence)


def _continuation(wording: str, language: str, message: str, replies: Sequence[str]) -> str:
    """The continuation that fits what a message speaks of, or one that was not said lately."""
    concepts = read_message(message, load_lexicon(), language).concepts
    entries = _texts(language)["continuations"][wording]
    fitting = [
        entry["says"]
        for entry in entries
        if "for" in entry and not concepts.isdisjoint(CONTINUATION_CONCEPTS[entry["for"]])
    ]
    new = [says for says in fitting if not replies[-1].startswith(_opening(says))]
    openings = {_opening(entry["says"]): entry["says"] for entry in entries if "for" not in entry}
    return str(new[0] if new else openings[least_recent(list(openings), replies)])


def reply_language(message: str, before: Sequence[Message], region: str) -> str:
    """The language that a person is answered in: theirs, if there are words in it.

    Who writes in a language that is not read is answered in the one that they used before, in one of the
    place, or in English.
    """
    if find_unread(legible_text(message)) is None:
        return language_of(legible_text(message), before)
    readable = [turn for turn in before if turn.role == "user" and find_unread(turn.text) is None]
    if readable:
        return language_of(readable[-1].text)
    spoken = (language for line in lines_in(region) for language in line.languages)
    return next((language for language in spoken if language in _wording()["languages"]), "en")


def unread_reply(message: str, language: str, region: str, replies: Sequence[str]) -> str:
    """The reply to a message that nothing has read: that this is so, and where people answer.

    It is said in the person's language, if there are words in it, and in ``language``.
    """
    own_words, unread = _own_words(message, region, replies), _texts(language)["unread"]
    if own_words:
        return "\n\n".join([*own_words, f"{unread['says'].partition('. ')[0]}."])
    is_again = any(reply.startswith(_opening(unread["says"])) for reply in replies[-1:])
    template = unread["again" if is_again else "says"]
    if not lines_in(region):  # lines of other countries are no help to who may be anywhere
        template = template.replace("{lines}", "\n".join(directory_addresses()))
    return _fill_template(template, language, region, is_violence=False)


def _own_words(message: str, region: str, replies: Sequence[str]) -> list[str]:
    """The paragraph in the person's own unread language, with lines; none if there are no words in it."""
    unread = find_unread(legible_text(message))
    templates = unread_texts(unread.language) if unread is not None else ()
    if unread is None or not templates:
        return []
    is_again = any(reply.startswith(_opening(templates[0])) for reply in replies[-1:])
    lines = lines_in(region) or lines_speaking(unread.language)
    emergency = emergency_number(region or (lines[0].region if lines else "")) or str(
        _texts("en")["emergency"]
    )
    return [
        templates[int(is_again)]
        .strip()
        .replace("{lines}", "\n".join([*map(_line_with_country, lines), *directory_addresses()]))
        .replace("{emergency}", emergency)
    ]


def _line_with_country(line: HelpLine) -> str:
    return f"{line.name} ({line.region}): {tell_contacts(line, _texts('en'))}"


def _is_said(wording: str, reply: str) -> bool:
    """Return whether a reply is a wording, or a continuation of it, in any of the languages."""
    return any(
        texts["wordings"][wording]["notice"] in reply
        or any(reply.startswith(_opening(each["says"])) for each in texts["continuations"].get(wording, ()))
        for texts in _wording()["languages"].values()
    )


def _opening(template: str) -> str:
    """The first words of a continuation, as far as nothing is filled in."""
    return template.partition("{")[0]


def speaks_of_violence(texts: Sequence[str]) -> bool:
    """Return whether somebody has said lately that a person close to them hurts them."""
    return any(_violence_pattern().search(simplify_text(text)) for text in texts[-RECENT_TEXTS:])


def _fill_template(template: str, language: str, region: str, *, is_violence: bool) -> str:
    texts = _texts(language)
    lines = _help_lines(texts, language, region, is_violence=is_violence)
    number = _help_number(texts, language, region, is_violence=is_violence)
    emergency = emergency_number(region) or str(texts["emergency"])
    filled = template.replace("{lines}", lines).replace("{number}", number)
    return filled.replace("{emergency}", emergency)


def find_region(texts: Sequence[str]) -> tuple[str, ResourceStatus]:
    """The country that a person says they are in, by their newest words, and whether a line was verified."""
    for text in reversed(texts):
        plain = " " + " ".join(tokenize(text, load_lexicon().spelling)) + " "
        if _refusal_pattern().search(plain.replace(f" {COMMA} ", " ")):
            return "", "location_refused"
        region = _region_in(plain)
        if region:
            is_found = resources_in(region, is_violence=speaks_of_violence(texts))
            return region, "found" if is_found else "no_verified_results"
    return "", "no_location"


def _region_in(plain: str) -> str:
    """The country of the first place, in the order of the list, that a person says they are in."""
    places_by_word = _places_by_first_word()
    for _, region, name in sorted(
        place for word in set(plain.split()) for place in places_by_word.get(word, ())
    ):
        at = plain.find(f" {name} ")
        if at >= 0 and _is_own_place(plain[: at + 1], plain[at + len(name) + 1 :]):
            return region
    return ""


def _is_own_place(before: str, after: str) -> bool:
    has_lead = any(before.endswith(f" {lead} ") for lead in _places()["leads"])
    return has_lead or any(after.startswith(f" {word} ") for word in _places()["behind"])


def _help_lines(texts: Mapping[str, Any], language: str, region: str, *, is_violence: bool) -> str:
    """The lines of a country, one a line; without any, the general ones of a language and the directories."""
    regional_lines = lines_in(region, language, is_violence=is_violence)
    if regional_lines:
        return "\n".join(f"{line.name}: {tell_contacts(line, texts)}" for line in regional_lines)
    general_lines = [(line_by_id(entry["resource"]), entry["where"]) for entry in texts["lines"]]
    return "\n".join(
        [
            *(f"{where}: {line.name}, {tell_contacts(line, texts)}" for line, where in general_lines),
            texts["elsewhere"].format(addresses=", ".join(directory_addresses())),
        ]
    )


def _help_number(texts: Mapping[str, Any], language: str, region: str, *, is_violence: bool) -> str:
    """The first line of a country within a sentence, or the general ones."""
    regional_lines = lines_in(region, language, is_violence=is_violence)
    if regional_lines:
        return tell_number(regional_lines[0], regional_lines[0].name, texts)
    return ", ".join(
        tell_number(line_by_id(entry["resource"]), entry["where"], texts) for entry in texts["lines"]
    )


def _texts(language: str) -> Mapping[str, Any]:
    """The wordings of a language; English if there are none."""
    texts_by_language = _wording()["languages"]
    texts: Mapping[str, Any] = texts_by_language.get(language) or texts_by_language["en"]
    return texts


@functools.cache
def _wording() -> Mapping[str, Any]:
    return _read_json("wording.json")


@functools.cache
def _violence_pattern() -> re.Pattern[str]:
    file = importlib.resources.files("clew_companion.crisis").joinpath("violence.toml")
    patterns = [each for listed in tomllib.loads(file.read_text("utf-8")).values() for each in listed]
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b")


@functools.cache
def _places() -> Mapping[str, Any]:
    file = importlib.resources.files("clew_companion.crisis").joinpath("places.toml")
    table = tomllib.loads(file.read_text("utf-8"))
    return {
        "leads": [simplify_text(lead) for lead in table["leads"]],
        "behind": [simplify_text(word) for word in table["behind"]],
        "refusals": [simplify_text(refusal) for refusal in table["refusals"]],
        "refusal_words": table["refusal_words"],
        "places": {
            region: [simplify_text(name).replace("-", " ") for name in names.split()]
            for region, names in table["places"].items()
        },
    }


@functools.cache
def _refusal_pattern() -> re.Pattern[str]:
    """A pattern for words by which somebody refuses to say where they are."""
    alternatives = ["|".join(map(re.escape, words)) for words in _places()["refusal_words"].values()]
    sentence = " ".join(f"(?:{words})" for words in alternatives)
    return re.compile(f" (?:{sentence}|{'|'.join(map(re.escape, _places()['refusals']))}) ")


@functools.cache
def _places_by_first_word() -> Mapping[str, Sequence[tuple[int, str, str]]]:
    """The places by the first of their words, each with its index in the list, and its country."""
    places = [(region, name) for region, names in _places()["places"].items() for name in names]
    places_by_word: dict[str, list[tuple[int, str, str]]] = {}
    for order, (region, name) in enumerate(places):
        places_by_word.setdefault(name.split()[0], []).append((order, region, name))
    return places_by_word


def _read_json(name: str) -> Mapping[str, Any]:
    file = importlib.resources.files("clew_companion").joinpath(name)
    document: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    return document


async def answer_unread(state: CompanionState, context: Context) -> Delta:
    """Say that a message could not be read, and where people answer: by fixed words, never a model's."""
    before = await earlier_turns(state, context)
    region, status = find_region(texts_of_person(state.message, before))
    language = reply_language(state.message, before, region)
    replies = [turn.text for turn in before if turn.role == "assistant"]
    return {
        "response_text": unread_reply(state.message, language, region, replies),
        "response_style": "clarifying",
        "response_style_source": "crisis_gate",
        "inferred_location": region,
        "found_resources": resources_in(region, language),
        "resource_lookup_status": status,
    }


async def crisis_response(state: CompanionState, context: Context) -> Delta:
    """Say the fixed words that the level asks for: never a model's."""
    before = await earlier_turns(state, context)
    texts = texts_of_person(state.message, before)
    region, status = find_region(texts)
    language = reply_language(state.message, before, region)
    text = context.turn.safe_reply_text or _fallback_reply(state, language, region)
    style = "crisis_response" if state.crisis.needs_crisis_response else "safety_check"
    return {
        "response_text": text,
        "response_style": style,
        "response_style_source": "crisis_gate",
        "inferred_location": region,
        "found_resources": resources_in(region, language, is_violence=speaks_of_violence(texts)),
        "resource_lookup_status": status,
    }


def _fallback_reply(state: CompanionState, language: str, region: str) -> str:
    if state.crisis.needs_clarification:
        return crisis_reply(wording_for(CrisisLevel.UNCLEAR), language, region)
    if state.crisis.needs_crisis_response:
        return crisis_reply(wording_for(state.crisis.level), language, region)
    return crisis_reply(CHECK, language, region)
