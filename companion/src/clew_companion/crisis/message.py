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
from clew_companion.crisis.floor import MOST_TURNS, FloorVerdict, judge_message
from clew_companion.state import HISTORY_WINDOW, CompanionState
from clew_companion.values import CrisisLevel

log = logging.getLogger("clew")
LONG_MESSAGE_WORDS = 60
"""A message of more words is read in pieces too."""
PIECE_WORDS, OVERLAP_WORDS = 40, 20
"""How many words a piece has at most, and how many of the last one it begins with."""
MOST_NETWORK_PIECES = 8
"""How many pieces the network reads: of more, those that the weights find gravest."""
MOST_CHARACTERS, LONGEST_WORD = 16_000, 60
"""Characters that are read: the beginning and the end, if there are more. Longer words are no words."""
UNREADABLE_VERDICT = FloorVerdict(
    level=CrisisLevel.UNCLEAR, confidence=0.0, kind="unread", signs=("could not be read",)
)
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
_ENDLESS_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_SENTENCE = re.compile(r"[^.!?…\n]*[.!?…\n]*")


def judge_quickly(message: str) -> FloorVerdict:
    """The verdict on a message as a whole by its weights alone, within milliseconds."""
    return _judge_safely(legible_text(message), scorer=quick_scorer())


def judge(message: str, before: Sequence[Message]) -> FloorVerdict:
    """The verdict on a message by itself and after earlier turns."""
    return judge_in_context(judge_alone(message), message, before)


def judge_alone(message: str) -> FloorVerdict:
    """The verdict on a message by itself: on all of it, or on its worst stretch."""
    text = legible_text(message)
    return _gravest_verdict([*_piece_verdicts(list(_pieces(text))), _judge_safely(text)])


def _piece_verdicts(pieces: Sequence[str]) -> list[FloorVerdict]:
    """The verdicts on the pieces of a long message."""
    if len(pieces) <= MOST_NETWORK_PIECES:
        return [_judge_safely(piece) for piece in pieces]
    quick_verdicts = [_judge_safely(piece, scorer=quick_scorer()) for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda at: -quick_verdicts[at].risk)
    read_again = {at: _judge_safely(pieces[at]) for at in order[:MOST_NETWORK_PIECES]}
    return [read_again.get(at) or stated_part(verdict) for at, verdict in enumerate(quick_verdicts)]


def stated_part(verdict: FloorVerdict) -> FloorVerdict:
    """The stated part of a verdict, without what the message only reads like."""
    return (
        verdict if verdict.stated == verdict.level else msgspec.structs.replace(verdict, level=verdict.stated)
    )


def judge_in_context(alone: FloorVerdict, message: str, before: Sequence[Message]) -> FloorVerdict:
    """The verdict on a message after earlier turns.

    What it states by itself holds. What a piece of it only reads like counts as far as it does for the whole.
    """
    if not before:
        return alone
    in_context = _judge_safely(legible_text(message), before)
    return _gravest_verdict([_limited_verdict(alone, in_context), in_context])


def _limited_verdict(alone: FloorVerdict, in_context: FloorVerdict) -> FloorVerdict:
    """The verdict on a message by itself, as far as the turns before bear it out."""
    bound = max(in_context.level, alone.worded, CrisisLevel.UNCLEAR)
    return msgspec.structs.replace(
        alone,
        level=min(alone.level, int(bound)),
        stated=min(alone.stated, max(in_context.stated, alone.worded)),
    )


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


def _gravest_verdict(verdicts: Sequence[FloorVerdict]) -> FloorVerdict:
    """The gravest of some judgements, the last of those that are alike; with any doubt, nobody is safe."""
    last = verdicts[-1]
    gravest = max(reversed(verdicts), key=lambda one: (one.level, one.stated))
    return msgspec.structs.replace(
        gravest,
        stated=max(one.stated for one in verdicts),
        says_safe=last.says_safe and not gravest.level,
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
    """The words of each sentence; one that does not end is cut, and its parts are read with each other."""
    for sentence in _SENTENCE.findall(text):
        words = sentence.split()
        for at in range(0, len(words), OVERLAP_WORDS):
            yield words[at : at + OVERLAP_WORDS]


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
