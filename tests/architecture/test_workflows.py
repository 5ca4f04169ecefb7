"""What the forge reads: its workflows, the templates of issues, and how to cite the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from tests.architecture.source import ROOT

FORGE = ROOT / ".github"
WORKFLOWS = sorted(FORGE.glob("workflows/*.yml"))
TEMPLATES = sorted(path for path in FORGE.glob("ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
TARGET = re.compile(r"\bmake ([a-z-]+)")
FILE = re.compile(r"(?<![\w./-])(?:\.ci|tools|tests|examples|requirements)[\w./-]*")
EVENTS = True
"""The key of a workflow's events: in YAML 1.1, which this parser reads, ``on`` is true."""


def read(path: Path) -> dict[Any, Any]:
    """What a file of the forge says."""
    content: dict[Any, Any] = msgspec.yaml.decode(path.read_bytes())
    return content


def jobs() -> dict[str, dict[str, Any]]:
    """All jobs, each by its workflow and its name."""
    return {f"{path.stem}/{name}": job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}


def steps() -> list[dict[str, Any]]:
    """All steps of all jobs."""
    return [step for job in jobs().values() for step in job["steps"]]


def commands() -> str:
    """All that workflows run in a shell."""
    return "\n".join(step["run"] for step in steps() if "run" in step)


def test_there_is_a_workflow_for_tests_and_one_for_releases() -> None:
    assert [path.stem for path in WORKFLOWS] == ["release", "test"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_may_read_and_has_no_secret(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_every_job_ends_by_itself() -> None:
    assert [name for name, job in jobs().items() if not job.get("timeout-minutes")] == []


def test_every_action_is_pinned_by_its_commit() -> None:
    actions = [step["uses"] for step in steps() if "uses" in step]

    assert [action for action in actions if not PINNED.fullmatch(action)] == []


def test_every_command_is_one_that_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [target for target in TARGET.findall(commands()) if f"\n{target}:" not in makefile]
    files = [file for file in FILE.findall(commands()) if not (ROOT / file).exists()]

    assert targets == []
    assert files == []
    assert len(TARGET.findall(commands())) >= 3


def test_tests_run_on_every_python_and_every_platform_that_is_stated() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrices = {name: job["strategy"]["matrix"] for name, job in jobs().items() if "strategy" in job}

    assert matrices["test/everything"]["python"] == stated
    assert {row["system"] for row in matrices["test/library"]["include"]} == {
        "Linux on ARM",
        "macOS",
        "Windows",
    }


def test_only_the_job_that_publishes_may_ask_for_an_identity() -> None:
    permissions = {name: job["permissions"] for name, job in jobs().items() if "permissions" in job}

    assert permissions == {"release/publish": {"id-token": "write"}}


def test_a_release_publishes_what_was_checked_and_only_by_a_tag() -> None:
    release = read(FORGE / "workflows/release.yml")
    build = [step.get("run") for step in release["jobs"]["build"]["steps"]]

    assert list(release[EVENTS]["push"]) == ["tags"]
    assert 'make release-check TAG="$GITHUB_REF_NAME"' in build
    assert release["jobs"]["publish"]["needs"] == "build"
    assert not [step for step in release["jobs"]["publish"]["steps"] if "run" in step]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.stem))
def test_a_template_of_issues_is_whole(path: Path) -> None:
    template = read(path)
    fields = [field for field in template["body"] if field["type"] != "markdown"]

    assert template["name"]
    assert template["description"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 0


def test_the_citation_names_this_version_its_licence_and_no_person() -> None:
    citation = read(ROOT / "CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == clew.__version__
    assert citation["license"] == project["license"]
    assert citation["authors"] == [{"name": "Clew contributors"}]
