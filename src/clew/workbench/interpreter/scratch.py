"""Scratch folders: where an interpreter works, apart from the volume; gone when it is."""

import secrets
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from clew.core.errors import ClewError
from clew.workbench.volume.tree import remove_path

PREFIX = "clew-scratch-"


class Scratch(Protocol):
    """A source of scratch folders. A folder's name holds the id of its process.

    A session may come from elsewhere and name any folder; only one that was made for it is ever used or
    taken away.
    """

    def make(self, key: str) -> Path:
        """A new folder for a key."""
        ...

    def find(self, path: str | None, key: str) -> Path | None:
        """A folder that was made for a key, if it is one."""
        ...

    def exists(self, folder: Path) -> bool:
        """Return whether it is still there, as far as can be seen from here."""
        ...

    def remove(self, folder: Path) -> None:
        """Take a folder away, with all that is in it."""
        ...


class LocalScratch:
    """Folders on this machine, below the system's for such things unless another is given."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = (parent or Path(tempfile.gettempdir())).resolve()

    def make(self, key: str) -> Path:
        """A new and empty folder for a key."""
        self._parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=_prefix(key), dir=self._parent))

    def find(self, path: str | None, key: str) -> Path | None:
        """A folder that was made for a key, if it is one and no link."""
        folder = _folder_for_key(path, key, self._parent)
        return None if folder is None or folder.is_symlink() else folder

    def exists(self, folder: Path) -> bool:
        """Return whether it is still there."""
        return folder.is_dir()

    def remove(self, folder: Path) -> None:
        """Take a folder away, with all that is in it."""
        with suppress(ClewError, OSError):
            remove_path(folder)


class RemoteScratch:
    """Names of folders on a provider's machine, which come and go with its sandbox."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path("/tmp")

    def make(self, key: str) -> Path:
        """A name that nobody has used."""
        return self._parent / f"{_prefix(key)}{secrets.token_hex(4)}"

    def find(self, path: str | None, key: str) -> Path | None:
        """A name that was made for a key, if it is one."""
        return _folder_for_key(path, key, self._parent)

    def exists(self, folder: Path) -> bool:
        """It is if its sandbox is, which only the provider can say."""
        return True

    def remove(self, folder: Path) -> None:
        """It goes with its sandbox."""


def _folder_for_key(path: str | None, key: str, parent: Path) -> Path | None:
    """A path, if its name is one for a key, in a folder."""
    if path is None or "\0" in path:
        return None
    folder = Path(path)
    return folder if folder.parent == parent and folder.name.startswith(_prefix(key)) else None


def _prefix(key: str) -> str:
    return f"{PREFIX}{sha256(key.encode()).hexdigest()[:16]}-"
