"""The filter of replies: sentences are held back until they are checked against what no reply may say.

A reply is streamed sentence by sentence. One that diagnoses, advises on medication, poses as a person or
gives a telephone number or an address is left out: those come from checked data, in branches of their own.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from clew.runtime.model.boundary import ModelWrapper, stream_parts
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk
from clew_companion.language.topics import DISORDER
from clew_companion.replies import filter_phrases
from clew_companion.replies.contacts import continues_number, gives_contact, plain_text

_DISORDER = rf"(?!(?-i:add)){DISORDER}"
"""Not the verb, nor the beginning of an address."""
_LINKS = (
    r"(?:(?:is|are|be|been|have|had|got|do|sounds?|looks?|seems?|appears?|points?|match(?:es)?|fits?|indicates?|"
    r"suggests?|resembles?|may|might|can|could|must|would|will|probably|likely|clearly|definitely|certainly|surely|"
    r"obviously|really|perhaps|maybe|well|also|just|suffer(?:ing)?|deal(?:ing)?|experienc(?:e|ing)|liv(?:e|ing)|"
    r"struggl(?:e|ing)|show(?:ing)?|display(?:ing)?|signs?|symptoms?|cases?|kind|form|type|classic|typical|like|"
    r"from|with|of|to|in|an?|the|all|some)\s+)"
)
"""Words between a person and what they are said to have: none of them leads anywhere else."""
_NOT_A_REPORT = "".join(
    rf"(?<!{lead}\s)(?<!{lead}\sthat\s)"
    for lead in (
        *("said", "you say", "wrote", "told me", "told you", "mentioned", "shared", "shared with me"),
        *("worried", "afraid", "whether", "if"),
    )
)
"""A guard against reported speech and fears, which are no claims of the reply."""
DIAGNOSIS = re.compile(
    rf"{_NOT_A_REPORT}(?<!\bhave\s)\byou(?:['’](?:re|ve))?\s+{_LINKS}{{0,7}}{_DISORDER}"
    rf"|{_NOT_A_REPORT}\b(?:it|this|that|these|those|what\s+you\s+\w+|your\s+\w+(?:\s+\w+)?|sounds|looks)\s+"
    rf"{_LINKS}{{1,7}}{_DISORDER}"
    rf"|\b(?:i\s+(?:would\s+)?diagnose|my\s+diagnosis|your\s+diagnosis\s+is|"
    rf"you\s+(?:meet|fulfil\w*|fit|match)\s+(?:\w+\s+){{0,3}}criteria|consistent\s+with\s+(?:an?\s+)?{_DISORDER}"
    r"|(?:criteria|diagnosis)\s+(?:for|of)\s+\w+.*\byou\b)",
    re.IGNORECASE,
)
_MEDICINE = (
    r"(?:medications?|meds|pills?|tablets?|dose|dosage|antidepressants?|ssris?|benzos?|sertraline|prozac|xanax|"
    r"lithium|\d+\s*mg)\b"
)
_CHANGING = r"(?:stop|start|tak|try|increas|doubl|reduc|skip|halv|lower)(?:p?ing|e)?"
MEDICATION_ADVICE = re.compile(
    r"(?:^[\W\d]*(?!\w+ing\b)|\b(?:please|just|try(?:\s+to)?|"
    r"you\s+(?:should|could|can|must|may|might|need\s+to|ought\s+to|have\s+to)|"
    r"(?:fine|ok(?:ay)?|safe|good|best|better)\s+to|(?:recommend|suggest|advise|consider)"
    r"(?:\s+(?:you|that\s+you))?)\s+|(?:[,;:]|\band|\bor)\s+(?!tak|start|\w+ing\b))"
    r"(?:(?!never\b|not\b|don['’]?t\b|(?:keep|continue)\s+taking\b)\w+\s+)?"
    rf"{_CHANGING}\s+(?:\w+\s+){{0,3}}?{_MEDICINE}"
    rf"|^[\W\d]*{_CHANGING}\s+(?:\w+\s+){{0,3}}?{_MEDICINE}(?!.*\b(?:not|never|without|doctor|prescri\w+)\b)"
    r".*\b(?:helps?|good|fine|ok(?:ay)?|best|better|safe)\b"
    rf"|\byou\s+(?:don['’]t|do\s+not|no\s+longer)\s+need\s+(?:\w+\s+){{0,2}}{_MEDICINE}",
    re.IGNORECASE,
)
_HELPER = (
    r"(?:(?:licensed|certified|registered|qualified|trained|professional|clinical|medical)\s+)*"
    r"(?:(?:psycho)?therapist|psychologist|doctor|counsell?or|psychiatrist)"
)
POSE = re.compile(
    rf"\bas\s+(?:a|an|your)\s+(?:\w+\s+)?(?:{_HELPER}|human),?\s+i\b|\bspeaking\s+as\s+(?:an?|your)\s+{_HELPER}"
    rf"|\bi(?:['’]m|\s+am)\s+(?:(?:really|actually|also)\s+)?(?:(?:an?|your)\s+)?(?:(?!not\b|no\b)\w+\s+)?"
    rf"(?:{_HELPER}|human|real\s+person|person)\b"
    r"|\bi(?:['’]m|\s+am)\s+not\s+(?:an?\s+|just\s+an?\s+)(?:bot|robot|program|machine|computer|ai)\b",
    re.IGNORECASE,
)
UNFIT_PATTERNS = (
    DIAGNOSIS,
    MEDICATION_ADVICE,
    POSE,
    filter_phrases.DIAGNOSIS,
    filter_phrases.MEDICATION_ADVICE,
    filter_phrases.POSE,
)
SENTENCE_BREAK = re.compile(r"(?<=[.!?…。])[\"'”’)]*\s+|\n+")
NOTHING_LEFT = (
    "I want to be careful with what I say here: I am a program, and I can neither diagnose nor replace "
    "somebody who can look at this with you. What would you like to tell me more about?"
)


def is_fit(sentence: str, before: str = "") -> bool:
    """Return whether a sentence may be said after the one before it."""
    text = " ".join(plain_text(sentence).split())
    return not any(unfit.search(text) for unfit in UNFIT_PATTERNS) and not gives_contact(text, before)


class ReplyFilter(ModelWrapper):
    """A model whose unfit sentences are left out, and whose replies end with what is given."""

    def __init__(self, model: Model, *, ending: str = "") -> None:
        super().__init__(model)
        self._ending = ending

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """The reply, a sentence at a time."""
        sentences: list[str] = []
        buffer, before, reply = "", "", Reply()
        async with aclosing(stream_parts(self._model, request)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    reply = part
                    break
                buffer += part.text
                new_sentences, buffer = _split_sentences(buffer)
                for sentence in new_sentences:
                    if is_fit(sentence, before):
                        sentences.append(sentence)
                        yield TextChunk(sentence)
                    before = sentence
        for last in self._final_parts(buffer, before, sentences):
            sentences.append(last)
            yield TextChunk(last)
        yield msgspec.structs.replace(reply, text="".join(sentences).strip(), calls=())

    def _final_parts(self, buffer: str, before: str, sentences: list[str]) -> list[str]:
        """The last sentence of the model, or the substitute if nothing is left."""
        parts = [buffer] if buffer.strip() and is_fit(buffer, before) else []
        if not "".join([*sentences, *parts]).strip():
            parts = [NOTHING_LEFT]
        return [*parts, f"\n\n{self._ending}"] if self._ending else parts


def _split_sentences(text: str) -> tuple[list[str], str]:
    """The whole sentences of a text with what separates them, and what is not whole yet.

    A number goes with what follows it: it may be the beginning of a longer one, or of a list's line.
    """
    sentences, start = [], 0
    for match in SENTENCE_BREAK.finditer(text):
        rest = text[match.end() :]
        if rest and not continues_number(text[start : match.start()], rest):
            sentences.append(text[start : match.end()])
            start = match.end()
    return sentences, text[start:]
