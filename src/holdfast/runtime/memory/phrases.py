"""How people state things plainly: the patterns that need no model. English well, a few others modestly."""

import re
from typing import Literal

import msgspec


class Phrase(msgspec.Struct, frozen=True, kw_only=True):
    """A way to state something, and what it states; ``{who}`` and ``{what}`` stand for what was said."""

    says: str
    kind: Literal["fact", "rule"] = "fact"
    category: str = "context"
    subject: str = "User"
    predicate: str = ""
    object: str = "{what}"
    single: bool = False
    plain: bool = True
    splits: bool = False
    confidence: float = 0.9

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; Python keeps compiled patterns."""
        return re.compile(self.says.format(**PARTS), re.IGNORECASE)


CLAUSE_END = (
    r"(?=\s*(?:[.;!?\n]|$|\b(?:but|because|so|since|when)\b|\band\s+(?:i|i['’]m|my|we|she|he|they|it)\b))"
)
PARTS = {
    "start": r"(?:^|[,:;–—(]\s*|\b(?:and|but|so|oh|hi|hey|hello|also|actually|please|pls|ok|okay)[,\s]+)",
    "polite": r"(?:(?:can|could|would|will)\s+you\s+)?(?:please\s+|pls\s+|just\s+)*",
    "name": r"(?P<what>(?-i:[A-ZÀ-ÞА-Я])[\w'’\-]*(?:\s+(?-i:[A-ZÀ-ÞА-Я])[\w'’\-]*){0,2})",
    "thing": r"(?P<what>[^.,;!?\n]{2,60}?)" + CLAUSE_END.replace("[.;", "[.,;"),
    "things": r"(?P<what>[^.;!?\n]{2,80}?)" + CLAUSE_END,
    "iam": r"\b(?:i\s+am|i['’]?m)\s+",
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
        r"(?:toxic\s+)?positivity|diagnoses|nicknames|pet\s+names|abbreviations|technical\s+terms)"
    ),
    "end": r"(?=\s*(?:[.,;:!?)]|$|\b(?:please|pls|in|when|for|from|with|at|any\s?more|thanks|and|or)\b))",
    "manner": (
        r"(?P<what>short|shorter|brief|briefer|concise|simple|simpler|long|longer|detailed|more\s+detailed|direct|"
        r"gentle|formal|informal|casual|honest|blunt|to\s+the\s+point|practical)"
    ),
    "answers": r"(?:it|things|answers|replies|responses|messages|explanations|your\s+\w+)",
    "language": (
        r"(?P<what>english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|chinese|"
        r"japanese|korean|hindi|ukrainian|swedish)"
    ),
}

RULES = (
    Phrase(
        kind="rule", subject="name", object="Call the user {what}.", says=r"{start}{polite}call\s+me\s+{name}"
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=r"{start}{polite}call\s+me\s+(?P<what>[a-z]{{2,20}})(?=\s*(?:[.!,]|$))",
    ),
    Phrase(kind="rule", subject="name", object="Call the user {what}.", says=r"\bmy\s+name\s+is\s+{name}"),
    Phrase(kind="rule", subject="name", object="Call the user {what}.", says=r"\bmy\s+name['’]s\s+{name}"),
    Phrase(kind="rule", subject="name", object="Call the user {what}.", says=r"\bi\s+go\s+by\s+{name}"),
    Phrase(
        kind="rule",
        subject="not called {what}",
        object="Do not call the user {what}.",
        says=r"{start}{polite}(?:don['’]?t|do\s+not|stop|never)\s+call(?:ing)?\s+me\s+{thing}",
    ),
    Phrase(
        kind="rule",
        subject="pronouns",
        object="The user's pronouns are {what}.",
        says=r"\bmy\s+pronouns\s+are\s+(?P<what>\w+(?:\s*/\s*\w+){{0,3}})",
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Answer without {what}.",
        says=(
            r"{start}{polite}(?:no(?:\s+more)?|don['’]?t\s+use|do\s+not\s+use|stop\s+(?:using|with)(?:\s+the)?|"
            r"avoid|skip(?:\s+the)?|never\s+use|leave\s+out(?:\s+the)?|without)\s+(?:any\s+|so\s+many\s+)?{style}{end}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Answer without {what}.",
        says=r"\bi\s+(?:really\s+)?(?:hate|dislike|can['’]?t\s+stand|don['’]?t\s+(?:like|want|need))\s+(?:the\s+|any\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Use {what}.",
        says=r"{start}{polite}(?:always\s+)?(?:use|give\s+me)\s+(?:more\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        says=r"{start}{polite}(?:always\s+)?keep\s+{answers}\s+{manner}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Be {what}.",
        says=r"{start}{polite}(?:always\s+)?be\s+(?:more\s+|very\s+|really\s+)?{manner}(?:\s+with\s+me)?",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        says=r"\bi(?:['’]?d)?\s+(?:prefer|like|want|would\s+like)\s+{manner}\s+(?:answers|replies|responses|messages)",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in {what}.",
        says=r"{start}{polite}(?:always\s+)?(?:answer|reply|respond|speak|write|talk)(?:\s+(?:to\s+me|with\s+me|back))?\s+in\s+{language}",
    ),
    Phrase(
        kind="rule",
        subject="topic {what}",
        object="Do not bring up {what}.",
        says=(
            r"{start}{polite}(?:don['’]?t|do\s+not|never|stop)\s+(?:ask(?:ing)?\s+(?:me\s+)?about|mention(?:ing)?|"
            r"bring(?:ing)?\s+up|talk(?:ing)?\s+about)\s+{thing}"
        ),
    ),
)

FACTS = (
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        says=r"\bmy\s+{relation}(?:['’]s\s+name)?(?:\s+is|['’]s)\s+(?:called\s+|named\s+)?{name}",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        says=r"\bi\s+have\s+an?\s+{relation}\s+(?:called|named)\s+{name}",
    ),
    Phrase(
        category="health",
        predicate="IS_ALLERGIC_TO",
        splits=True,
        says=r"{iam}(?P<neg>not\s+|no\s+longer\s+|not\s+really\s+)?(?:very\s+|severely\s+|really\s+|badly\s+|also\s+)?allergic\s+to\s+{things}",
    ),
    Phrase(
        category="health",
        predicate="EATS",
        single=True,
        says=r"{iam}(?P<neg>not\s+|no\s+longer\s+)?(?:an?\s+)?(?P<what>vegan|vegetarian|pescatarian|gluten[\s-]free|kosher|halal)\b",
    ),
    Phrase(predicate="LIVES_IN", single=True, says=r"\bi\s+(?:now\s+|currently\s+)?live\s+in\s+{thing}"),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        says=r"\bi(?:['’]ve)?\s+(?:just\s+|recently\s+)?moved\s+to\s+{name}",
    ),
    Phrase(predicate="COMES_FROM", single=True, says=r"{iam}(?:originally\s+)?from\s+{name}"),
    Phrase(predicate="WORKS_AS", single=True, says=r"\bi\s+work\s+as\s+(?:an?\s+)?{thing}"),
    Phrase(predicate="WORKS_AT", single=True, says=r"\bi\s+work\s+(?:at|for|in)\s+(?!as\b){thing}"),
    Phrase(
        predicate="IS_AGED",
        single=True,
        says=r"{iam}(?P<what>[1-9]\d?)(?:\s+years?\s+old)?(?=\s*(?:[.,!;]|$|and\b))",
    ),
    Phrase(predicate="HAS_BIRTHDAY_ON", single=True, says=r"\bmy\s+birthday\s+is\s+(?:on\s+)?{thing}"),
    Phrase(
        category="preference",
        predicate="LIKES",
        confidence=0.8,
        says=(
            r"\bi\s+(?:really\s+|absolutely\s+|always\s+)?(?:(?P<neg>hate|dislike|can['’]?t\s+stand|don['’]?t\s+"
            r"(?:really\s+)?(?:like|enjoy))|love|like|enjoy)\s+{thing}"
        ),
    ),
    Phrase(
        category="preference",
        predicate="IS",
        single=True,
        subject="favourite {who}",
        says=r"\bmy\s+favou?rite\s+(?P<who>\w+(?:\s\w+)?)\s+is\s+{thing}",
    ),
    Phrase(
        category="concern",
        predicate="WORRIES_ABOUT",
        plain=False,
        confidence=0.7,
        says=r"(?:{iam}(?:so\s+|really\s+|very\s+)?(?:worried|anxious|nervous|scared)\s+about|\bi\s+worry\s+about)\s+{thing}",
    ),
    Phrase(
        category="goal",
        predicate="WANTS",
        plain=False,
        confidence=0.6,
        says=r"\b(?:my\s+goal\s+is\s+to|i\s+want\s+to|i['’]?m\s+trying\s+to)\s+{thing}",
    ),
    Phrase(
        category="self_belief",
        predicate="FEELS_LIKE",
        plain=False,
        confidence=0.5,
        says=(
            r"(?:{iam}|\bi\s+feel\s+(?:like\s+)?)(?:such\s+|so\s+|just\s+)?(?:an?\s+)?(?P<what>worthless|failure|useless|"
            r"stupid|idiot|loser|burden|unlovable|broken|ugly|hopeless|not\s+(?:good|smart|strong)\s+enough)\b"
        ),
    ),
)

OTHERS = (
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=r"(?:\bnenn(?:e)?\s+mich|\bappelle[sz]?-moi|\bll[áa]mame|\bchiamami|\bme\s+chame\s+de|\bnoem\s+me)\s+(?:bitte\s+)?{name}",
    ),
    Phrase(
        kind="rule",
        subject="bullet points",
        object="Answer without bullet points.",
        says=r"(?:\bkeine\s+(?:aufz[äa]hlung\w*|stichpunkte|listen)|\bpas\s+de\s+(?:listes?|puces)|\bsin\s+(?:vi[ñn]etas|listas)|\bsenza\s+elenchi)",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in German.",
        says=r"\b(?:antworte?|sprich|schreib)\b[^.!?]{{0,20}}\bauf\s+deutsch\b",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in French.",
        says=r"\b(?:r[ée]ponds|parle|[ée]cris)\b[^.!?]{{0,20}}\ben\s+fran[çc]ais\b",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in Spanish.",
        says=r"\b(?:responde|habla|escribe)\b[^.!?]{{0,20}}\ben\s+espa[ñn]ol\b",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        says=r"\b(?:meine?|mein)\s+(?P<who>schwester|bruder|mutter|vater|hund|katze|frau|mann|freundin|freund)\s+hei[ßs]+t\s+{name}",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        says=r"\b(?:ma|mon)\s+(?P<who>s[œo]e?ur|fr[èe]re|m[èe]re|p[èe]re|chienn?e?|chatt?e?|femme|mari|amie?)\s+s['’]appelle\s+{name}",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        says=r"\bmi\s+(?P<who>hermana|hermano|madre|padre|perr[oa]|gat[oa]|mujer|marido|amig[oa])\s+se\s+llama\s+{name}",
    ),
    Phrase(
        category="health",
        predicate="IS_ALLERGIC_TO",
        splits=True,
        says=r"(?:\bich\s+bin\s+(?P<neg>nicht\s+|nicht\s+mehr\s+)?allergisch\s+(?:gegen|auf)|\bje\s+suis\s+allergique\s+(?:aux?|à\s+la|à\s+l['’]|à|a)|\bsoy\s+al[ée]rgic[oa]\s+al?|\bsono\s+allergic[oa]\s+(?:alle|agli|ai|alla|al|a))\s+(?:la\s+|los\s+|las\s+)?{things}",
    ),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        says=r"(?:\bich\s+(?:wohne|lebe)\s+in|\bj['’]habite\s+(?:à|en|au)|\bvivo\s+(?:en|a))\s+{name}",
    ),
)

RELATIONS = {
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
