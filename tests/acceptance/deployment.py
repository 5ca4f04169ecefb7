"""The files of ``deploy`` as a test reads them: the image's instructions, the services, the manifest."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HEALTH_PORT = "8100"


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction of a container file."""

    name: str
    argument: str


def instructions() -> list[Instruction]:
    """The instructions of the container file, in order, each on one line."""
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    parts = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [Instruction(name=name, argument=argument.strip()) for name, _, argument in parts]


def final_stage() -> dict[str, str]:
    """The instructions of the image itself, each by its name."""
    all_instructions = instructions()
    begin = max(index for index, each in enumerate(all_instructions) if each.name == "FROM")
    return {each.name: each.argument for each in all_instructions[begin:]}


def image_variables() -> dict[str, str]:
    """The environment that the image sets, but for its search path."""
    pairs = (pair.partition("=") for pair in shlex.split(final_stage()["ENV"]))
    return {name: value for name, _, value in pairs if name != "PATH"}


def image_command() -> list[str]:
    """What a container runs."""
    stage = final_stage()
    return [*json.loads(stage["ENTRYPOINT"]), *json.loads(stage["CMD"])]


def health_command() -> list[str]:
    """What an engine runs to see whether a container is well."""
    _, _, command = final_stage()["HEALTHCHECK"].partition(" CMD ")
    return list(json.loads(command))


def copied_paths() -> list[str]:
    """What the image takes from the repository."""
    copies = [each.argument.split() for each in instructions() if each.name == "COPY"]
    return [path for words in copies if not words[0].startswith("--from") for path in words[:-1]]


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file."""
    content: dict[str, Any] = msgspec.yaml.decode((DEPLOY / "compose.yaml").read_bytes())
    return dict(content["services"])


def manifest(kind: str) -> dict[str, Any]:
    """The one object of a kind in the manifest for Kubernetes."""
    documents = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8").split("\n---\n")
    objects: list[dict[str, Any]] = [msgspec.yaml.decode(text) for text in documents]
    (content,) = (each for each in objects if each["kind"] == kind)
    return content


def unit_settings() -> list[tuple[str, str]]:
    """The settings of the systemd unit, in order."""
    text = (DEPLOY / "clew.service").read_text(encoding="utf-8")
    return re.findall(r"^([A-Z]\w+)=(.*)$", text, re.MULTILINE)
