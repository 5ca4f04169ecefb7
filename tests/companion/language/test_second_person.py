"""What a person said, said to them: in the right person, whatever the words."""

from __future__ import annotations

import pytest

from clew.database.database import Database
from clew_companion.language.second_person import in_second_person, topic_phrase
from tests.companion.scripted_companion import Talk, talker


@pytest.mark.parametrize(
    ("said", "to_them"),
    [
        ("me", "you"),
        ("my sister", "your sister"),
        ("My sister and me", "your sister and you"),
        ("mine", "yours"),
        ("myself", "yourself"),
        ("us", "you"),
        ("our house", "your house"),
        ("ours", "yours"),
        ("I have a dog", "you have a dog"),
        ("I am ill", "you are ill"),
        ("I'm ill", "you are ill"),
        ("im ill", "you are ill"),
        ("I’ve a cat", "you have a cat"),
        ("I was in Rome", "you were in Rome"),
        ("i wasnt there", "you weren't there"),
        ("was I there", "were you there"),
        ("we'll move", "you will move"),
        ("what I told you", "what you told me"),
        ("your jokes", "my jokes"),
        ("you are a program", "I am a program"),
        ("the US and my mail", "the US and your mail"),
        ("ill health and a deep well", "ill health and a deep well"),
        ("jazz", "jazz"),
    ],
)
def test_words_are_turned_round(said: str, to_them: str) -> None:
    assert in_second_person(said) == to_them


@pytest.mark.parametrize(
    ("said", "phrase"),
    [
        ("my sister", "about your sister"),
        ("my sister's", "about your sister"),
        ("about our holiday.", "about your holiday"),
        ("I have a dog", "that says that you have a dog"),
        ("that I'm allergic to nuts", "that says that you are allergic to nuts"),
        ("my brother is a pilot", "that says that your brother is a pilot"),
        ("the dog I had", "about the dog you had"),
        ("I have a dog called Bigos", "that says that you have a dog called Bigos"),
        ("Bigos is my dog", "that says that Bigos is your dog"),
        ("Mary Ann has left me", "that says that Mary Ann has left you"),
        ("what is between us", "about what is between you"),
        ("my last will", "about your last will"),
        ("live", "about where you live"),
    ],
)
def test_a_thing_is_spoken_about_and_a_clause_is_said(said: str, phrase: str) -> None:
    assert topic_phrase(said) == phrase


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ("What do you remember about my sister?", "I remember nothing about your sister."),
        ("What do you know about our house?", "I remember nothing about your house."),
        ("What do you know about me?", "I remember nothing about you yet."),
        ("What's my sister's name?", "I remember nothing about your sister."),
        ("Where do I live?", "I remember nothing about where you live."),
        ("Forget about my sister", "I have kept nothing about your sister, so"),
        ("Forget that I have a dog", "I have kept nothing that says that you have a dog, so"),
        ("No, it's Anna, not my Ann", "I remember nothing about your Ann, so"),
        ("Was weißt du über meine Schwester?", "I remember nothing about “Schwester”."),
    ],
)
async def test_what_is_not_known_is_named_in_the_right_person(
    in_memory: Database, message: str, reply: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(message)

    assert output.response_text.startswith(reply)
