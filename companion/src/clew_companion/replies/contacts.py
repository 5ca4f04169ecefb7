"""Ways to reach a person in a sentence: a telephone number, a short code, an address.

Models make such things up. So a number of three digits is one to call unless its shape or the word after it
marks it as one of every day: a time, a price, a year, a range, the rhythm of a breath. Losing a sentence is
the lesser harm. The words are those of the nine languages of the fixed wordings.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

ADDRESS = re.compile(
    r"(?i:https?\s*:|\bwww\b|\w\.(?:org|com|net)\b)|\S@[\w-]+\s?\.|(?<!\w)@\w{3,}"
    r"|\w\w\.(?:[a-z]{2,}|[A-Z]{2,})\b|\w\.[a-z]{2,}/\w"
    r"|(?i:\s\(?(?:dot|punkt|punto|point|punt|kropka|ponto|nokta)\)?\s"
    r"(?:org|com|net|info|help|health|care|gov|io|co|eu|uk)\b)"
    r"|\b(?i:punkt)\s(?:de|at|ch)\b"
)
_CALL_WORDS = (
    r"call(?!\s(?:it|this|that)\b)|dial|tel|text|ring|phone|sms|whatsapp|reach|contact"
    r"|ruf|rufe|rufen|wähl|wähle|wählen|anrufen|erreich\w*"
    r"|llam\w*|marca|marcar|marque|telefon\w*|appel\w*|compos\w*|joign\w*|joindre|contact\w*|téléphon\w*"
    r"|chiam\w*|compon\w*|digita\w*|bel|bellen|belt|zadzwo\w*|dzwo\w*|wybierz|zatelefon\w*|wykręć"
    r"|liga|ligar|ligue|ligu\w*|disque|discar|ara|aray\w*|arama\w*|tuşla\w*|çevir\w*"
    r"|numbers?|\w*nummer|n[uú]mero|numéro|numer|numara\w*|\w*(?:hot|help|life)line|samu"
)
CALL_WORD = re.compile(rf"\b(?:{_CALL_WORDS})\b", re.IGNORECASE)
_CALL_LEAD = (
    rf"\b(?:{_CALL_WORDS})\b[\s:,(]*(?:(?:the|number|die|den|der|nummer|al|el|número|le|les|numéro|il|lo|"
    r"numero|het|na|pod|numer|para|o|a|au|us|them|now|is|ist)[\s:,(]+){0,3}"
)
CALL_NUMBER = re.compile(rf"{_CALL_LEAD}\d(?:[\s.-]?\d)+(?![\d:])", re.IGNORECASE)
LONG_CALL_NUMBER = re.compile(
    rf"(?:{_CALL_LEAD}|\b(?:text|sms)\s\w+\sto\s)\d(?:[\s.-]?\d){{2,}}(?![\d:])", re.IGNORECASE
)
"""Too long for a time or a few of something: one to call, whatever word comes after it."""
DAY_AND_NIGHT = re.compile(
    r"\b(?:day\s(?:or|and|&)\snight|night\s(?:or|and|&)\sday|tag\s(?:und|&)\snacht|d[ií]a\sy\snoche|jour\set\snuit|"
    r"nuit\set\sjour|giorno\se\snotte|notte\se\sgiorno|dag\sen\snacht|dzień\si\snoc|dia\se\snoite|gece\sgündüz)\b",
    re.IGNORECASE,
)
"""No days and nights that a number before them counts."""
_UNITS = (
    r"%|°|€|\$|£|h\b|min\b|sec\b|s\b|[km]g\b|km\b|kcal|m\b|cm\b|bpm\b|beats\b|"
    r"(?:more |other |different |long |whole |full |small |tiny |good |deep |slow |weitere |volle |"
    r"lange )?(?:"
    r"percent|prozent|procent\w*|por ?ciento|pour ?cent|per ?cento|por ?cento|yüzde|second|minut|hour|day|"
    r"night|week|"
    r"month|year|time|people|person|step|page|word|breath|thing|reason|problem|mile|meter|metre|kilo|pound|"
    r"euro|dollar|"
    r"degree|calor|point|friend|kid|student|colleague|photo|mail|message|"
    r"sekund|stunde|tag|nächt|nacht|woche|monat|jahr|uhr|mal|mensch|leute|schritt|seite|wort|wörter|atem|"
    r"grund|gründe|"
    r"segundo|hora|día|dia|noche|semana|mes|año|ano|vece|vez|persona|paso|página|palabra|razon|"
    r"seconde|heure|jour|nuit|semaine|mois|an\b|ans\b|année|fois|gens|personne|pas\b|mot|raison|"
    r"second[oi]|ora\b|ore\b|giorn|notte|notti|settiman|mes[ei]|ann[oi]|volt[ae]|passi|pagin|parol|ragion|"
    r"uur|uren|dag|nacht|weken|maand|jaar|keer|mensen|stappen|pagina|woord|reden|"
    r"godzin|dni|dzień|nocy|tydzie|tygodni|miesi|lat\b|rok|razy|raz\b|osób|os[oó]b|krok|stron|słów|powod|"
    r"minuto|noite|mês|vezes|pessoa|passo|palavra|razõ|"
    r"saniye|dakika|saat|gün|gece|hafta|ay\b|yıl|kez|kere|kişi|adım|sayfa|kelime|neden)"
)
ORDINARY_NUMBER = re.compile(
    rf"(?<![\d.,])\d{{1,9}}(?:[.,]\d{{1,3}}){{0,3}}(?:st|nd|rd|th)?[\s-]?(?:{_UNITS})"
    r"|\b\d{1,2}(?:[:.]\d{2})?\s?(?:[ap]\.?\s?m\b\.?|o['’]clock|uhr\b|h\d{0,2}\b)|\b\d{1,2}:\d{2}\b"
    r"|\b(?:at|um|à|alle|om|às)\s\d{1,2}\.\d{2}\b"
    r"|(?<![\d/])\d{1,3}/\d{1,2}(?![\d/])|\b0[.,]\d{1,2}\b|[$€£]\s?\d+(?:[.,]\d+)*"
    r"|\b\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d\b|\b(?:19|20)\d\d-\d\d-\d\d\b"
    r"|\b(?:in|since|until|im|seit|en|depuis|desde|em|nel|dal|sinds|od|w|\d\d?\.?\s\w{3,9})\s"
    r"(?:18|19|20)\d\d\b"
    r"|\b[1-9]\d{0,2}(?:,\d{3})+\b",
    re.IGNORECASE,
)
LOOSE_NUMBER = re.compile(
    r"(?<![\d+])(?<!\d[\s.()-])(?:"
    r"(?:19|20)\d\d(?:\s?[-/]\s?(?:19|20)?\d\d)?|[1-9]\d{0,2}(?:[.\s]\d{3})*[.\s]\d00|[1-9]\d?0{2,}"
    r"|\d{1,2}[-.]\d{1,2}|\d{1,4}\s(?:to|of|auf|bis|von|à|a|de|di|naar|tot|van|do|z|para)\s\d{1,4}"
    r"|(?<=page\s)\d{3})(?![\s.()-]{0,2}\d)",
    re.IGNORECASE,
)
"""Years, round numbers, ranges, scores: ordinary unless the talk is of calling."""
DIGIT_GROUPS = re.compile(r"\+?\(?\d(?:[\s().\-]{0,2}\d)*")
LETTER_NUMBER = re.compile(r"\b\d{3,4}[\s-](?:\d{2,4}[\s-])?[A-Z]{4,}\b")
HELP_NUMBERS = frozenset({"000", "024", "112", "113", "116", "911", "988", "999", "3114"})
"""Short numbers that mean help, whatever is beside them."""
LEAST_DIGITS = 3
"""From how many digits on a number is one to call, unless something marks it as ordinary."""
MOST_BREATH_DIGITS = 4
"""How many single digits the rhythm of a breath has at most."""
_NUMBER_WORDS = (
    "zero|oh|null|cero|zéro|nul|sıfır one|eins|uno|una|un|een|één|jeden|um|bir two|zwei|zwo|dos|deux|due|"
    "twee|dwa|"
    "dois|iki three|drei|tres|trois|tre|drie|trzy|três|üç four|vier|cuatro|quatre|quattro|cztery|quatro|dört "
    "five|fünf|cinco|cinq|cinque|vijf|pięć|beş six|sechs|seis|sei|zes|sześć|meia|altı seven|sieben|siete|"
    "sept|"
    "sette|zeven|siedem|sete|yedi eight|acht|ocho|huit|otto|osiem|oito|sekiz nine|neun|nueve|neuf|nove|negen|"
    "dziewięć|dokuz ten|zehn|diez|dix|dieci|tien|dez eleven|elf|onze|undici|jedenaście twelve|zwölf|doce|"
    "douze|"
    "dodici|twaalf|dwanaście|doze thirteen|dreizehn|trece|treize|tredici|dertien|trzynaście|treze "
    "fourteen|vierzehn|catorce|quatorze|quattordici|veertien|czternaście|catorze"
)
DIGITS = {word: str(value) for value, words in enumerate(_NUMBER_WORDS.split()) for word in words.split("|")}
_DIGIT_WORD = "|".join(sorted(DIGITS, key=len, reverse=True))
NUMBER_IN_WORDS = re.compile(
    rf"\b(?:{_DIGIT_WORD}|\d)(?:[\s,.–-]{{1,3}}(?:{_DIGIT_WORD}|\d)){{2,}}\b", re.IGNORECASE
)
SHORT_NUMBER_NAME = re.compile(
    r"\b(?:triple[ -](?:zero|nine|o|oh)|"
    r"one[ -]twelve|(?:ein)?hundert(?:und)?zwölf|ciento doce|cent douze|centododici|honderdtwaalf|"
    r"sto dwanaście|cento e doze|yüz on iki|nine[ -]eleven|one[ -]sixteen|trente[ -]et[ -]un[ -]quatorze)\b",
    re.IGNORECASE,
)


def gives_contact(sentence: str, before: str = "") -> bool:
    """Return whether a sentence gives a number to call or an address, read after the one before it."""
    text = plain_text(sentence)
    if ADDRESS.search(text) or LETTER_NUMBER.search(text):
        return True
    is_calling = bool(CALL_WORD.search(f"{plain_text(before)} {text}"))
    if is_calling and SHORT_NUMBER_NAME.search(text):
        return True
    in_digits = DAY_AND_NIGHT.sub("·", NUMBER_IN_WORDS.sub(_in_digits, text))
    rest = ORDINARY_NUMBER.sub(" · ", in_digits)
    if LONG_CALL_NUMBER.search(in_digits) or CALL_NUMBER.search(rest):
        return True
    groups = DIGIT_GROUPS.findall(rest if is_calling else LOOSE_NUMBER.sub(" · ", rest))
    return any(_is_to_call(group, is_calling=is_calling) for group in groups)


def addresses(text: str) -> Iterator[str]:
    """The words of a text that are addresses."""
    for word in text.split():
        if ADDRESS.search(word):
            yield word.strip(".,;:!?()[]<>\"'“”").lower()


def numbers(text: str) -> set[str]:
    """The numbers of a text, each with its groups put together."""
    rest = NUMBER_IN_WORDS.sub(_in_digits, plain_text(text))
    return {_digits(group) for group in DIGIT_GROUPS.findall(rest)}


def continues_number(piece: str, rest: str) -> bool:
    """Return whether a piece ends in a number that the next may continue, or is only the number of a line."""
    words = re.findall(r"\w+", piece)
    if not words or not words[-1].isdigit():
        return bool(words) and words[-1].lower() in DIGITS
    return rest[:1].isdigit() or len(words) == 1


def plain_text(text: str) -> str:
    """A text without marks and forms that only change how it looks."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(mark for mark in normal if unicodedata.category(mark) not in ("Cf", "Me", "Mn"))
    return re.sub("[‐‑‒–—]", "-", re.sub(r"[*`]", "", visible).replace("_", " "))


def _in_digits(match: re.Match[str]) -> str:
    return " ".join(DIGITS.get(word, word) for word in re.findall(r"\w+", match[0].lower()))


def _is_to_call(group: str, *, is_calling: bool) -> bool:
    """Return whether a number without an ordinary context is no count and no rhythm of a breath."""
    digits, parts = _digits(group), re.findall(r"\d+", group)
    if len(digits) < LEAST_DIGITS or _is_counting(parts):
        return False
    if digits in HELP_NUMBERS:
        return True
    if len(parts) >= LEAST_DIGITS and len(set(parts)) == 1:
        return False  # in for four, hold for four
    return is_calling or not (len(digits) == len(parts) <= MOST_BREATH_DIGITS and "0" not in parts)


def _is_counting(parts: Sequence[str]) -> bool:
    """Return whether numbers only count up or down."""
    steps = {int(later) - int(former) for former, later in pairwise(parts)}
    return len(parts) >= LEAST_DIGITS and len(steps) == 1 and 0 not in steps


def _digits(group: str) -> str:
    return "".join(re.findall(r"\d", group))
