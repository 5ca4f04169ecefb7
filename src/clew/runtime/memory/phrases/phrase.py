"""Patterns of plain statements, found without a model. English well, a few other languages modestly."""

import re
from functools import cache
from typing import Literal

import msgspec


class Phrase(msgspec.Struct, frozen=True, kw_only=True):
    """A way to state something, and what it states; ``{who}`` and ``{what}`` are replaced by the words said.

    ``splits`` says that it may list several things, ``lower`` that capitals in it mean nothing.
    """

    template: str
    kind: Literal["fact", "rule"] = "fact"
    category: str = "context"
    subject: str = "User"
    predicate: str = ""
    object: str = "{what}"
    single: bool = False
    plain: bool = True
    splits: bool = False
    lower: bool = False
    confidence: float = 0.9

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return _compile(self.template)


@cache
def _compile(template: str) -> re.Pattern[str]:
    return re.compile(template.format(**PATTERN_PARTS), re.IGNORECASE)


CLAUSE_END = (
    r"(?=\s*(?:[.;!?\n]|$|\b(?:but|because|so|since|when)\b|\band\s+(?:i|i['’]m|my|we|she|he|they|it)\b))"
)
PATTERN_PARTS = {
    "start": r"(?:^|[,:;–—(]\s*|\b(?:and|but|so|oh|hi|hey|hello|also|actually|please|pls|ok|okay)[,\s]+)",
    "polite": r"(?:(?:can|could|would|will)\s+(?:you|we)\s+)?(?:please\s+|pls\s+|just\s+|always\s+)*",
    "name": (
        r"(?P<what>(?:(?-i:Dr|Mr|Mrs|Ms|Mx|Prof)\.?\s+)?"
        r"(?-i:[A-ZÀ-ÞА-Я])[\w'’\-]*(?:\s+(?-i:[A-ZÀ-ÞА-Я])[\w'’\-]*){0,2})"
    ),
    "thing": r"(?P<what>[^.,;!?\n]{2,60}?)" + CLAUSE_END.replace("[.;", "[.,;"),
    "things": r"(?P<what>[^.;!?\n]{2,80}?)" + CLAUSE_END,
    "whole": r"(?P<what>\S+\s+\S+\s+[^.;!?\n]{1,160})",
    "iam": r"\b(?:i\s+am|i['’]?m)\s+",
    "not": r"(?:don['’]?t|do\s+not|no\s+longer)",
    "have": r"\bi(?:\s+have|['’]ve|\s+got|\s+have\s+got|['’]ve\s+got)\s+",
    "relation": (
        r"(?P<who>(?:(?:older|younger|little|big|best|late|ex)[\s-]+)?(?:sister|brother|mother|mom|mum|father|dad|"
        r"wife|husband|partner|girlfriend|boyfriend|son|daughter|child|baby|friend|boss|manager|therapist|doctor|"
        r"dog|cat|pet|horse|rabbit|grandmother|grandma|grandfather|grandpa|aunt|uncle|cousin|niece|nephew|"
        r"roommate|flatmate|teacher|neighbou?r|colleague|fianc[ée]e?))"
    ),
    "style": (
        r"(?P<what>bullet\s*points?|bullets|bulleted\s+lists|lists|numbered\s+lists|emojis?|markdown|headings|"
        r"headers|jargon|exclamation\s+(?:marks|points)|tables|bold(?:\s+text)?|code\s+blocks|small\s+talk|slang|"
        r"swear\s+words|swearing|long\s+answers|long\s+replies|metaphors|clich[ée]s|questions|advice|"
        r"(?:toxic\s+)?positivity|diagnoses|nicknames|pet\s+names|abbreviations|technical\s+terms|examples|"
        r"metric\s+units|imperial\s+units|(?:simple|plain)\s+(?:language|words)|pep\s+talks|platitudes|small\s+words)"
    ),
    "end": r"(?=\s*(?:[.,;:!?)]|$|\b(?:please|pls|in|when|for|from|with|at|any\s?more|thanks|and|or)\b))",
    "manner": (
        r"(?P<what>short|shorter|brief|briefer|concise|simple|simpler|long|longer|detailed|more\s+detailed|direct|"
        r"gentle|formal|informal|casual|honest|blunt|to\s+the\s+point|practical)"
    ),
    "answers": r"(?:it|things|answers|replies|responses|messages|explanations|your\s+\w+)",
    "length": (
        r"(?P<what>(?:at\s+most\s+)?(?:one|two|three|four|five|six|a\s+few|\d{1,3})\s+"
        r"(?:short\s+)?(?:sentences?|words?|lines?|paragraphs?))"
    ),
    "language": (
        r"(?P<what>english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|chinese|"
        r"japanese|korean|hindi|ukrainian|swedish)"
    ),
}

PLURAL_RELATIONS = frozenset(
    (
        *(
            "friend",
            "colleague",
            "cousin",
            "aunt",
            "uncle",
            "niece",
            "nephew",
            "neighbor",
            "neighbour",
            "child",
        ),
        *("son", "daughter", "grandmother", "grandfather", "teacher", "roommate", "flatmate"),
        *("dog", "cat", "pet", "horse", "rabbit"),
    )
)
"""Of whom one has several, so that another name is another one. Of a sister it rather is a correction."""

ENGLISH_RELATIONS = {
    "mom": "mother", "mum": "mother", "dad": "father", "grandma": "grandmother", "grandpa": "grandfather",
    "schwester": "sister", "bruder": "brother", "mutter": "mother", "vater": "father", "hund": "dog",
    "katze": "cat", "frau": "wife", "mann": "husband", "freundin": "girlfriend", "freund": "boyfriend",
    "soeur": "sister", "sœur": "sister", "frère": "brother", "mère": "mother", "père": "father",
    "chien": "dog", "chienne": "dog", "chat": "cat", "chatte": "cat", "femme": "wife", "mari": "husband",
    "ami": "friend", "amie": "friend", "hermana": "sister", "hermano": "brother", "madre": "mother",
    "padre": "father", "perro": "dog", "perra": "dog", "gato": "cat", "gata": "cat", "mujer": "wife",
    "marido": "husband", "amigo": "friend", "amiga": "friend",
}  # fmt: skip
"""What relations are called in English, so that a sister is a sister in any language."""


_ENGLISH_WORDS = (
    "a an the and or but if so of in on at to for from by with about as into over under is are was "
    "were be been am do does did have has had can could will would should shall may might must not no "
    "nor i me my mine we us our you your he him his she her it its they them their this that these "
    "those there here what which who whom whose when where why how any some all just too very really "
    "also than then now s t m re ve ll d don "
)
_OTHER_WORDS = (
    "der die das ein eine einer einen und oder aber ist sind war ich mich mir mein meine du dich dir "
    "dein er sie es wir ihr nicht kein keine was wer wie wo wann warum auf mit von zu im am den dem "
    "des fur bin hat habe le la les un une des et ou mais est sont je me moi mon ma mes tu te ton il "
    "elle nous vous ne pas que qui quoi ou quand comment pour dans sur avec de du au aux ce cette ai "
    "as suis el los las una unos y o pero es son soy yo mi mis tu tus se no que quien como donde "
    "cuando por para con en del al "
)
FUNCTION_WORDS = frozenset(f"{_ENGLISH_WORDS} {_OTHER_WORDS}".split())
