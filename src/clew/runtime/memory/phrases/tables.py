"""Tables of patterns: facts stated plainly, and both facts and wishes in languages other than English."""

from clew.runtime.memory.phrases.phrase import Phrase

FACT_PHRASES = (
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        template=(
            r"\b(?:my|our)\s+{relation}(?:(?:['’]s\s+name)?(?:\s+is|['’]s)\s+(?:called\s+|named\s+)|"
            r"['’]s\s+name(?:\s+is|['’]s)\s+){name}"
        ),
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        plain=False,
        confidence=0.6,
        template=r"\b(?:my|our)\s+{relation}(?:\s+is|['’]s)\s+(?!called\b|named\b){name}(?=\s*(?:[.,!;]|$))",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        confidence=0.8,
        template=(
            r"\b(?:my|our)\s+{relation},?\s+(?!(?-i:I|[A-Z]\w+day)\b){name}(?=\s*,|\s+(?:is|was|has|had|and|"
            r"lives?|works?|died|says?|said|wants?|loves?|likes?|came|comes|got|gets|will|would|can|told|called)\b)"
        ),
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        template=r"{have}an?\s+{relation}\s+(?:called|named)\s+{name}",
    ),
    Phrase(
        category="health",
        predicate="IS_ALLERGIC_TO",
        splits=True,
        template=r"{iam}(?P<neg>not\s+|no\s+longer\s+|not\s+really\s+)?(?:very\s+|severely\s+|really\s+|badly\s+|also\s+)?allergic\s+to\s+{things}",
    ),
    Phrase(
        category="health",
        predicate="IS_ALLERGIC_TO",
        splits=True,
        template=(
            r"{have}an?\s+(?:bad\s+|severe\s+|strong\s+)?(?:allergy\s+to\s+{things}"
            r"|(?P<what2>(?!allergy\b)[\w\-]+(?:\s+[\w\-]+)?)\s+allergy\b)"
        ),
    ),
    Phrase(
        category="health",
        predicate="AVOIDS",
        splits=True,
        template=r"\bi\s+(?:really\s+)?(?:don['’]?t|do\s+not|can['’]?t|cannot|never|no\s+longer)\s+(?:eat|drink)\s+{things}",
    ),
    Phrase(
        category="health",
        predicate="DOES_NOT_TOLERATE",
        template=r"{iam}(?P<neg>not\s+)?(?P<what>lactose|gluten|fructose|histamine)[\s-]+intolerant\b",
    ),
    Phrase(
        category="health",
        predicate="EATS",
        single=True,
        template=r"{iam}(?P<neg>not\s+|no\s+longer\s+)?(?:an?\s+)?(?P<what>vegan|vegetarian|pescatarian|gluten[\s-]free|kosher|halal)\b",
    ),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        template=r"\b(?:i|we)\s+(?P<neg>{not}\s+)?(?:now\s+|currently\s+|still\s+)?live\s+in\s+{thing}",
    ),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        template=r"{iam}(?P<neg>not\s+|no\s+longer\s+)?(?:now\s+|currently\s+)?(?:living|based)\s+in\s+{thing}",
    ),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        template=(
            r"\b(?:i|we)(?:['’]ve)?\s+(?:have\s+)?(?:just\s+|recently\s+)?moved\s+"
            r"(?:from\s+\w+\s+|here\s+)?to\s+{name}"
        ),
    ),
    Phrase(predicate="COMES_FROM", single=True, template=r"{iam}(?:originally\s+)?from\s+{name}"),
    Phrase(predicate="GREW_UP_IN", single=True, template=r"\bi\s+grew\s+up\s+in\s+{name}"),
    Phrase(predicate="WORKS_AS", single=True, template=r"\bi\s+work\s+as\s+(?:an?\s+)?{thing}"),
    Phrase(predicate="WORKS_AT", single=True, template=r"\bi\s+work\s+(?:at|for|in)\s+(?!as\b){thing}"),
    Phrase(
        predicate="IS_AGED",
        single=True,
        template=r"{iam}(?P<what>[1-9]\d?)(?:\s+years?\s+old)?(?=\s*(?:[.,!;]|$|and\b))",
    ),
    Phrase(
        predicate="HAS_BIRTHDAY_ON",
        single=True,
        template=r"\bmy\s+birthday(?:\s+is|['’]s)\s+(?:on\s+)?{thing}",
    ),
    Phrase(
        category="preference",
        predicate="LIKES",
        confidence=0.8,
        template=(
            r"\bi\s+(?:really\s+|absolutely\s+|always\s+)?(?:(?P<neg>hate|dislike|can['’]?t\s+stand|don['’]?t\s+"
            r"(?:really\s+)?(?:like|enjoy))|love|like|enjoy)\s+{thing}"
        ),
    ),
    Phrase(
        category="preference",
        predicate="PREFERS",
        confidence=0.8,
        template=r"\bi\s+(?:really\s+|always\s+|usually\s+)?prefer\s+{thing}",
    ),
    Phrase(
        category="preference",
        predicate="IS",
        single=True,
        subject="favourite {who}",
        template=r"\bmy\s+favou?rite\s+(?P<who>\w+(?:\s\w+)?)\s+is\s+{thing}",
    ),
    Phrase(
        category="concern",
        predicate="WORRIES_ABOUT",
        plain=False,
        confidence=0.7,
        template=r"(?:{iam}(?:so\s+|really\s+|very\s+)?(?:worried|anxious|nervous|scared)\s+about|\bi\s+worry\s+about)\s+{thing}",
    ),
    Phrase(
        category="goal",
        predicate="WANTS",
        plain=False,
        confidence=0.6,
        template=r"\b(?:my\s+goal\s+is\s+to|i\s+want\s+to|i['’]?m\s+trying\s+to)\s+{thing}",
    ),
    Phrase(
        category="self_belief",
        predicate="FEELS_LIKE",
        plain=False,
        confidence=0.5,
        template=(
            r"(?:{iam}|\bi\s+feel\s+(?:like\s+)?)(?:such\s+|so\s+|just\s+)?(?:an?\s+)?(?P<what>worthless|failure|useless|"
            r"stupid|idiot|loser|burden|unlovable|broken|ugly|hopeless|not\s+(?:good|smart|strong)\s+enough)\b"
        ),
    ),
)

OTHER_LANGUAGE_PHRASES = (
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        template=(
            r"(?:\bnenne?\s+mich|\bich\s+hei[ßs]+e|\bmein\s+name\s+ist|\bappelle[sz]?-moi|\bje\s+m['’]appelle|\bll[áa]mame|"
            r"\bme\s+llamo|\bchiamami|\bmi\s+chiamo|\bme\s+chame\s+de|\bnoem\s+me|\bik\s+heet)\s+(?:bitte\s+)?{name}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="bullet points",
        object="Answer without bullet points.",
        template=r"(?:\bkeine\s+(?:aufz[äa]hlung\w*|stichpunkte|listen)|\bpas\s+de\s+(?:listes?|puces)|\bsin\s+(?:vi[ñn]etas|listas)|\bsenza\s+elenchi)",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in German.",
        template=r"\b(?:antworte?|sprich|schreib)\b[^.!?]{{0,20}}\bauf\s+deutsch\b",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in French.",
        template=r"\b(?:r[ée]ponds|parle|[ée]cris)\b[^.!?]{{0,20}}\ben\s+fran[çc]ais\b",
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in Spanish.",
        template=r"\b(?:responde|habla|escribe)\b[^.!?]{{0,20}}\ben\s+espa[ñn]ol\b",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        template=r"\b(?:meine?|mein)\s+(?P<who>schwester|bruder|mutter|vater|hund|katze|frau|mann|freundin|freund)\s+hei[ßs]+t\s+{name}",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        template=r"\b(?:ma|mon)\s+(?P<who>s[œo]e?ur|fr[èe]re|m[èe]re|p[èe]re|chienn?e?|chatt?e?|femme|mari|amie?)\s+s['’]appelle\s+{name}",
    ),
    Phrase(
        category="relationship",
        subject="{who}",
        predicate="IS_CALLED",
        single=True,
        template=r"\bmi\s+(?P<who>hermana|hermano|madre|padre|perr[oa]|gat[oa]|mujer|marido|amig[oa])\s+se\s+llama\s+{name}",
    ),
    Phrase(
        category="health",
        predicate="IS_ALLERGIC_TO",
        splits=True,
        template=r"(?:\bich\s+bin\s+(?P<neg>nicht\s+|nicht\s+mehr\s+)?allergisch\s+(?:gegen|auf)|\bje\s+suis\s+allergique\s+(?:aux?|à\s+la|à\s+l['’]|à|a)|\bsoy\s+al[ée]rgic[oa]\s+al?|\bsono\s+allergic[oa]\s+(?:alle|agli|ai|alla|al|a))\s+(?:la\s+|los\s+|las\s+)?{things}",
    ),
    Phrase(
        predicate="LIVES_IN",
        single=True,
        template=r"(?:\bich\s+(?:wohne|lebe)\s+in|\bj['’]habite\s+(?:à|en|au)|\bvivo\s+(?:en|a))\s+{name}",
    ),
)

SINGLE_PREDICATES = frozenset(
    phrase.predicate for phrase in FACT_PHRASES if phrase.single and "{who}" not in phrase.subject
)
"""Predicates that have one object at a time, however it was noticed."""

REMEMBER_PHRASES = (
    Phrase(
        predicate="ASKED_TO_REMEMBER",
        template=(
            r"{start}{polite}(?:remember|note|keep\s+in\s+mind|bear\s+in\s+mind|make\s+a\s+note|(?:don['’]?t|never)\s+forget)"
            r"(?:\s+that\s+|\s*:\s*|\s+)(?=(?:i|i['’]\w+|my|we|our)\b){whole}"
        ),
    ),
)
"""Requests to remember anything; used where no pattern above fits better."""


RULE_PHRASES = (
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        template=(
            r"(?:{start}{polite}|\byou\s+(?:can|may|could)\s+(?:just\s+)?|\bi(?:['’]d|\s+would)\s+like\s+you\s+to\s+)"
            r"call\s+me\s+{name}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        template=(
            r"(?:\bi(?:['’]d|\s+would)?\s+(?:prefer\s+to|rather|like\s+to)\s+be\s+called"
            r"|{start}{polite}(?:refer\s+to|address)\s+me\s+as|{start}{polite}use\s+the\s+name)\s+{name}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        template=r"{start}{polite}call\s+me\s+(?P<what>[a-z]{{2,20}})(?=\s*(?:[.!,]|$))",
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        template=r"(?:^|[,;!]\s*|\bmy\s+)name(?:\s+is|['’]s)\s+(?:actually\s+|really\s+)?{name}",
    ),
    Phrase(kind="rule", subject="name", object="Call the user {what}.", template=r"\bi\s+go\s+by\s+{name}"),
    Phrase(
        kind="rule",
        subject="not called {what}",
        object="Do not call the user {what}.",
        template=r"{start}{polite}(?:don['’]?t|do\s+not|stop|never)\s+call(?:ing)?\s+me\s+{thing}",
    ),
    Phrase(
        kind="rule",
        subject="pronouns",
        object="The user's pronouns are {what}.",
        template=(
            r"(?:\bmy\s+pronouns(?:\s+are\s+|\s*:\s*)|\bi\s+(?:use|go\s+by)\s+)"
            r"(?P<what>(?:\w+\s*/\s*\w+(?:\s*/\s*\w+){{0,2}}|(?<=are\s)\w+))"
        ),
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Answer without {what}.",
        lower=True,
        template=(
            r"{start}{polite}(?:no(?:\s+more)?|less|fewer|(?:don['’]?t|do\s+not|never)\s+(?:use|give\s+me|send\s+me)|"
            r"stop\s+(?:using|with|giving\s+me|sending\s+me)(?:\s+the)?|avoid|skip(?:\s+the)?|"
            r"leave\s+out(?:\s+the)?|without)\s+(?:any\s+|so\s+many\s+|so\s+much\s+)?{style}{end}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Answer without {what}.",
        lower=True,
        template=r"\bi\s+(?:really\s+)?(?:hate|dislike|can['’]?t\s+stand|don['’]?t\s+(?:like|want|need))\s+(?:the\s+|any\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Use {what}.",
        lower=True,
        template=r"(?:{start}{polite}(?:use|give\s+me)|\bi(?:['’]d|\s+would)?\s+prefer)\s+(?:more\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        template=r"{start}{polite}(?:always\s+)?keep\s+{answers}\s+{manner}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Be {what}.",
        lower=True,
        template=r"{start}{polite}(?:always\s+)?be\s+(?:more\s+|very\s+|really\s+)?{manner}(?:\s+with\s+me)?",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        template=r"\bi(?:['’]?d)?\s+(?:prefer|like|want|would\s+like)\s+{manner}\s+(?:answers|replies|responses|messages)",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        template=(
            r"(?:^|[,:;]\s*|\bplease\s+){manner}\s+(?:answers|replies|responses|messages)"
            r"(?=\s*[.!]?$|\s*,?\s*(?:please|pls|from\s+now\s+on)\b|\s+(?:are|work)\s+(?:better|best|easier)\b)"
        ),
    ),
    Phrase(
        kind="rule",
        subject="not {what}",
        object="Do not be {what}.",
        lower=True,
        template=r"{start}{polite}(?:don['’]?t|do\s+not|stop)\s+be(?:ing)?\s+(?:so\s+|too\s+)?{manner}{end}",
    ),
    Phrase(
        kind="rule",
        subject="length",
        object="Answer in {what}.",
        template=(
            r"{start}{polite}(?:keep\s+{answers}\s+(?:to|under|below|within)|(?:answer|reply)(?:\s+me)?\s+in)\s+{length}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="questions",
        object="Ask fewer questions.",
        template=(
            r"{start}{polite}(?:don['’]?t|do\s+not|stop)\s+ask(?:ing)?\s+(?:me\s+)?"
            r"(?:so\s+many\s+|too\s+many\s+|any\s+)?questions{end}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in {what}.",
        template=(
            r"{start}{polite}(?:(?:answer|reply|respond|speak|write|talk)(?:\s+(?:to\s+me|with\s+me|back))?\s+in|speak|write)"
            r"\s+{language}{end}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="topic {what}",
        object="Do not bring up {what}.",
        template=(
            r"{start}{polite}(?:don['’]?t|do\s+not|never|stop)\s+(?:ask(?:ing)?\s+(?:me\s+)?about|mention(?:ing)?|"
            r"bring(?:ing)?\s+up|talk(?:ing)?\s+about)\s+{thing}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="topic {what}",
        object="Do not bring up {what}.",
        plain=False,
        template=(
            r"(?:\bi\s+(?:really\s+)?(?:don['’]?t|do\s+not)\s+want\s+to|\bi(?:['’]d|\s+would)\s+rather\s+not"
            r"|{start}let['’]?s\s+not)\s+(?:talk|speak|hear)\s+about\s+{thing}"
        ),
    ),
)
