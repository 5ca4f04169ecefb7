"""What somebody said, turned round and given back in a sentence."""

import re

from clew.companion.topics import sentences

TURNED = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
    "i'm": "you are",
    "im": "you are",
    "i've": "you have",
    "ive": "you have",
    "i'd": "you would",
    "i'll": "you will",
    "we": "you",
    "we're": "you are",
    "we've": "you have",
    "we'll": "you will",
    "we'd": "you would",
    "our": "your",
    "ours": "yours",
    "us": "you",
    "ourselves": "yourselves",
}
FEELING = re.compile(
    r"\bi(?:['’]?m|\s+am|\s+feel|['’]?ve\s+been\s+feeling|\s+have\s+been\s+feeling|['’]?ve\s+been|"
    r"\s+have\s+been)\s+"
    r"(?P<what>(?:so|very|really|quite|a\s+bit|always|just|too|not)?\s*[a-z][^.!?\n]{2,90})",
    re.IGNORECASE,
)
LASTING = re.compile(r"(?:\w+ly\s+|just\s+|not\s+)?\w{3,}ing\b", re.IGNORECASE)
"""What somebody has been doing, and may do no longer."""

CLAUSE = re.compile(
    r"\s*(?:[,;:–—]|\b(?:but|because|since|and\s+(?:i|then|now|he|she|they|it)|so\s+(?:i|that))\b).*",
    re.IGNORECASE,
)
LONGEST = 16
WAS = re.compile(r"\b(i)\s+was(n['’]?t)?\b", re.IGNORECASE)
BEGINNING = re.compile(
    r"^\W*(?:(?:i\s+mean|and|but|so|well|yeah|yes|no|ok|okay|because|honestly|actually|also|anyway|hm+|um+|oh|like|basically|"
    r"today|lately|sometimes|then|plus)\b[\s,]*)+",
    re.IGNORECASE,
)
TELLING = re.compile(
    r"(?:i|i['’]?ve|i['’]d|i['’]ll|my|our|we|we['’](?:re|ve|ll|d)|he|she|they|everything|everyone|everybody|nobody|no\s+one|"
    r"people|the|me\s+and\s+my|it(?=\s.*\b(?:i|me|my)\b))\s",
    re.IGNORECASE,
)
"""How a sentence begins that can be given back."""

SPOKEN_TO = re.compile(
    r"\b(?:you|your|yours|u|ur|let['’]?s|please|thanks?)\b|[\"“”()/\\<>{}@#]|https?:", re.IGNORECASE
)
"""What makes a sentence one that is better not given back."""

ENDING = re.compile(
    r"(?:,\s*(?:what|how|why|should|can|could|do|is)\b.*"
    r"|(?:\W+(?:lol|haha|tbh|honestly|actually|though|anyway|i\s+guess|you\s+know|or\s+something))*\W*)$",
    re.IGNORECASE,
)
SUPPOSED = re.compile(
    r"\b(?:thinks?|says?|said|told|tells?|if|when|whether|because|wish|afraid|that|like)\b", re.IGNORECASE
)
"""What stands before how somebody is, where it is not they who say it of themself now."""

FEWEST, MOST = 4, 18


def mirrored(message: str) -> str:
    """A sentence that gives back how somebody says they are; empty if they do not say it."""
    for sentence in sentences(message):
        found = FEELING.search(sentence) if not sentence.endswith("?") else None
        is_own = found is not None and not SUPPOSED.search(sentence[: found.start()])
        what = CLAUSE.sub("", found["what"]).strip() if found and is_own else ""
        if what and len(what.split()) <= LONGEST and not SPOKEN_TO.search(what):
            return f"You say that you {_how(found)} {turned(what)}."
    return ""


def restated(message: str) -> str:
    """What somebody tells, as the listener says it, without its end; empty if it cannot be turned round."""
    for sentence in sentences(message):
        core = ENDING.sub("", BEGINNING.sub("", sentence))
        is_short = FEWEST <= len(core.split()) <= MOST
        if not sentence.endswith("?") and is_short and TELLING.match(core) and not SPOKEN_TO.search(core):
            return _begun_small(turned(core))
    return ""


def turned(words: str) -> str:
    """The words as the listener says them: my is your, I is you."""
    told = WAS.sub(lambda found: f"{found[1]} were{found[2] or ''}", words.replace("’", "'"))
    return " ".join(_turned(word) for word in told.split())


def _turned(word: str) -> str:
    core = word.strip(',.;:!"()')
    return word.replace(core, TURNED[core.lower()]) if core.lower() in TURNED else word


def _begun_small(text: str) -> str:
    """A text whose first word is small, if it is one of those that sentences begin with."""
    return f"{text[0].lower()}{text[1:]}"


def _how(found: re.Match[str] | None) -> str:
    """Whether somebody is, feels, or has been something."""
    before = "" if found is None else found[0][: found.start("what") - found.start()].lower()
    if "feel" in before:
        return "feel"
    return "have been" if "been" in before and found and LASTING.match(found["what"]) else "are"
