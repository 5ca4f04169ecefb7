"""Help lines: the bundled entries, whether each was verified, and how they are told in a reply."""

import functools
import importlib.resources
from collections.abc import Mapping, Sequence

import msgspec

from clew_companion.values import Resource

MOST_LINES = 3
"""How many lines are shown: more are a wall to who needs one."""
GENERAL_KIND, VIOLENCE_KIND = "crisis line", "violence at home"
"""The kinds of a line that is there for everybody in crisis, and of one for violence by somebody close."""
CHANNELS = ("phone", "text", "chat")


class LineVerification(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for a line: the operator's own page, its date, the day it was read, and what it shows.

    ``copy`` is the address of a public copy, if that was read in place of the page.
    """

    page: str
    dated: str
    read: str
    shows: tuple[str, ...]
    copy: str = ""


class HelpLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that people answer, by telephone and perhaps by text or chat."""

    id: str
    region: str
    name: str
    phone: str
    website: str
    languages: tuple[str, ...]
    hours: str
    kind: str
    source: str
    compared_with: str
    verified: LineVerification | None
    also: tuple[str, ...] = ()
    text: str = ""
    chat: str = ""
    note: str = ""

    @property
    def is_verified(self) -> bool:
        """Return whether the operator's own page, or a dated copy of it, shows the number."""
        return self.shows("phone")

    def shows(self, channel: str) -> bool:
        """Return whether the evidence shows a channel of the line."""
        return self.verified is not None and channel in self.verified.shows


class LineDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of lines in many countries."""

    id: str
    name: str
    website: str
    source: str


class EmergencyNumber(msgspec.Struct, frozen=True, kw_only=True):
    """The emergency number of a country."""

    region: str
    number: str
    ambulance: str = ""
    also: tuple[str, ...] = ()


class ResourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bundled file of lines."""

    resources: tuple[HelpLine, ...]
    directories: tuple[LineDirectory, ...]
    emergency: tuple[EmergencyNumber, ...]


@functools.cache
def resource_file() -> ResourceFile:
    """The lines, directories and emergency numbers that come with the companion."""
    file = importlib.resources.files("clew_companion").joinpath("resources.json")
    return msgspec.json.decode(file.read_bytes(), type=ResourceFile)


@functools.cache
def line_by_id(line_id: str) -> HelpLine:
    """The line with an id."""
    return next(line for line in resource_file().resources if line.id == line_id)


def lines_in(region: str, language: str = "", *, is_violence: bool = False) -> list[HelpLine]:
    """The lines of a country, verified or not; those first that fit, were verified and speak a language.

    Lines for violence at home are given only to who speaks of it.
    """
    lines = [
        line
        for line in resource_file().resources
        if line.region == region and (is_violence or line.kind != VIOLENCE_KIND)
    ]
    lines.sort(
        key=lambda line: (
            line.kind != VIOLENCE_KIND,
            language not in line.languages,
            line.kind != GENERAL_KIND,
            not line.is_verified,
        )
    )
    return lines[:MOST_LINES]


def lines_speaking(language: str) -> list[HelpLine]:
    """The crisis lines of any country that speak a language as their first."""
    lines = [line for line in resource_file().resources if line.kind == GENERAL_KIND]
    return [line for line in lines if line.languages[:1] == (language,)][:MOST_LINES]


def resources_in(region: str, language: str = "", *, is_violence: bool = False) -> list[Resource]:
    """The verified lines of a country."""
    return [
        Resource(name=line.name, phone=line.phone, website=line.website, region=line.region)
        for line in lines_in(region, language, is_violence=is_violence)
        if line.is_verified
    ]


def tell_contacts(line: HelpLine, texts: Mapping[str, str]) -> str:
    """The ways to reach a line in words of a language; what was not verified says so."""
    contacts = {
        "phone": line.phone,
        "text": texts["text"].format(number=line.text) if line.text else "",
        "chat": texts["chat"].format(address=line.chat) if line.chat else "",
    }
    mark = f" ({texts['unconfirmed']})"
    parts = [(contacts[channel], line.shows(channel)) for channel in CHANNELS if contacts[channel]]
    if not any(is_shown for _, is_shown in parts):
        return f"{', '.join(contact for contact, _ in parts)}{mark}"
    return ", ".join(contact if is_shown else f"{contact}{mark}" for contact, is_shown in parts)


def tell_number(line: HelpLine, where: str, texts: Mapping[str, str]) -> str:
    """The number of a line within a sentence: ``116 123 (UK and Ireland, not confirmed)``."""
    mark = "" if line.is_verified else f", {texts['unconfirmed']}"
    return f"{line.phone} ({where}{mark})"


def directory_addresses() -> Sequence[str]:
    """The addresses of international directories."""
    return [directory.website for directory in resource_file().directories]


def emergency_number(region: str) -> str:
    """The emergency numbers of a country; empty if they are not known."""
    for entry in resource_file().emergency:
        if entry.region == region:
            return " / ".join([entry.number, *entry.also])
    return ""
