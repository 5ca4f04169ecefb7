"""The floor's verdict on a whole message: on all of it, on its pieces, and after earlier turns.

It answers whatever it is given. The floor learnt from messages of a few sentences, so a long one is read
piece by piece as well: one sentence in the middle of a page is not outweighed by the rest of it.
"""

import logging
import re
from collections.abc import Iterator, Sequence

import msgspec

from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew_companion.crisis.classifier import MessageScorer, quick_scorer
from clew_companion.crisis.floor import MOST_TURNS, SCORE_SIGNS, FloorVerdict, judge_message
from clew_companion.state import HISTORY_WINDOW, CompanionState
from clew_companion.values import CrisisLevel

log = logging.getLogger("clew")
LONG_MESSAGE_WORDS = 60
"""A message of more words is read in pieces too."""
PIECE_WORDS, OVERLAP_WORDS = 40, 20
"""How many words a piece has at most, and how many of the last one it begins with."""
MOST_NETWORK_PIECES = 8
"""Of more pieces the network reads none: nobody waits for it that long."""
SURE_CONFIDENCE = 0.8
"""A piece that states nothing must read so clearly to count."""
MOST_CHARACTERS, LONGEST_WORD = 16_000, 60
"""Characters that are read: the beginning and the end, if there are more. Longer words are no words."""
UNREADABLE_VERDICT = FloorVerdict(
    level=CrisisLevel.UNCLEAR, confidence=0.0, kind="unread", signs=("could not be read",), leans=True
)
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
_ENDLESS_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_SENTENCE = re.compile(r"[^.!?…\n]*[.!?…\n]*")


def judge_alone(message: str) -> FloorVerdict:
    """The verdict on a message by itself."""
    text = legible_text(message)
    pieces = list(_pieces(text))
    scorer = quick_scorer() if len(pieces) > MOST_NETWORK_PIECES else None
    return _gravest_verdict([*[_judge_piece(piece, scorer) for piece in pieces], _judge_safely(text)])


def judge_in_context(alone: FloorVerdict, message: str, before: Sequence[Message]) -> FloorVerdict:
    """The verdict on a message after earlier turns: as grave as its own words, or graver."""
    return _gravest_verdict([alone, _judge_safely(legible_text(message), before)]) if before else alone


def legible_text(text: str) -> str:
    """The legible part of a text: no unseen signs, no endless words, and not all of an endless text."""
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS // 2]}\n{text[-MOST_CHARACTERS // 2 :]}"
    return _ENDLESS_WORD.sub(lambda match: match[0][:LONGEST_WORD], _INVISIBLE.sub("", text))


def _judge_safely(
    text: str, before: Sequence[Message] = (), scorer: MessageScorer | None = None
) -> FloorVerdict:
    """The floor's verdict, or a question if it fails. The error is named, without words of the person."""
    try:
        return judge_message(text, before, scorer)
    except Exception as error:  # noqa: BLE001  # whatever it is, a person waits for an answer
        log.warning("The floor of the crisis gate failed, and the person is asked: %s", type(error).__name__)
        return UNREADABLE_VERDICT


def _judge_piece(piece: str, scorer: MessageScorer | None) -> FloorVerdict:
    """The verdict on a piece. Statements count in full; what only reads like danger counts a level less."""
    verdict = _judge_safely(piece, scorer=scorer)
    if not verdict.level or not set(verdict.signs) <= set(SCORE_SIGNS):
        return verdict
    level = verdict.level - 1 if verdict.confidence > SURE_CONFIDENCE else CrisisLevel.NONE
    return msgspec.structs.replace(verdict, level=int(level), signs=verdict.signs if level else ())


def _gravest_verdict(verdicts: Sequence[FloorVerdict]) -> FloorVerdict:
    """The gravest of some judgements, the last of those that are alike; with any doubt, nobody is safe."""
    last = verdicts[-1]
    gravest = max(reversed(verdicts), key=lambda one: one.level)
    return msgspec.structs.replace(
        gravest,
        says_safe=last.says_safe and not gravest.level,
        leans=any(one.leans for one in verdicts),
    )


def _pieces(text: str) -> Iterator[str]:
    """Runs of whole sentences, each of which begins within the last one; none of what is short."""
    sentences = list(_sentences(text))
    if sum(map(len, sentences)) <= LONG_MESSAGE_WORDS:
        return
    start = 0
    while start < len(sentences):
        end = _piece_end(sentences, start, PIECE_WORDS)
        yield " ".join(word for sentence in sentences[start:end] for word in sentence)
        if end == len(sentences):
            return
        start = max(start + 1, end - _overlap_count(sentences, end))


def _sentences(text: str) -> Iterator[list[str]]:
    """The words of each sentence; one that does not end is cut."""
    for sentence in _SENTENCE.findall(text):
        words = sentence.split()
        for at in range(0, len(words), PIECE_WORDS):
            yield words[at : at + PIECE_WORDS]


def _piece_end(sentences: Sequence[Sequence[str]], start: int, words: int) -> int:
    """The end of a piece of so many words that begins here: at least one sentence."""
    end, left = start + 1, words - len(sentences[start])
    while end < len(sentences) and len(sentences[end]) <= left:
        left -= len(sentences[end])
        end += 1
    return end


def _overlap_count(sentences: Sequence[Sequence[str]], end: int) -> int:
    """The number of sentences before here that are read again."""
    count, left = 0, OVERLAP_WORDS
    while count < end and len(sentences[end - count - 1]) <= left:
        left -= len(sentences[end - count - 1])
        count += 1
    return count


async def earlier_turns(state: CompanionState, context: Context) -> Sequence[Message]:
    """The messages before this turn; none if the store cannot be read."""
    try:
        recent = await state.history.tail(HISTORY_WINDOW)
    except Exception as error:  # noqa: BLE001  # whatever fails, the message itself is judged
        log.warning("A message is judged without the turns before it: %s", type(error).__name__)
        return ()
    turns = [
        turn
        for turn in recent[-2 * MOST_TURNS - 2 :]
        if turn.run != context.turn.id and turn.role in ("user", "assistant") and turn.text
    ]
    if turns and turns[-1].role == "user" and turns[-1].text == state.message:
        turns.pop()
    return [Message(role=turn.role, content=legible_text(turn.text)) for turn in turns]


def texts_of_person(message: str, before: Sequence[Message]) -> list[str]:
    """The person's messages, oldest first."""
    return [*(turn.text for turn in before if turn.role == "user"), legible_text(message)]
