"""What is said in danger, and who can be called: fixed words and bundled lines, never made up."""

import functools
import importlib.resources
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from clew.companion.crisis.floor import ANOTHER, language_of
from clew.companion.crisis.lexicon import lexicon
from clew.companion.crisis.message import legible, said_by_person, turns_before
from clew.companion.crisis.words import simple, words
from clew.companion.state import Companion
from clew.companion.values import Level, Resource, ResourceStatus
from clew.runtime.context import Context
from clew.runtime.turn.draft import Delta

MOST = 5
"""How many lines of a country are shown."""
FOR_ALL = "crisis line"
"""The kind of a line that is there for everybody in crisis."""
CHECK, HELPER, HARM, CLARIFY = "check", "helper", "harm_to_others", "level_1"
AGAIN = "level_1_again"
"""The question of the first level in other words, for who has heard it."""


def wording_for(level: int, *, about: str = "", kind: str = "") -> str:
    """Which of the fixed wordings answers a level."""
    if level == Level.UNCLEAR:
        return CLARIFY
    if about == ANOTHER:
        return HELPER
    return HARM if kind == "harm to others" else f"level_{int(level)}"


def reply(wording: str, language: str, region: str = "") -> str:
    """A fixed wording in a language, with the lines of a country, or with the general ones."""
    spoken = _wording()["languages"]
    told = spoken.get(language) or spoken["en"]
    parts = told["wordings"][wording]
    text = "\n\n".join(parts[name] for name in _wording()["parts"])
    lines = _lines(told, language, region)
    return text.replace("{lines}", lines).replace("{emergency}", _emergency(told, region))


def resources_in(region: str, language: str = "") -> list[Resource]:
    """The lines of a country that come with the companion, those first that speak a language, and for all."""
    known = [line for line in _resources()["resources"] if line["region"] == region]
    known.sort(key=lambda line: (language not in line["languages"], line["kind"] != FOR_ALL))
    return [
        Resource(name=line["name"], phone=line["phone"], website=line["website"], region=line["region"])
        for line in known[:MOST]
    ]


def located(said: Sequence[str]) -> tuple[str, ResourceStatus]:
    """The country that somebody says they are in, by their newest words, and what that gives."""
    for text in reversed(said):
        plain = " " + " ".join(words(text, lexicon().spelling)) + " "
        if any(f" {refusal} " in plain for refusal in _places()["refusals"]):
            return "", "location_refused"
        region = _named(plain)
        if region:
            return region, "found" if resources_in(region) else "no_verified_results"
    return "", "no_location"


def _named(plain: str) -> str:
    """The country of the first place, in the order of the list, that somebody says they are in."""
    listed = _by_first_word()
    for _, region, name in sorted(place for word in set(plain.split()) for place in listed.get(word, ())):
        at = plain.find(f" {name} ")
        if at >= 0 and _said_of_oneself(plain[: at + 1], plain[at + len(name) + 1 :]):
            return region
    return ""


def _said_of_oneself(before: str, after: str) -> bool:
    led = any(before.endswith(f" {lead} ") for lead in _places()["leads"])
    return led or any(after.startswith(f" {word} ") for word in _places()["behind"])


def _lines(told: Mapping[str, Any], language: str, region: str) -> str:
    own = resources_in(region, language)
    if own:
        return "\n".join(f"{line.name}: {line.phone}" for line in own)
    known = {line["id"]: line for line in _resources()["resources"]}
    return "\n".join(
        told["line"].format(
            where=general["where"],
            phone=known[general["resource"]]["phone"],
            name=known[general["resource"]]["name"],
        )
        for general in told["lines"]
    )


def _emergency(told: Mapping[str, Any], region: str) -> str:
    for entry in _resources()["emergency"]:
        if entry["region"] == region:
            return " / ".join([entry["number"], *entry.get("also", [])])
    return str(told["emergency"])


@functools.cache
def _wording() -> Mapping[str, Any]:
    return _read("wording.json")


@functools.cache
def _resources() -> Mapping[str, Any]:
    return _read("resources.json")


@functools.cache
def _places() -> Mapping[str, Any]:
    file = importlib.resources.files("clew.companion.crisis").joinpath("places.toml")
    read = tomllib.loads(file.read_text("utf-8"))
    return {
        "leads": [simple(lead) for lead in read["leads"]],
        "behind": [simple(word) for word in read["behind"]],
        "refusals": [simple(refusal) for refusal in read["refusals"]],
        "places": {
            region: [simple(name).replace("-", " ") for name in names.split()]
            for region, names in read["places"].items()
        },
    }


@functools.cache
def _by_first_word() -> Mapping[str, Sequence[tuple[int, str, str]]]:
    """The places by the first of their words, each with where it stands in the list, and its country."""
    places = [(region, name) for region, names in _places()["places"].items() for name in names]
    found: dict[str, list[tuple[int, str, str]]] = {}
    for order, (region, name) in enumerate(places):
        found.setdefault(name.split()[0], []).append((order, region, name))
    return found


def _read(name: str) -> Mapping[str, Any]:
    file = importlib.resources.files("clew.companion").joinpath(name)
    found: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    return found


async def crisis_response(state: Companion, ctx: Context) -> Delta:
    """Say the fixed words that the level asks for: never a model's."""
    before = await turns_before(state, ctx)
    region, status = located(said_by_person(state.message, before))
    language = language_of(legible(state.message), before)
    text = ctx.turn.safe or _words(state, language, region)
    style = "crisis_response" if state.crisis.needs_crisis_response else "safety_check"
    return {
        "response_text": text,
        "response_style": style,
        "response_style_source": "crisis_gate",
        "inferred_location": region,
        "found_resources": resources_in(region, language),
        "resource_lookup_status": status,
    }


def _words(state: Companion, language: str, region: str) -> str:
    if state.crisis.needs_clarification:
        return reply(wording_for(Level.UNCLEAR), language, region)
    if state.crisis.needs_crisis_response:
        return reply(wording_for(state.crisis.level), language, region)
    return reply(CHECK, language, region)
