"""What somebody said, turned round and given back in a sentence."""

import re

from holdfast.companion.topics import sentences

TURNED = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
    "i'm": "you are",
    "i've": "you have",
    "i'd": "you would",
    "i'll": "you will",
    "was": "were",
    "we": "you",
    "our": "your",
    "us": "you",
}
FEELING = re.compile(
    r"\bi(?:['’]?m|\s+am|\s+feel|['’]?ve\s+been\s+feeling|\s+have\s+been\s+feeling|['’]?ve\s+been|"
    r"\s+have\s+been)\s+"
    r"(?P<what>(?:so|very|really|quite|a\s+bit|always|just|too|not)?\s*[a-z][^.!?\n]{2,90})",
    re.IGNORECASE,
)
CLAUSE = re.compile(
    r"\s*(?:[,;:–—]|\b(?:but|because|since|and\s+(?:i|then|now|he|she|they|it)|so\s+(?:i|that))\b).*",
    re.IGNORECASE,
)
LONGEST = 16
WAS = re.compile(r"\b(he|she|it|that|this|who|there)\s+were\b")


def mirrored(message: str) -> str:
    """A sentence that gives back how somebody says they are; empty if they do not say it."""
    for sentence in sentences(message):
        found = FEELING.search(sentence) if not sentence.endswith("?") else None
        what = CLAUSE.sub("", found["what"]).strip() if found else ""
        if what and len(what.split()) <= LONGEST:
            return (
                f"You say that you are {turned(what)}."
                if _is_state(found)
                else f"You say that you feel {turned(what)}."
            )
    return ""


def turned(words: str) -> str:
    """The words as the listener says them: my is your, I is you."""
    said = [_turned(word) for word in words.replace("’", "'").split()]
    return WAS.sub(r"\1 was", " ".join(said))


def _turned(word: str) -> str:
    core = word.strip(',.;:!"()')
    return word.replace(core, TURNED[core.lower()]) if core.lower() in TURNED else word


def _is_state(found: re.Match[str] | None) -> bool:
    return found is not None and "feel" not in found[0][: found.start("what") - found.start()].lower()
