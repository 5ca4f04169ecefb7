"""What no reply may say, whoever words it: sentences are held back until they were looked at.

A reply is streamed sentence by sentence. One that diagnoses, advises on medication, poses as a person or
gives a telephone number or an address is left out: those come from checked data, in branches of their own.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar, cast

import msgspec

from holdfast.companion.replies import elsewhere
from holdfast.companion.replies.contacts import gives_contact, goes_on
from holdfast.companion.topics import DISORDER
from holdfast.runtime.models import Model, Part, Reply, Request, Text, Usage

T = TypeVar("T")
DIAGNOSING = re.compile(
    rf"\byou(?:['’]re|\s+are|['’]ve\s+got|\s+have|\s+suffer\s+from|\s+are\s+suffering\s+from|\s+(?:may|"
    rf"might|could|probably|likely|clearly|"
    rf"seem\s+to|appear\s+to|must)\s+(?:well\s+|be\s+|have\s+|suffer\s+from\s+|be\s+suffering\s+from\s+|"
    rf"have\s+got\s+)+)\s*(?:a\s+case\s+of\s+|an?\s+)?{DISORDER}"
    rf"|\b(?:i\s+(?:would\s+)?diagnose|my\s+diagnosis|your\s+diagnosis\s+is|this\s+is\s+(?:clearly\s+|"
    rf"a\s+case\s+of\s+|classic\s+)+{DISORDER}"
    rf"|(?:what\s+you\s+(?:describe|have)|that|this|it)\s+(?:is|sounds\s+like|looks\s+like|points\s+to|"
    rf"indicates|suggests)\s+(?:an?\s+)?{DISORDER}"
    rf"|consistent\s+with\s+(?:an?\s+)?{DISORDER}"
    r"|(?:criteria|diagnosis)\s+(?:for|of)\s+\w+.*\byou\b)",
    re.IGNORECASE,
)
MEDICATING = re.compile(
    r"\b(?:you\s+(?:should|could|can|must|need\s+to|might)|i\s+(?:recommend|suggest|advise)(?:\s+(?:you|"
    r"that\s+you))?|try\s+to|please|just)\s+(?:\w+\s+)?"
    r"(?:stop(?:ping)?|start(?:ing)?|tak(?:e|ing)|increas(?:e|ing)|doubl(?:e|ing)|reduc(?:e|ing)|"
    r"skip(?:ping)?|halv(?:e|ing)|lower(?:ing)?)\s+"
    r"(?:\w+\s+){0,3}?(?:medication|meds|pills?|tablets?|dose|dosage|antidepressants?|ssris?|benzos?|"
    r"sertraline|prozac|xanax|lithium|\d+\s*mg)\b",
    re.IGNORECASE,
)
POSING = re.compile(
    r"\bas\s+(?:a|an|your)\s+(?:\w+\s+)?(?:therapist|psychologist|doctor|counsell?or|psychiatrist|human),?\s+i\b|"
    r"\bi(?:['’]m|\s+am)\s+(?:a|your)\s+(?:\w+\s+)?"
    r"(?:therapist|psychologist|doctor|counsell?or|psychiatrist|human|real\s+person|person)\b",
    re.IGNORECASE,
)
UNFIT = (DIAGNOSING, MEDICATING, POSING, elsewhere.DIAGNOSING, elsewhere.MEDICATING, elsewhere.POSING)
BREAK = re.compile(r"(?<=[.!?…。])[\"'”’)]*\s+|\n+")
NOTHING_LEFT = (
    "I want to be careful with what I say here: I am a program, and I can neither diagnose nor replace "
    "somebody who can look at this with you. What would you like to tell me more about?"
)


def is_fit(sentence: str, before: str = "") -> bool:
    """Whether a sentence may be said after the one before it."""
    return not any(unfit.search(sentence) for unfit in UNFIT) and not gives_contact(sentence, before)


class Careful:
    """A model whose unfit sentences are left out, and whose replies end with what is given."""

    def __init__(self, model: Model, *, ending: str = "") -> None:
        self.name = model.name
        self._model = model
        self._ending = ending

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The reply, a sentence at a time."""
        said: list[str] = []
        held, before, reply = "", "", Reply()
        parts = cast("AsyncGenerator[Part, None]", self._model.stream(request))
        async with aclosing(parts):
            async for part in parts:
                if isinstance(part, Reply):
                    reply = part
                    break
                held += part.text
                whole, held = _split(held)
                for sentence in whole:
                    if is_fit(sentence, before):
                        said.append(sentence)
                        yield Text(sentence)
                    before = sentence
        for last in self._last(held, before, said):
            said.append(last)
            yield Text(last)
        yield msgspec.structs.replace(reply, text="".join(said).strip(), calls=())

    def _last(self, held: str, before: str, said: list[str]) -> list[str]:
        """What comes when the model is through: its last sentence, or what is said instead of nothing."""
        found = [held] if held.strip() and is_fit(held, before) else []
        if not "".join([*said, *found]).strip():
            found = [NOTHING_LEFT]
        return [*found, f"\n\n{self._ending}"] if self._ending else found

    async def fill(self, request: Request, kind: type[T]) -> tuple[T, Usage]:
        """A typed answer, as the model gives it."""
        return await self._model.fill(request, kind)


def _split(text: str) -> tuple[list[str], str]:
    """The whole sentences of a text with what separates them, and what is not whole yet.

    A number goes with what follows it: it may be the beginning of a longer one, or of a list's line.
    """
    whole, start = [], 0
    for found in BREAK.finditer(text):
        rest = text[found.end() :]
        if rest and not goes_on(text[start : found.start()], rest):
            whole.append(text[start : found.end()])
            start = found.end()
    return whole, text[start:]
