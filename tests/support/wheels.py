"""Both distributions as people get them: built, and installed where nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parents[2]
FOLDERS = {"clew": ROOT, "clew-companion": ROOT / "companion"}


@dataclass(frozen=True, kw_only=True)
class BuiltFiles:
    """What one distribution is published as."""

    sdist: Path
    wheel: Path


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment with wheels and what their metadata asks for, and nothing else."""

    folder: Path

    def run(self, *command: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, without settings of the process that tests it."""
        environment = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env={**environment, "HOME": str(cwd)},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )


def build_files(name: str, folder: Path) -> BuiltFiles:
    """Build the source distribution of one of ours, and its wheel from that, with the locked backend."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(FOLDERS[name])]
    subprocess.run(command, check=True, capture_output=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return BuiltFiles(sdist=sdist, wheel=wheel)


def make_environment(
    folder: Path, wheels: Sequence[Path], *, extras: Iterable[str] = (), lock: Path | None = None
) -> Environment:
    """Install wheels into an empty environment, with the extras of Clew, and other versions that a lock has.

    Dependencies are links to the locked packages of this environment: those alone that the wheels' own
    metadata names, so that a missing requirement shows.
    """
    environment = install_wheels(folder, wheels, lock=lock)
    (packages,) = folder.glob("lib/python*/site-packages")
    distributions = map(PathDistribution, packages.glob("*.dist-info"))
    ours: dict[str, PathDistribution] = {canonicalize_name(each.name): each for each in distributions}
    for dependency in _dependencies(ours, extras):
        _link(dependency, packages)
    return environment


def install_wheels(
    folder: Path, wheels: Sequence[Path], *, python: Path = Path(sys.executable), lock: Path | None = None
) -> Environment:
    """Install wheels and what a lock has into an empty environment.

    No index is asked for the wheels, and no compiler for what is locked.
    """
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    ours = ["install", "--no-deps", "--no-index", *map(str, wheels)]
    subprocess.run([*pip_command(folder), *ours], check=True, capture_output=True)
    if lock is not None:
        others = [
            "install",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--requirement",
            str(lock),
        ]
        subprocess.run([*pip_command(folder), *others], check=True, capture_output=True)
    return Environment(folder=folder)


def pip_command(folder: Path) -> list[str]:
    """The command that runs this environment's pip on another one, which needs none of its own."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(folder)]


def _dependencies(ours: dict[str, PathDistribution], extras: Iterable[str]) -> list[Distribution]:
    """All that distributions require, directly or not, for this platform."""
    pending = [(name, frozenset(extras if name == "clew" else ())) for name in ours]
    edges = set(pending)
    while pending:
        name, names = pending.pop()
        for requirement in map(Requirement, (ours.get(name) or distribution(name)).requires or []):
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *names)
            )
            edge = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            if applies and edge not in edges:
                edges.add(edge)
                pending.append(edge)
    return [distribution(name) for name in sorted({name for name, _ in edges} - set(ours))]


def _link(dependency: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in dependency.files or []} - {"..", "__pycache__"}:
        link = packages / name
        if not link.exists():  # a namespace may be shared
            link.symlink_to(Path(str(dependency.locate_file(name))))
