"""A release is refused, with a reason, before anything wrong is published."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.release import (
    ReleaseFault,
    Trial,
    changelog_heading,
    check_tag,
    find_interpreters,
    metadata_faults,
    release_version,
    table,
    trial_row,
)
from tests.support.wheels import ROOT

METADATA = """Metadata-Version: 2.4
Name: clew
Version: 0.2.0
Summary: Durable threads for AI agents.
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Typing :: Typed
Requires-Python: >=3.11
Requires-Dist: msgspec>=0.19
Description-Content-Type: text/markdown

# Clew
"""


def make_sources(folder: Path, clew: str, companion: str) -> None:
    """Write both packages with their versions, as the repository has them."""
    for name, version in {"src/clew": clew, "companion/src/clew_companion": companion}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")


def test_the_version_that_would_be_released_has_a_section_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert isinstance(changelog_heading(release_version(), changelog), str)


def test_two_versions_are_refused(tmp_path: Path) -> None:
    make_sources(tmp_path, "0.2.0", "0.1.0")

    with pytest.raises(ReleaseFault, match="different versions"):
        release_version(tmp_path)


def test_a_version_without_a_section_is_refused() -> None:
    with pytest.raises(ReleaseFault, match=r"no section for 0\.2\.0"):
        changelog_heading("0.2.0", "# Changelog\n\n## 0.2 — 2026\n\n## 0.1.0 — 2025\n")


@pytest.mark.parametrize(
    ("tag", "heading", "reason"),
    [
        ("v0.3.0", "2026-12-01", "the tag must be v0.2.0"),
        ("0.2.0", "2026-12-01", "the tag must be v0.2.0"),
        ("v0.2.0", "not released yet", "write the date"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, heading: str, reason: str) -> None:
    with pytest.raises(ReleaseFault, match=reason):
        check_tag(tag, "0.2.0", heading)


def test_good_metadata_has_no_fault() -> None:
    assert metadata_faults(METADATA.encode(), name="clew", version="0.2.0") == []


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ("Name: clew", "Name: other", "its name is other"),
        ("Version: 0.2.0", "Version: 0.2.1", "its version is 0.2.1"),
        ("Version: 0.2.0", "Version: newest", "version"),
        ("Requires-Python: >=3.11\n", "", "which Python"),
        ("License-File: LICENSE\n", "", "no licence"),
        ("# Clew\n", "", "no description"),
        ("text/markdown", "text/plain", "not marked as Markdown"),
        ("Typing :: Typed", "Typing :: Loosely", "classifiers ['Typing :: Loosely']"),
        ("msgspec>=0.19", "msgspec @ https://example.org/m.whl", "by address"),
    ],
)
def test_metadata_that_an_index_would_refuse_is_a_fault(good: str, bad: str, fault: str) -> None:
    faults = metadata_faults(METADATA.replace(good, bad).encode(), name="clew", version="0.2.0")

    assert len(faults) == 1
    assert fault in faults[0]


def test_pythons_are_found_once_and_stand_ins_are_passed_over(tmp_path: Path) -> None:
    for name in ("python3", "python3.11", "python3-config"):
        (tmp_path / name).symlink_to(sys.executable)
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (tmp_path / "python3.12").chmod(0o755)

    interpreters = find_interpreters([tmp_path, tmp_path / "missing"])

    assert [each.version for each in interpreters] == [sys.version_info[:3]]


def test_the_table_shows_what_failed_and_what_was_not_tried() -> None:
    trials = [Trial(python="3.11.7", check="install"), Trial(python="3.11.7", check="demo", fault="lost one")]
    row = trial_row("3.11.7", ["install", "demo", "chat"], trials)

    assert table([["Python", "install", "demo", "chat"], row]).splitlines()[1] == "3.11.7  ok       FAILED  –"
