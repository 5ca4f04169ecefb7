"""Words that a query is not about: articles, pronouns and the like, of a few languages, folded."""

_ENGLISH = (
    "a an the and or but if so of in on at to for from by with about as into over under is are was "
    "were be been am do does did have has had can could will would should shall may might must not no "
    "nor i me my mine we us our you your he him his she her it its they them their this that these "
    "those there here what which who whom whose when where why how any some all just too very really "
    "also than then now s t m re ve ll d don "
)
_OTHERS = (
    "der die das ein eine einer einen und oder aber ist sind war ich mich mir mein meine du dich dir "
    "dein er sie es wir ihr nicht kein keine was wer wie wo wann warum auf mit von zu im am den dem "
    "des fur bin hat habe le la les un une des et ou mais est sont je me moi mon ma mes tu te ton il "
    "elle nous vous ne pas que qui quoi ou quand comment pour dans sur avec de du au aux ce cette ai "
    "as suis el los las una unos y o pero es son soy yo mi mis tu tus se no que quien como donde "
    "cuando por para con en del al "
)
FUNCTION_WORDS = frozenset(f"{_ENGLISH} {_OTHERS}".split())
