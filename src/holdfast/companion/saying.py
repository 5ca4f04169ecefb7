"""What short answers mean: yes, no, stop. Understood without a model."""

import re

YES = re.compile(
    r"\W*(?:(?:oh|well|ok(?:ay)?|um+|hm+|please|and)\W+)*"
    r"(?:y|yes+|yeah|yep|yup|sure|ok|okay|k|of\s+course|please(?:\s+do)?|do\s+it|go\s+ahead|go\s+on|confirm(?:ed)?|"
    r"absolutely|definitely|alright|all\s+right|let['’]?s(?:\s+(?:do|try|go|begin|start)(?:\s+(?:it|that))?)?|sounds\s+good|"
    r"i(?:['’]d|\s+would)\s+(?:like|love)\s+(?:to|that)|i\s+am|i['’]?m\s+ready|ready|why\s+not|"
    r"ja|jawohl|gerne?|oui|d['’]accord|s[íi]|claro|sim|tak|evet|va\s+bene)"
    r"(?P<rest>\W.*)?",
    re.IGNORECASE | re.DOTALL,
)
NO = re.compile(
    r"\W*(?:(?:oh|well|ok(?:ay)?|um+|hm+|actually|please)\W+)*"
    r"(?:n|no+|nope|nah|not?\s+(?:now|yet|really|today|thanks?|thank\s+you)|never(?:\s*mind)?|don['’]?t|do\s+not|cancel|stop|"
    r"leave\s+it|keep\s+(?:it|them|that)|rather\s+not|i(?:['’]d|\s+would)\s+rather\s+not|wait|"
    r"nein|lieber\s+nicht|non|n[ãa]o|nie|nee|hay[ıi]r)"
    r"(?P<rest>\W.*)?",
    re.IGNORECASE | re.DOTALL,
)
BUT = re.compile(r"\b(?:but|not|no|don['’]?t|wait|except|only|instead|rather)\b", re.IGNORECASE)
LONGEST_YES = 8
"""A longer answer says more than yes."""

LEAVING = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|please|sorry|no|actually|can\s+we|could\s+we|let['’]?s|i\s+(?:want|need)\s+to|i(?:['’]d|\s+would)"
    r"\s+(?:like|rather|prefer)(?:\s+to)?)\W+)*"
    r"(?:stop|quit|exit|leave|end|skip|enough|cancel|finish|that['’]?s\s+enough|no\s+more|give\s+up|"
    r"(?:do|try|talk\s+about)\s+something\s+else|not\s+(?:do|doing)\s+this|(?:don['’]?t|do\s+not)\s+want\s+(?:to\s+)?"
    r"(?:do\s+)?(?:this|it|continue|go\s+on)|just\s+talk|(?:this|it)\s+(?:is\s+not|isn['’]?t)\s+(?:working|helping))\b",
    re.IGNORECASE,
)
DISLIKING = re.compile(
    r"\bi\s+(?:don['’]?t|do\s+not|can['’]?t|cannot)\s+(?:want|like|do)\s+(?:to\s+)?(?:(?:do|continue|go\s+on\s+with)\s+)?"
    r"(?:this|it|the\s+exercise|any\s?more)\b|\b(?:makes?|making)\s+(?:it|me|things)\s+(?:feel\s+)?worse\b",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"^\W*(?:(?:wait|sorry|ok(?:ay)?|and|but|so|hm+|um+)\W+)*"
    r"(?:what|why|how|which|where|when|who|can|could|should|do|does|is|are|am|will|would|may)\b",
    re.IGNORECASE,
)
LONGEST_QUESTION = 30


def is_yes(message: str) -> bool:
    """Whether a message agrees, and says nothing against it."""
    found = YES.fullmatch(message)
    if found is None or len(message.split()) > LONGEST_YES:
        return False
    return not BUT.search(found["rest"] or "")


def is_no(message: str) -> bool:
    """Whether a message declines."""
    return NO.fullmatch(message) is not None


def is_leaving(message: str) -> bool:
    """Whether somebody wants to leave what is under way."""
    return bool(LEAVING.search(message) or DISLIKING.search(message))


def is_question(message: str) -> bool:
    """Whether a message asks something and is no answer."""
    if len(message.split()) > LONGEST_QUESTION or "?" not in message:
        return False
    return ASKING.match(message) is not None or message.rstrip().endswith("?")
