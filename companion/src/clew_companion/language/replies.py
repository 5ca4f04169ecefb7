"""The meaning of short answers: yes, no, stop. Understood without a model."""

import re

from clew_companion.language.phrases import is_saying

YES = re.compile(
    r"\W*(?:(?:oh|well|um+|hm+|please|and)\W+)*"
    r"(?:y|yes+|yeah|yep|yup|sure|ok|okay|of\s+course|absolutely|definitely|alright|all\s+right|confirm(?:ed)?|"
    r"ja|jawohl|gerne?|oui|d['’]accord|s[íi]|claro|sim|tak|evet)\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
AGREEMENT = re.compile(
    r"\W*(?:(?:oh|well|um+|hm+|and)\W+)*"
    r"(?:please(?:\s+do)?|do\s+(?:it|that)|go\s+(?:ahead|on)|let['’]?s(?:\s+(?:do|try|go|begin|start)(?:\s+(?:it|that))?)?|"
    r"sounds\s+good|i(?:['’]d|\s+would)\s+(?:like|love)\s+(?:to|that)|i\s+am(?:\s+ready)?|i['’]?m\s+(?:ready|here|sitting)|"
    r"ready|why\s+not|k|va\s+bene|done|i\s+(?:have|did|do))\W*",
    re.IGNORECASE,
)
NO = re.compile(
    r"\W*(?:(?:oh|well|ok(?:ay)?|um+|hm+|actually|please)\W+)*"
    r"(?:n|no+|nope|nah|not?\s+(?:now|yet|really|today|thanks?|thank\s+you)|never(?:\s*mind)?|don['’]?t|"
    r"do\s+not|cancel|stop|"
    r"leave\s+it|keep\s+(?:it|them|that)|rather\s+not|i(?:['’]d|\s+would)\s+rather\s+not|wait|"
    r"nein|lieber\s+nicht|non|n[ãa]o|nie|nee|hay[ıi]r)"
    r"(?P<rest>\W.*)?",
    re.IGNORECASE | re.DOTALL,
)
OBJECTION = re.compile(
    r"\b(?:but|not|no|don['’]?t|wait|except|only|instead|rather|aber|nicht|pero|mais|maar|niet|ale|mas|ama)\b",
    re.IGNORECASE,
)
LONGEST_YES = 7
"""A longer answer says more than yes."""

LEAVE = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|please|sorry|no|actually|can\s+we|could\s+we|let['’]?s|i\s+(?:want|need)\s+to|"
    r"i(?:['’]d|\s+would)"
    r"\s+(?:like|rather|prefer)(?:\s+to)?)\W+)*"
    r"(?:(?:stop|quit|exit|leave|end|enough|cancel|finish|no\s+more|give\s+up)"
    r"(?=\W*$|[.!,]\s|\s+(?:this|it|here|now|please|the\s+exercise|doing|for\s+(?:now|today)|with)\b)|"
    r"that['’]?s\s+enough|"
    r"(?:do|try|talk\s+about)\s+something\s+else|not\s+(?:do|doing)\s+this|(?:don['’]?t|"
    r"do\s+not)\s+want\s+(?:to\s+)?"
    r"(?:do\s+)?(?:this|it|continue|go\s+on)|just\s+talk|(?:this|it)\s+(?:is\s+not|isn['’]?t)\s+(?:working|"
    r"helping))\b",
    re.IGNORECASE,
)
DISLIKE = re.compile(
    r"\bi\s+(?:don['’]?t|do\s+not|can['’]?t|cannot)\s+(?:want|like|do)\s+(?:to\s+)?(?:(?:do|continue|"
    r"go\s+on\s+with)\s+)?"
    r"(?:this|it|the\s+exercise|any\s?more)\b|\b(?:makes?|making)\s+(?:it|me|things)\s+(?:feel\s+)?worse\b",
    re.IGNORECASE,
)
POSTPONEMENT = re.compile(
    r"^\W*(?:can|could|may|shall)\s+(?:i|we)\s+(?:please\s+)?(?:do|finish|continue|go\s+on\s+with)\s+"
    r"(?:it|this|that|the\s+rest)\s+(?:later|another\s+time|some\s+other\s+time|tomorrow)\b|^\W*(?:maybe\s+)?later\W*$",
    re.IGNORECASE,
)
SKIP = re.compile(
    r"^\W*(?:(?:please|can\s+we|let['’]?s|i\s+want\s+to)\s+)?"
    r"(?:skip|next|pass|move\s+on|go\s+on|continue|carry\s+on|keep\s+going)\b.{0,30}$",
    re.IGNORECASE,
)
QUESTION_START = re.compile(
    r"^\W*(?:(?:wait|sorry|ok(?:ay)?|and|but|so|hm+|um+)\W+)*"
    r"(?:what|why|how|which|where|when|who|can|could|should|do|does|is|are|am|will|would|may)\b",
    re.IGNORECASE,
)
LONGEST_QUESTION = 30
LAST_SESSION_QUESTION = re.compile(
    r"^(?=.*\b(?:last\s+(?:time|session|week|conversation|chat|talk)|(?:previous|earlier)\s+(?:session|conversation|"
    r"talk|chat)|the\s+other\s+day|yesterday|when\s+we\s+last)\b)"
    r"(?=.*\b(?:(?:did|have|were)\s+we|we\s+(?:talk|spoke|spoken|discuss|stopp|left)\w*|"
    r"(?:did|had|have)\s+i\s+(?:tell|told|say|said|mention\w*)|(?:you|still)\s+(?:remember|know|recall)|remind\s+me|"
    r"was\s+it\s+about)\b)(?=.*\?)",
    re.IGNORECASE | re.DOTALL,
)
"""A question about what was spoken about another time."""


def is_yes(message: str) -> bool:
    """Return whether a message agrees, and says nothing against it."""
    if AGREEMENT.fullmatch(message) or is_saying(message, "yes"):
        return True
    match = YES.fullmatch(message)
    if match is None or len(message.split()) > LONGEST_YES or "?" in message:
        return False
    return not OBJECTION.search(match["rest"])


def is_no(message: str) -> bool:
    """Return whether a message declines."""
    return NO.fullmatch(message) is not None or is_saying(message, "no")


def is_leaving(message: str) -> bool:
    """Return whether the person wants to leave what is under way."""
    ways = (LEAVE, DISLIKE, POSTPONEMENT)
    return any(way.search(message) for way in ways) or is_saying(message, "leave")


def is_skipping(message: str) -> bool:
    """Return whether the person wants to go on without an answer."""
    return SKIP.match(message) is not None or is_saying(message, "skip")


def is_question(message: str) -> bool:
    """Return whether a message asks something and is no answer."""
    if len(message.split()) > LONGEST_QUESTION or "?" not in message:
        return False
    return QUESTION_START.match(message) is not None or message.rstrip().endswith("?")


def asks_about_last_session(message: str) -> bool:
    """Return whether a message asks what was spoken about in an earlier session."""
    is_short = len(message.split()) <= LONGEST_QUESTION
    return is_short and LAST_SESSION_QUESTION.search(message) is not None
