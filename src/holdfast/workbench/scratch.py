"""Scratch folders: where an interpreter works, apart from the volume; gone when it is."""

import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

PREFIX = "holdfast-scratch-"


class Scratch:
    """Makes scratch folders below one folder, which is the system's for such things unless another is given.

    A folder's name tells whose it is. A session may come from elsewhere and name any folder; only one that
    was made for it here is ever used or taken away.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = (parent or Path(tempfile.gettempdir())).resolve()

    def made(self, key: str) -> Path:
        """A new and empty folder for whoever has the key."""
        self._parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=_prefix(key), dir=self._parent))

    def found(self, path: str | None, key: str) -> Path | None:
        """A folder that was made for a key, if it is one and is still there."""
        if path is None or "\0" in path:
            return None
        folder = Path(path)
        ours = folder.parent == self._parent and folder.name.startswith(_prefix(key))
        return folder if ours and not folder.is_symlink() and folder.is_dir() else None

    def gone(self, folder: Path) -> None:
        """Take a folder away, with all that is in it."""
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(key: str) -> str:
    return f"{PREFIX}{sha256(key.encode()).hexdigest()[:16]}-"
