"""Skills: texts for an agent's prompt, read from a folder when it is served or talked with."""

import re
from pathlib import Path

from clew.core.errors import InvalidArgument

SUFFIXES = (".md", ".txt")
SKILL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The names that a skill may have: they are part of requests and typed in shells."""
MOST_SKILLS = 100
LARGEST_SKILL = 64 * 1024
"""The most bytes of a skill: each one that is installed goes into every prompt."""


def read_skills(folder: str | None) -> dict[str, str]:
    """Read the Markdown and text files of a folder as skills by name; none if no folder is named.

    The name of a skill is that of its file without the ending. Other files, and folders, are passed over.

    Raises:
        InvalidArgument: The folder is not there or has no skills, or one of them cannot be used.
    """
    if not folder:
        return {}
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        problem = f"The skills at {folder!r} cannot be read: {error.strerror}. Name a folder that is there."
        raise InvalidArgument(problem=problem) from None
    files = [path for path in paths if not path.name.startswith(".") and path.is_file()]
    if not 0 < len(files) <= MOST_SKILLS:
        problem = (
            f"The folder {folder!r} has {len(files)} skills. Put 1 to {MOST_SKILLS} files there, .md or .txt."
        )
        raise InvalidArgument(problem=problem)
    skills: dict[str, str] = {}
    for path in files:
        if path.stem in skills:
            raise _skill_error(
                path, f"there is another file for the skill {path.stem!r}. Remove one of them."
            )
        skills[path.stem] = _read_skill(path)
    return skills


def _read_skill(path: Path) -> str:
    if not SKILL_NAME.fullmatch(path.stem):
        raise _skill_error(
            path, "its name is no name of a skill. Use letters, digits, '-' and '_', up to 64."
        )
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_SKILL + 1)
    except OSError as error:
        raise _skill_error(path, f"{error.strerror}.") from None
    if len(content) > LARGEST_SKILL:
        raise _skill_error(
            path, f"it has more than {LARGEST_SKILL} bytes. Shorten it: it goes into every prompt."
        )
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise _skill_error(path, f"it is not UTF-8, at byte {error.start}. Save it as UTF-8.") from None
    if not text:
        raise _skill_error(path, "it is empty.")
    return text


def _skill_error(path: Path, reason: str) -> InvalidArgument:
    return InvalidArgument(problem=f"The skill {str(path)!r} cannot be used: {reason}")
