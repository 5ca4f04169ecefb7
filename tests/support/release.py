"""A release before it is one: ``make release-check`` builds, checks and tries what would be published.

Both distributions are built as sdist, and as wheel from that sdist. Every Python that is here and new enough
gets an empty environment with the wheels and the lock for serving, and runs the README's example in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.metadata import Metadata
from trove_classifiers import classifiers as known_classifiers

from tests.acceptance.test_docs import blocks_of
from tests.support.wheels import (
    FOLDERS,
    ROOT,
    BuiltFiles,
    Environment,
    build_files,
    install_wheels,
    pip_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LOWEST = (3, 11)
LOCK = ROOT / "requirements-serve.lock"
OUTPUT = ROOT / "build" / "release"
PACKAGES = {"clew": "src/clew", "clew-companion": "companion/src/clew_companion"}
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
UNRELEASED = "not released yet"
DESCRIBE = "import json, sys; print(json.dumps([*sys.version_info[:3], sys.executable]))"
PROGRAM = re.compile(r"python3(\.\d+)?(\.exe)?")
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)[^)]+\)")


class ReleaseFault(Exception):
    """Something that must be mended before a release."""


@dataclass(frozen=True, kw_only=True, order=True)
class Interpreter:
    """A Python of this machine."""

    version: tuple[int, int, int]
    program: Path

    @property
    def name(self) -> str:
        """Its version in the usual form."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of one check with one Python; without a fault it went well."""

    python: str
    check: str
    fault: str = ""


def release_version(root: Path = ROOT) -> str:
    """The version that both distributions would be released as."""
    versions = {
        name: VERSION.findall((root / folder / "__init__.py").read_text(encoding="utf-8"))
        for name, folder in PACKAGES.items()
    }
    (version, *_), *others = versions.values()
    if any(other != [version] for other in others):
        raise ReleaseFault(f"The distributions have different versions: {versions}.")
    return str(version)


def changelog_heading(version: str, changelog: str) -> str:
    """The heading of a version in the changelog, behind the version itself."""
    match = re.search(rf"^## {re.escape(version)}\b(.*)$", changelog, re.MULTILINE)
    if match is None:
        raise ReleaseFault(f"CHANGELOG.md has no section for {version}: write one that begins ## {version}.")
    return match[1].strip(" —-")


def check_tag(tag: str, version: str, heading: str) -> None:
    """Refuse a tag that is not the one of this version, or whose section in the changelog is not finished."""
    if tag != f"v{version}":
        raise ReleaseFault(
            f"The tag is {tag}, and the sources have the version {version}: the tag must be v{version}."
        )
    if UNRELEASED in heading:
        raise ReleaseFault(f"CHANGELOG.md says of {version} that it is {UNRELEASED}: write the date there.")


def metadata_texts(files: BuiltFiles) -> dict[str, bytes]:
    """The metadata in a source distribution and in a wheel, each by the name of its file."""
    with zipfile.ZipFile(files.wheel) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        in_wheel = wheel.read(path)
    with tarfile.open(files.sdist) as sdist:
        path = min((name for name in sdist.getnames() if name.endswith("/PKG-INFO")), key=len)
        member = sdist.extractfile(path)
        in_sdist = b"" if member is None else member.read()
    return {files.wheel.name: in_wheel, files.sdist.name: in_sdist}


def metadata_faults(text: bytes, *, name: str, version: str) -> list[str]:
    """Reasons why an index would refuse metadata, or show it wrongly."""
    try:
        metadata = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        return [str(error) for error in group.exceptions]
    unknown = set(metadata.classifiers or ()) - set(known_classifiers)
    faults = {
        f"its name is {metadata.name}, not {name}": metadata.name != name,
        f"its version is {metadata.version}, not {version}": str(metadata.version) != version,
        "it does not say which Python it needs": metadata.requires_python is None,
        "it has no licence": not metadata.license_expression or not metadata.license_files,
        "it has no description": not metadata.summary or not (metadata.description or "").strip(),
        "its description is not marked as Markdown": metadata.description_content_type != "text/markdown",
        f"no index knows its classifiers {sorted(unknown)}": bool(unknown),
        "it requires something by address, which an index refuses": any(
            requirement.url for requirement in metadata.requires_dist or ()
        ),
    }
    return [fault for fault, is_there in faults.items() if is_there]


def find_interpreters(folders: Iterable[Path]) -> list[Interpreter]:
    """The Pythons of some folders that are new enough, one of each version."""
    programs = [
        path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if PROGRAM.fullmatch(path.name)
    ]
    interpreters: dict[tuple[int, ...], Interpreter] = {}
    for interpreter in filter(None, map(describe, programs)):
        if interpreter.version >= LOWEST:
            interpreters.setdefault(interpreter.version, interpreter)
    return sorted(interpreters.values())


def describe(program: Path) -> Interpreter | None:
    """The interpreter that a program starts; None if it starts none."""
    run = subprocess.run([str(program), "-c", DESCRIBE], capture_output=True, text=True, check=False)
    if run.returncode:  # a stand-in of a version manager for a version that is not chosen
        return None
    major, minor, micro, executable = json.loads(run.stdout)
    return Interpreter(version=(major, minor, micro), program=Path(executable))


def usual_folders() -> list[Path]:
    """The folders that Pythons are in: those of PATH, and those of version managers."""
    managers = [".pyenv/versions/*/bin", ".local/share/uv/python/*/bin"]
    return [
        *(Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder),
        *(folder for pattern in managers for folder in sorted(Path.home().glob(pattern))),
    ]


def try_quickstart(environment: Environment, folder: Path) -> str:
    """Run the README's example twice, and return what is wrong with what it printed."""
    example = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    (folder / "quickstart.py").write_text(example.code, encoding="utf-8")
    first, second = (environment.run("python", "quickstart.py", cwd=folder) for _ in range(2))
    is_right = first.stdout == example.output and second.stdout.startswith("now: 2 ")
    return (
        ""
        if is_right
        else f"it printed {first.stdout!r}, then {second.stdout!r}\n{first.stderr}{second.stderr}"
    )


def try_output(*command: str, part: str, text: str = "") -> Callable[[Environment, Path], str]:
    """A check that a command ends well, and prints a certain part."""

    def check(environment: Environment, folder: Path) -> str:
        run = environment.run(*command, cwd=folder, text=text)
        is_right = run.returncode == 0 and part in run.stdout
        return "" if is_right else f"it ended with {run.returncode} and printed {run.stdout!r}\n{run.stderr}"

    return check


def checks(version: str) -> dict[str, Callable[[Environment, Path], str]]:
    """What is tried in every environment, each by a heading of the table."""
    return {
        "quickstart": try_quickstart,
        "clew --version": try_output("clew", "--version", part=version),
        "python -m clew": try_output("python", "-m", "clew", "--version", part=version),
        "clew demo": try_output("clew", "demo", "--rounds", "1", "--json", part='"lost": 0'),
        "companion": try_output(
            "clew", "chat", "--user-id", "ada", part="without a language model", text="Hello.\n"
        ),
    }


def try_python(interpreter: Interpreter, wheels: Sequence[Path], version: str) -> list[Trial]:
    """Install wheels for one Python where nothing else is, and try every check there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            environment = install_wheels(folder / "venv", wheels, python=interpreter.program, lock=LOCK)
            subprocess.run([*pip_command(folder / "venv"), "check"], check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            fault = f"{error.stdout.decode()}{error.stderr.decode()}"
            return [Trial(python=interpreter.name, check="install", fault=fault)]
        trials = [Trial(python=interpreter.name, check="install")]
        for heading, check in checks(version).items():
            scratch = folder / str(len(trials))
            scratch.mkdir()
            fault = check(environment, scratch)
            trials.append(Trial(python=interpreter.name, check=heading, fault=fault))
        return trials


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def build_release(version: str) -> dict[str, BuiltFiles]:
    """Build both distributions into an empty folder, and refuse metadata that an index would refuse."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    files = {name: build_files(name, OUTPUT / name) for name in FOLDERS}
    faults = [
        f"{file}: {fault}."
        for name, built in files.items()
        for file, text in metadata_texts(built).items()
        for fault in metadata_faults(text, name=name, version=version)
    ]
    if faults:
        raise ReleaseFault("\n".join(faults))
    return files


def check_release(tag: str | None) -> None:
    """Check everything, and report it on the way."""
    version = release_version()
    heading = changelog_heading(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if tag is not None:
        check_tag(tag, version, heading)
    show(f"This would be released: {version}. In CHANGELOG.md its section is there: {heading or 'no date'}.")
    files = build_release(version)
    rows = [(path.name, f"{path.stat().st_size:,} bytes", "metadata ok") for path in archives(files)]
    show(table(rows))
    links = len(RELATIVE_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    show(f"Note: {links} links of the README lead into the repository, and nowhere on the page of an index.")
    try_everywhere([built.wheel for built in files.values()], version)
    collect(files)


def try_everywhere(wheels: Sequence[Path], version: str) -> None:
    """Try wheels on every Python that is here, and show a table of what came of it."""
    interpreters = find_interpreters(usual_folders())
    headings = ["install", *checks(version)]
    trials = [trial for each in interpreters for trial in try_python(each, wheels, version)]
    show(table([["Python", *headings], *(trial_row(each.name, headings, trials) for each in interpreters)]))
    if faults := [f"{each.check} on Python {each.python}: {each.fault}" for each in trials if each.fault]:
        raise ReleaseFault("\n".join(faults))


def trial_row(python: str, headings: Sequence[str], trials: Sequence[Trial]) -> list[str]:
    """The row of one Python; what could not be tried has a dash."""
    faults = {trial.check: trial.fault for trial in trials if trial.python == python}
    return [python, *("–" if name not in faults else "FAILED" if faults[name] else "ok" for name in headings)]


def archives(files: dict[str, BuiltFiles]) -> list[Path]:
    """All files that would be published."""
    return [path for built in files.values() for path in (built.sdist, built.wheel)]


def collect(files: dict[str, BuiltFiles]) -> None:
    """Put what was checked into one folder, from which it can be published."""
    (OUTPUT / "dist").mkdir()
    for path in archives(files):
        shutil.copy2(path, OUTPUT / "dist")
    show(f"Ready: {(OUTPUT / 'dist').relative_to(ROOT)} has what was checked.")


def show(text: str) -> None:
    """Print a part of the report at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Check a release, and return 1 if something must be mended first."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--tag", help="the tag that it is released by, as v0.2.0")
    try:
        check_release(parser.parse_args(arguments).tag)
    except ReleaseFault as fault:
        sys.stderr.write(f"Not ready for a release:\n{fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
