"""Phrases that no reply may have, in the eight other languages: diagnoses, medication, poses."""

import re

_ILLNESS = (
    r"(?:d[eé]press\w*|depres(?:i[oó]n|iv|j|yon)\w*|bipol\w*|schi[sz]o\w*|esquizo\w*|borderline|ad[hd]?[ds]\b|"
    r"tdah?\b|dehb\b|pts[ds]\b|ptbs\b|tept\b|tssb\b|sspt\b|anore[kxs]\w*|bulimi\w*|psychos\w*|psychoz\w*|"
    r"psicos\w*|autis\w*|(?:\w+s|angst|ess|panik|schlaf|psychische\s)störung\w*|trastorno\w*|troubles?\b|disturb[oi]\b|\w*stoornis\w*|zaburze\w*|"
    r"transtorno\w*|perturbaç\w*|\w+\sbozukluğu\w*)"
)
_MEDICINE = (
    r"(?:medikament\w*|tablett\w*|pillen?\b|dos[ei]\w*|antidepr\w*|medica\w*|pastillas?\b|médicament\w*|"
    r"comprim\w*|farmac\w*|medicin\w*|pillole\b|medicijn\w*|lek(?:i|ów)\b|tabletk\w*|dawk\w*|remédio\w*|"
    r"ila[çc]\w*|hap(?:ını|larını)?\b|\d+\s?mg\b)"
)
_HELPER = (
    r"(?:(?:ps[iy](?:ch|c|k)o)?th?[eé]rap[eé]ut\w*|terapist\w*|ps[iy](?:ch|c|k)[oó]lo(?:g(?:e|in|o|a|ue|iem)?|og)\b|"
    r"ps[iy](?:ch|k|qu)iat(?:er(?:in)?|r[aeą])\b|arzt|ärztin|"
    r"m[eé]dic[oa]\b|médecin\b|dottor\w*|dokt[oe]?r\w*|arts\b|lekar\w*)"
)
_PERSON = r"(?:mensch|human\w*|persona|humain\w*|person(?:ne)?\b|persoon\b|umano|mens\b|człowiek\w*|pessoa)"
_NOT = r"(?<!no\s)(?<!non\s)(?<!nie\s)(?<!não\s)"
_SOME = r"(?:(?!mit\b|con\b|avec\b|met\b|com\b|z\b|geen\b|keine?\b)[\w’']+[\s’']+){0,2}?(?:d['’])?"


def _any_of(*ways: str) -> str:
    return rf"\b(?:{'|'.join(ways)})"


def _should(modal: str, change: str, take: str) -> str:
    """Advice to change what is taken, or to take it; not to change it is no such advice."""
    return rf"{_NOT}(?:{modal})\s(?:{change})|(?:{modal})\s(?:{take})"


DIAGNOSIS = re.compile(
    _any_of(
        r"du\s(?:hast|bist|leidest\s(?:an|unter))|sie\s(?:haben|leiden\s(?:an|unter))",
        r"das\s(?:ist|klingt\snach|sieht\saus\swie)",
        r"tienes|usted\stiene|padeces|sufres|(?:eso|esto)\s(?:es|parece|suena\sa)",
        r"tu\s(?:as|es|souffres)|vous\s(?:avez|êtes|souffrez)|c['’]est|(?:ça|cela)\sressemble\sà",
        r"hai|lei\s(?:ha|soffre\sdi)|soffri\sdi|sei|(?:questa|questo|quello|quella)\s(?:è|sembra)",
        r"(?:je|jij|u)\s(?:hebt|heeft|bent|lijdt\saan)|(?:dit|dat)\s(?:is|klinkt\sals|lijkt\sop)",
        r"masz|cierpisz\sna|ma\spani?|to\s(?:jest|wygląda\sna|brzmi\sjak)",
        r"(?:você|tu)\s(?:tem|tens|está|sofres?\sde)|tens|(?:isso|isto)\s(?:é|parece)",
        r"sende|bu(?:\sbir)?",
    )
    + rf"\s{_SOME}{_ILLNESS}|\b{_ILLNESS}(?:\s+var\b|\s+geçiriyorsun|(?<=d[ae]sın))",
    re.IGNORECASE,
)
MEDICATION_ADVICE = re.compile(
    _any_of(
        r"setze?|nimm|verdopp\w+|halbiere|reduziere|erhöhe|du\s(?:solltest|kannst|musst|könntest)",
        rf"{_NOT}dej(?:a|es)\sde\stomar|toma|tómate|duplica|reduce(?=\s(?:tus?|la)\s)|aumenta",
        _should(r"deberías|puedes|te\srecomiendo", r"dejar(?:\sde\stomar)?|reducir|aumentar", "tomar"),
        r"arrête(?!\spas\b)(?:\sde\sprendre)?|prends|double(?=\s(?:ta|tes|la)\s)|réduis|augmente",
        r"(?:tu\s(?:devrais|peux)|je\ste\sconseille\sde?)\s(?:arrêter(?:\sde\sprendre)?|prendre|réduire)",
        r"smetti\sdi\sprendere|prendi|raddoppia|riduci|aumenta",
        _should("dovresti|puoi", "smettere|ridurre", "prendere"),
        r"stop\smet|neem|verdubbel|verlaag|verhoog|je\s(?:moet|kunt|kan)(?:\sstoppen\smet)?",
        r"przestań\sbrać|odstaw|weź|zwiększ|zmniejsz|podwój",
        _should("powinieneś|powinnaś|możesz", "odstawić", "brać|wziąć"),
        rf"{_NOT}par[ea]\sde\stomar|tom[ea]|dobr[ea]|reduz[ia]?|aument[ea]",
        _should("deve|devia|pode", r"parar\sde\stomar", "tomar"),
    )
    + rf"(?:\s\w+){{0,2}}?\s{_MEDICINE}\b(?!\snicht\s(?:\w+\s)?(?:ab|weg|reduz|verd|halb|ohne))"
    + rf"|\b{_MEDICINE}\s(?:\w+\s)?(?:bırak|kes|al|artır|azalt)(?:malısın|abilirsin|)\b",
    re.IGNORECASE,
)
POSE = re.compile(
    _any_of(
        rf"ich\sbin\s(?:selbst\s)?(?:(?:eine?|deine?|ihre?)\s(?:\w+\s)?(?:{_HELPER}|{_PERSON})|{_HELPER})|als\s(?:deine?\s)?{_HELPER}",
        rf"{_NOT}soy\s(?:una?\s|tu\s|su\s)?(?:{_HELPER}|{_PERSON})|como\s(?:tu\s|su\s|una?\s|seu\s|teu\s|sua\s)?{_HELPER}",
        rf"je\ssuis\s(?:(?:une?|ton|ta|votre)\s(?:vraie?\s)?(?:{_HELPER}|{_PERSON})|{_HELPER})|en\stant\sque\s(?:ton\s)?{_HELPER}",
        rf"{_NOT}(?<!ci\s)sono\s(?:(?:un[ao]?|il\stuo|la\stua)\s(?:{_HELPER}|{_PERSON})|(?!\w+i\b){_HELPER})|come\s(?:tuo\s|tua\s)?{_HELPER}",
        rf"ik\sben\s(?:(?:een|je|uw)\s(?:\w+\s)?(?:{_HELPER}|{_PERSON})|{_HELPER})|als\s(?:je\s)?{_HELPER}",
        rf"{_NOT}jestem\s(?:twoim\s|twoją\s)?(?:{_HELPER}|{_PERSON})|jako\s(?:twój\s|twoja\s)?{_HELPER}",
        rf"{_NOT}sou\s(?:uma?\s|seu\s|sua\s|teu\s|tua\s)?(?:{_HELPER}|{_PERSON})",
        r"ben\s(?:bir\s|senin\s)?(?:terapist|doktor|psikolo[gğ]|insan)\w*[ıiuü]m\b",
    ),
    re.IGNORECASE,
)
