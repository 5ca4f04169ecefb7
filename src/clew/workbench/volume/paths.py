"""Paths of a volume: names that mean one file, and the same one, on every file system. Pure."""

import re
import unicodedata
from typing import Final

from clew.core.errors import VolumePathRefused

LONGEST_NAME: Final = 200
"""Bytes of one name in any Unicode form: room is left for what is put around it while it is written."""
LONGEST_PATH: Final = 1000
DEEPEST: Final = 32
FORBIDDEN: Final = frozenset('<>:"|?*\\')
DEVICE_NAME: Final = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?\Z", re.IGNORECASE
)
"""Names that are devices on Windows, with any ending."""
PART_NAME: Final = re.compile(r"\..*\.part\Z", re.DOTALL)
"""How a file is called while it is written."""


def parts_of(path: str) -> tuple[str, ...]:
    """The names that a path consists of.

    Raises:
        VolumePathRefused: One of them cannot be used, or the path leads elsewhere.
    """
    if not path:
        raise VolumePathRefused(path=path, problem="it is empty")
    if path.startswith("/"):
        raise VolumePathRefused(path=printable_name(path), problem="it is absolute")
    if len(path.encode(errors="surrogatepass")) > LONGEST_PATH:
        raise VolumePathRefused(
            path=f"{printable_name(path[:80])}…", problem=f"it is over {LONGEST_PATH} bytes long"
        )
    parts = tuple(path.split("/"))
    if len(parts) > DEEPEST:
        raise VolumePathRefused(path=printable_name(path), problem=f"it is over {DEEPEST} folders deep")
    for part in parts:
        if (problem := name_problem(part)) is not None:
            raise VolumePathRefused(path=printable_name(path), problem=problem)
    return parts


def name_problem(name: str) -> str | None:
    """The reason why a name cannot be that of a file or folder; None if it can."""
    if not name:
        return "a part of it is empty"
    if name in (".", ".."):
        return f"{name!r} leads elsewhere"
    if any(unicodedata.category(character)[0] == "C" or character in "\u2028\u2029" for character in name):
        return "it holds a character that cannot be seen, or is none"
    if not FORBIDDEN.isdisjoint(name):
        return 'it holds one of < > : " | ? * \\'
    if name != name.strip() or name.endswith("."):
        return "a part of it begins or ends with a space, or ends with a dot"
    if max(len(unicodedata.normalize(form, name).encode()) for form in ("NFC", "NFD")) > LONGEST_NAME:
        return f"a part of it is over {LONGEST_NAME} bytes long"
    if DEVICE_NAME.match(name) or PART_NAME.match(name):
        return "the name is reserved"
    return None


def collision_key(name: str) -> str:
    """A key that is equal for all names that some file system treats as the same."""
    key = unicodedata.normalize("NFD", name).casefold()
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", key).casefold())


def printable_name(name: str) -> str:
    """A name as text, also if it is none."""
    return name.encode(errors="backslashreplace").decode()
