"""Migrations that are left to run: decided here, purely; run by each store."""

import re
from collections.abc import Mapping

from clew.core.errors import NewerFormat

_FILE_NAME = re.compile(r"^(\d{4})_\w+\.sql$")


def migrations_in(files: Mapping[str, str]) -> dict[int, str]:
    """The migrations among some files, by number, in order."""
    migrations = {int(match[1]): text for name, text in files.items() if (match := _FILE_NAME.match(name))}
    return dict(sorted(migrations.items()))


def pending_migrations(current: int, migrations: Mapping[int, str], store: str) -> dict[int, str]:
    """The migrations left to run on a database at this number.

    Raises:
        NewerFormat: The database was written by a newer release.
    """
    newest = max(migrations)
    if current > newest:
        raise NewerFormat(store=store, found=current, known=newest)
    return {number: text for number, text in migrations.items() if number > current}
