"""Which migrations to run: decided here, purely; run by each store."""

import re
from collections.abc import Mapping

from clew.core.errors import NewerFormat

_NUMBERED = re.compile(r"^(\d{4})_\w+\.sql$")


def numbered(files: Mapping[str, str]) -> dict[int, str]:
    """The migrations among some files, by number, in order."""
    found = {int(match[1]): text for name, text in files.items() if (match := _NUMBERED.match(name))}
    return dict(sorted(found.items()))


def pending(found: int, known: Mapping[int, str], store: str) -> dict[int, str]:
    """What is left to run on a database at this number.

    Raises:
        NewerFormat: The database was written by a newer release.
    """
    newest = max(known)
    if found > newest:
        raise NewerFormat(store=store, found=found, known=newest)
    return {number: text for number, text in known.items() if number > found}
