"""The SDK's source distribution: fetched once, checked against the lock, unpacked below build/."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "openai-agents"
LOCK = ROOT / "requirements.lock"
PIN = re.compile(
    r"^openai-agents==(?P<version>\S+) \\\n(?P<hashes>(?:    --hash=sha256:\w+(?: \\)?\n)+)", re.MULTILINE
)
HASH = re.compile(r"sha256:(\w+)")


def source() -> Path:
    """The folder of the unpacked distribution, of the version that is installed."""
    folder = BUILD / version("openai-agents")
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
            tests_folder = _unpack(_fetch(Path(scratch)), Path(scratch))
            try:
                tests_folder.rename(folder)
            except OSError:  # another process was quicker
                shutil.rmtree(tests_folder)
    return folder


def lock_entry() -> tuple[str, set[str]]:
    """The version in the lock and the hashes of its files, the source distribution's among them."""
    match = PIN.search(LOCK.read_text(encoding="utf-8"))
    assert match is not None, "the lock names no openai-agents"
    return match["version"], set(HASH.findall(match["hashes"]))


def _fetch(scratch: Path) -> Path:
    """The archive, from wherever pip is told to get packages from."""
    version, hashes = lock_entry()
    lines = " ".join([f"openai-agents=={version}", *(f"--hash=sha256:{digest}" for digest in hashes)])
    (scratch / "wanted.txt").write_text(lines, encoding="utf-8")
    # The build backend is in the lock, so pip can look into the archive without fetching anything else.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "download"]
    how = ["--no-deps", "--no-build-isolation", "--no-binary", "openai-agents", "--require-hashes"]
    subprocess.run([*pip, *how, "--dest", scratch, "--requirement", scratch / "wanted.txt"], check=True)
    (archive,) = scratch.glob("*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in hashes
    return archive


def _unpack(archive: Path, scratch: Path) -> Path:
    """The tests and their settings; the SDK itself is the installed one."""
    with tarfile.open(archive) as whole:
        members = [
            member for member in whole if member.name.split("/")[1:2] in (["tests"], ["pyproject.toml"])
        ]
        whole.extractall(scratch, members, filter="data")
    (folder,) = (path.parent for path in scratch.glob("*/pyproject.toml"))
    return folder
