"""Replies in danger and lines to call: fixed words and bundled entries, never generated."""

import functools
import importlib.resources
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from clew.runtime.context import Context
from clew.runtime.turn.draft import Delta
from clew_companion.crisis.floor import ANOTHER, language_of
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.message import earlier_turns, legible_text, texts_of_person
from clew_companion.crisis.words import COMMA, simplify_text, tokenize
from clew_companion.state import CompanionState
from clew_companion.values import CrisisLevel, Resource, ResourceStatus

MOST_LINES = 5
"""How many lines of a country are shown."""
GENERAL_KIND = "crisis line"
"""The kind of a line that is there for everybody in crisis."""
CHECK, HELPER, HARM, CLARIFY = "check", "helper", "harm_to_others", "level_1"
CLARIFY_AGAIN = "level_1_again"
"""The question of the first level in other words, for who has heard it."""


def wording_for(level: int, *, about: str = "", kind: str = "") -> str:
    """The fixed wording for a level."""
    if level == CrisisLevel.UNCLEAR:
        return CLARIFY
    if about == ANOTHER:
        return HELPER
    return HARM if kind == "harm to others" else f"level_{int(level)}"


def crisis_reply(wording: str, language: str, region: str = "") -> str:
    """A fixed wording in a language, with the lines of a country, or with the general ones."""
    texts_by_language = _wording()["languages"]
    texts = texts_by_language.get(language) or texts_by_language["en"]
    parts = texts["wordings"][wording]
    text = "\n\n".join(parts[name] for name in _wording()["parts"])
    lines = _help_lines(texts, language, region)
    return text.replace("{lines}", lines).replace("{emergency}", _emergency_number(texts, region))


def resources_in(region: str, language: str = "") -> list[Resource]:
    """The lines of a country that come with the companion, those first that speak a language, and for all."""
    lines = [line for line in _resources()["resources"] if line["region"] == region]
    lines.sort(key=lambda line: (language not in line["languages"], line["kind"] != GENERAL_KIND))
    return [
        Resource(name=line["name"], phone=line["phone"], website=line["website"], region=line["region"])
        for line in lines[:MOST_LINES]
    ]


def find_region(texts: Sequence[str]) -> tuple[str, ResourceStatus]:
    """The country that a person says they are in, by their newest words, and whether there are lines."""
    for text in reversed(texts):
        plain = " " + " ".join(tokenize(text, load_lexicon().spelling)) + " "
        if _refusal_pattern().search(plain.replace(f" {COMMA} ", " ")):
            return "", "location_refused"
        region = _region_in(plain)
        if region:
            return region, "found" if resources_in(region) else "no_verified_results"
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


def _help_lines(texts: Mapping[str, Any], language: str, region: str) -> str:
    regional_lines = resources_in(region, language)
    if regional_lines:
        return "\n".join(f"{line.name}: {line.phone}" for line in regional_lines)
    lines_by_id = {line["id"]: line for line in _resources()["resources"]}
    return "\n".join(
        texts["line"].format(
            where=general["where"],
            phone=lines_by_id[general["resource"]]["phone"],
            name=lines_by_id[general["resource"]]["name"],
        )
        for general in texts["lines"]
    )


def _emergency_number(texts: Mapping[str, Any], region: str) -> str:
    for entry in _resources()["emergency"]:
        if entry["region"] == region:
            return " / ".join([entry["number"], *entry.get("also", [])])
    return str(texts["emergency"])


@functools.cache
def _wording() -> Mapping[str, Any]:
    return _read_json("wording.json")


@functools.cache
def _resources() -> Mapping[str, Any]:
    return _read_json("resources.json")


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


async def crisis_response(state: CompanionState, context: Context) -> Delta:
    """Say the fixed words that the level asks for: never a model's."""
    before = await earlier_turns(state, context)
    region, status = find_region(texts_of_person(state.message, before))
    language = language_of(legible_text(state.message), before)
    text = context.turn.safe_reply_text or _fallback_reply(state, language, region)
    style = "crisis_response" if state.crisis.needs_crisis_response else "safety_check"
    return {
        "response_text": text,
        "response_style": style,
        "response_style_source": "crisis_gate",
        "inferred_location": region,
        "found_resources": resources_in(region, language),
        "resource_lookup_status": status,
    }


def _fallback_reply(state: CompanionState, language: str, region: str) -> str:
    if state.crisis.needs_clarification:
        return crisis_reply(wording_for(CrisisLevel.UNCLEAR), language, region)
    if state.crisis.needs_crisis_response:
        return crisis_reply(wording_for(state.crisis.level), language, region)
    return crisis_reply(CHECK, language, region)
