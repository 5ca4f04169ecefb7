"""How people state plainly how they want to be answered."""

from clew.runtime.memory.phrases import Phrase

RULES = (
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=(
            r"(?:{start}{polite}|\byou\s+(?:can|may|could)\s+(?:just\s+)?|\bi(?:['’]d|\s+would)\s+like\s+you\s+to\s+)"
            r"call\s+me\s+{name}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=(
            r"(?:\bi(?:['’]d|\s+would)?\s+(?:prefer\s+to|rather|like\s+to)\s+be\s+called"
            r"|{start}{polite}(?:refer\s+to|address)\s+me\s+as|{start}{polite}use\s+the\s+name)\s+{name}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=r"{start}{polite}call\s+me\s+(?P<what>[a-z]{{2,20}})(?=\s*(?:[.!,]|$))",
    ),
    Phrase(
        kind="rule",
        subject="name",
        object="Call the user {what}.",
        says=r"(?:^|[,;!]\s*|\bmy\s+)name(?:\s+is|['’]s)\s+(?:actually\s+|really\s+)?{name}",
    ),
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
        says=(
            r"(?:\bmy\s+pronouns(?:\s+are\s+|\s*:\s*)|\bi\s+(?:use|go\s+by)\s+)"
            r"(?P<what>(?:\w+\s*/\s*\w+(?:\s*/\s*\w+){{0,2}}|(?<=are\s)\w+))"
        ),
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Answer without {what}.",
        lower=True,
        says=(
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
        says=r"\bi\s+(?:really\s+)?(?:hate|dislike|can['’]?t\s+stand|don['’]?t\s+(?:like|want|need))\s+(?:the\s+|any\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="{what}",
        object="Use {what}.",
        lower=True,
        says=r"(?:{start}{polite}(?:use|give\s+me)|\bi(?:['’]d|\s+would)?\s+prefer)\s+(?:more\s+)?{style}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        says=r"{start}{polite}(?:always\s+)?keep\s+{answers}\s+{manner}",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Be {what}.",
        lower=True,
        says=r"{start}{polite}(?:always\s+)?be\s+(?:more\s+|very\s+|really\s+)?{manner}(?:\s+with\s+me)?",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        says=r"\bi(?:['’]?d)?\s+(?:prefer|like|want|would\s+like)\s+{manner}\s+(?:answers|replies|responses|messages)",
    ),
    Phrase(
        kind="rule",
        subject="manner",
        object="Keep answers {what}.",
        lower=True,
        says=(
            r"(?:^|[,:;]\s*|\bplease\s+){manner}\s+(?:answers|replies|responses|messages)"
            r"(?=\s*[.!]?$|\s*,?\s*(?:please|pls|from\s+now\s+on)\b|\s+(?:are|work)\s+(?:better|best|easier)\b)"
        ),
    ),
    Phrase(
        kind="rule",
        subject="not {what}",
        object="Do not be {what}.",
        lower=True,
        says=r"{start}{polite}(?:don['’]?t|do\s+not|stop)\s+be(?:ing)?\s+(?:so\s+|too\s+)?{manner}{end}",
    ),
    Phrase(
        kind="rule",
        subject="length",
        object="Answer in {what}.",
        says=(
            r"{start}{polite}(?:keep\s+{answers}\s+(?:to|under|below|within)|(?:answer|reply)(?:\s+me)?\s+in)\s+{length}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="questions",
        object="Ask fewer questions.",
        says=(
            r"{start}{polite}(?:don['’]?t|do\s+not|stop)\s+ask(?:ing)?\s+(?:me\s+)?"
            r"(?:so\s+many\s+|too\s+many\s+|any\s+)?questions{end}"
        ),
    ),
    Phrase(
        kind="rule",
        subject="language",
        object="Answer in {what}.",
        says=(
            r"{start}{polite}(?:(?:answer|reply|respond|speak|write|talk)(?:\s+(?:to\s+me|with\s+me|back))?\s+in|speak|write)"
            r"\s+{language}{end}"
        ),
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
    Phrase(
        kind="rule",
        subject="topic {what}",
        object="Do not bring up {what}.",
        plain=False,
        says=(
            r"(?:\bi\s+(?:really\s+)?(?:don['’]?t|do\s+not)\s+want\s+to|\bi(?:['’]d|\s+would)\s+rather\s+not"
            r"|{start}let['’]?s\s+not)\s+(?:talk|speak|hear)\s+about\s+{thing}"
        ),
    ),
)
