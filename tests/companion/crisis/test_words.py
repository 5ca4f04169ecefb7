"""Words in disguise: what they are made plain to, and what is left as it is."""

import pytest

from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.message import judge_alone
from clew_companion.crisis.words import simplify_text, tokenize


@pytest.mark.promise("A-08")
@pytest.mark.parametrize(
    "message",
    [
        "I wаnt tо dіe",
        "І wаnt to kіll mуsеlf",
        "i wαnt tο diε",
        "iwanttodie",
        "i wanttokillmyself",
        "#killmyself",
        "iwanttoendmylife tonight",
        "i want to k.i.l.l m.y.s.e.l.f",
        "i want to d.i.e",
        "I W A N T  T O  D I E",
        "i want to k·i·l·l myself",
        "i want to commit sui.cide",
        "ɪ ᴡᴀɴᴛ ᴛᴏ ᴅɪᴇ",
        "𝓘 𝔀𝓪𝓷𝓽 𝓽𝓸 𝓭𝓲𝓮",
        "i want to 🅺🅸🅻🅻 myself",
    ],
)
def test_a_disguised_statement_is_found_like_the_plain_one(message: str) -> None:
    assert judge_alone(message).stated >= 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the U.S.A. team", ["the", "usa", ".", "team"]),
        ("see you at 9 a.m.", ["see", "you", "at", "9am", "."]),
        ("I live. Really", ["i", "live", ".", "really"]),
        ("website.com", ["website", ".", "com"]),
        ("todolist", ["todolist"]),
        ("livestream", ["livestream"]),
    ],
)
def test_what_is_no_disguise_is_left_as_it_is(text: str, words: list[str]) -> None:
    assert tokenize(text, load_lexicon().spelling) == words


@pytest.mark.parametrize("text", ["хочу спать", "καλημέρα"])
def test_words_of_another_script_are_not_read_as_latin_ones(text: str) -> None:
    assert not any(sign.isascii() and sign.isalpha() for sign in simplify_text(text))
