"""What the floor makes of a message: of all of it, of its pieces, and after what came before it.

It answers whatever it is given. The floor learnt from messages of a few sentences, so a long one is read
piece by piece as well: one sentence in the middle of a page is not outweighed by the rest of it.
"""

import logging
import re
from collections.abc import Iterator, Sequence

import msgspec

from clew.companion.crisis.classifier import Score, quick
from clew.companion.crisis.floor import READS, TURNS, Judged, floor
from clew.companion.state import WINDOW, Companion
from clew.companion.values import Level
from clew.runtime.context import Context
from clew.runtime.model.messages import Message

log = logging.getLogger("clew")
LONG = 60
"""A message of more words is read in pieces too."""
PIECE, AGAIN = 40, 20
"""How many words a piece has at most, and how many of the last one it begins with."""
MANY = 8
"""Of more pieces the network reads none: nobody waits for it that long."""
SURE = 0.8
"""A piece that states nothing must read so clearly to count."""
MOST, LONGEST_WORD = 16_000, 60
"""Characters that are read: the beginning and the end, if there are more. Longer words are no words."""
UNREAD = Judged(level=Level.UNCLEAR, confidence=0.0, kind="unread", signs=("could not be read",), leans=True)
_UNSEEN = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
_NO_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_SENTENCE = re.compile(r"[^.!?…\n]*[.!?…\n]*")


def heard(message: str) -> Judged:
    """What a message is by itself."""
    text = legible(message)
    pieces = list(_pieces(text))
    by = quick() if len(pieces) > MANY else None
    return _gravest([*[_apart(piece, by) for piece in pieces], _floor(text)])


def heard_after(alone: Judged, message: str, before: Sequence[Message]) -> Judged:
    """What a message is after the turns before it: as grave as its own words, or graver."""
    return _gravest([alone, _floor(legible(message), before)]) if before else alone


def legible(text: str) -> str:
    """What can be read of a text: no unseen signs, no endless words, and not all of what has no end."""
    if len(text) > MOST:
        text = f"{text[: MOST // 2]}\n{text[-MOST // 2 :]}"
    return _NO_WORD.sub(lambda found: found[0][:LONGEST_WORD], _UNSEEN.sub("", text))


def _floor(text: str, before: Sequence[Message] = (), by: Score | None = None) -> Judged:
    """What the floor says; if it cannot, it is asked about. An error is named, and its words are left out."""
    try:
        return floor(text, before, by)
    except Exception as error:  # noqa: BLE001  # whatever it is, somebody waits for an answer
        log.warning("The floor of the crisis gate failed, and the person is asked: %s", type(error).__name__)
        return UNREAD


def _apart(piece: str, by: Score | None) -> Judged:
    """What a piece is. What it states counts; what it only reads like counts for a level less."""
    found = _floor(piece, by=by)
    if not found.level or not set(found.signs) <= set(READS):
        return found
    level = found.level - 1 if found.confidence > SURE else Level.NONE
    return msgspec.structs.replace(found, level=int(level), signs=found.signs if level else ())


def _gravest(found: Sequence[Judged]) -> Judged:
    """The gravest of some judgements, the last of those that are alike; with any doubt, nobody is safe."""
    last = found[-1]
    gravest = max(reversed(found), key=lambda one: one.level)
    return msgspec.structs.replace(
        gravest,
        says_safe=last.says_safe and not gravest.level,
        leans=any(one.leans for one in found),
    )


def _pieces(text: str) -> Iterator[str]:
    """Runs of whole sentences, each of which begins within the last one; none of what is short."""
    sentences = list(_sentences(text))
    if sum(map(len, sentences)) <= LONG:
        return
    start = 0
    while start < len(sentences):
        end = _reach(sentences, start, PIECE)
        yield " ".join(word for sentence in sentences[start:end] for word in sentence)
        if end == len(sentences):
            return
        start = max(start + 1, end - _count_back(sentences, end))


def _sentences(text: str) -> Iterator[list[str]]:
    """The words of each sentence; one that does not end is cut."""
    for found in _SENTENCE.findall(text):
        said = found.split()
        for at in range(0, len(said), PIECE):
            yield said[at : at + PIECE]


def _reach(sentences: Sequence[Sequence[str]], start: int, words: int) -> int:
    """Where a run of so many words ends that begins here: at least one sentence."""
    end, left = start + 1, words - len(sentences[start])
    while end < len(sentences) and len(sentences[end]) <= left:
        left -= len(sentences[end])
        end += 1
    return end


def _count_back(sentences: Sequence[Sequence[str]], end: int) -> int:
    """How many sentences before here are read again."""
    count, left = 0, AGAIN
    while count < end and len(sentences[end - count - 1]) <= left:
        left -= len(sentences[end - count - 1])
        count += 1
    return count


async def turns_before(state: Companion, ctx: Context) -> Sequence[Message]:
    """What was said before this turn; nothing, if the store cannot say."""
    try:
        recent = await state.history.tail(WINDOW)
    except Exception as error:  # noqa: BLE001  # whatever fails, the message itself is judged
        log.warning("A message is judged without the turns before it: %s", type(error).__name__)
        return ()
    said = [
        turn
        for turn in recent[-2 * TURNS - 2 :]
        if turn.run != ctx.turn.id and turn.role in ("user", "assistant") and turn.text
    ]
    if said and said[-1].role == "user" and said[-1].text == state.message:
        said.pop()
    return [Message(role=turn.role, content=legible(turn.text)) for turn in said]


def said_by_person(message: str, before: Sequence[Message]) -> list[str]:
    """What the person said, oldest first."""
    return [*(turn.text for turn in before if turn.role == "user"), legible(message)]
