"""Fetching and checking out a repository with git. A script: it runs behind walls, and nothing imports it.

It gets its request as an argument, and leaves ``result.json`` beside the folder of the checkout.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = "repository"
OPTIONS = {
    # Nothing but https, whatever a server or a repository asks for; and no other program is started for it.
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.symlinks": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "credential.helper": "",
    "core.askPass": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "filter.lfs.process": "",
    "filter.lfs.smudge": "",
    "filter.lfs.required": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "http.emptyAuth": "false",
    "advice.detachedHead": "false",
}
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "https",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
LINK_MODE, SUBMODULE_MODE = "120000", "160000"
LONGEST_PROBLEM = 300
LONGEST_PATH = 1000


class CheckoutError(Exception):
    """A reason by its name, and in words."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


def git_command(request: dict[str, Any], *arguments: str) -> list[str]:
    """A call of git, with the options that hold for all of them."""
    options = {**OPTIONS, "http.proxy": request["proxy"]}
    if request["ca_file"] is not None:
        options["http.sslCAInfo"] = request["ca_file"]
    return [
        "git",
        *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
        *arguments,
    ]


def run_git(request: dict[str, Any], *arguments: str, reason: str = "clone_failed") -> str:
    """Run git in the checkout, and return what it says."""
    command = git_command(request, *arguments)
    variables = {**os.environ, **ENVIRONMENT}
    process = subprocess.run(command, check=False, capture_output=True, cwd=FOLDER, env=variables)
    if process.returncode != 0:
        raise git_error(process.stderr, reason)
    return process.stdout.decode(errors="replace")


def git_error(stderr: bytes, reason: str) -> CheckoutError:
    """The error that git reports, in its last line."""
    text = stderr.decode(errors="replace").strip()
    lines = [line.removeprefix("fatal: ") for line in text.splitlines() if not line.startswith("remote:")]
    if "couldn't find remote ref" in text or "not our ref" in text:
        reason = "ref_not_found"
    return CheckoutError(reason, (lines[-1] if lines else "git gave no reason")[:LONGEST_PROBLEM])


def check_tree(request: dict[str, Any], commit: str) -> dict[str, str]:
    """Add up what a commit holds before any of it is written; return the modes of its files by path.

    A repository of a few bytes can name more files than there is disk for, so the list is read only as far
    as the limits go.
    """
    command = git_command(request, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    size, modes = 0, {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=FOLDER, env={**os.environ, **ENVIRONMENT}
    ) as process:
        assert process.stdout is not None
        try:
            for entry in entries_of(process.stdout):
                about, _, path = entry.partition("\t")
                mode, _, _, length = about.split()
                modes[path] = mode
                if len(path) > LONGEST_PATH:
                    raise CheckoutError("too_large", f"a path in it is over {LONGEST_PATH} characters long")
                size += int(length) if length.isdecimal() else 0
                if size > request["bytes"]:
                    raise CheckoutError("too_large", f"its files have more than {request['bytes']} bytes")
                if len(modes) > request["files"]:
                    raise CheckoutError("too_large", f"it has more than {request['files']} files")
        except CheckoutError:
            process.kill()
            raise
    if process.returncode != 0:
        raise CheckoutError("clone_failed", "its files cannot be listed")
    return modes


def entries_of(stream: Any) -> Any:
    """The entries of a list that are divided by zero bytes."""
    rest = b""
    while chunk := stream.read(65536):
        *entries, rest = (rest + chunk).split(b"\0")
        for entry in entries:
            yield entry.decode(errors="surrogateescape")


def context_problem(path: str, modes: dict[str, str]) -> str | None:
    """The problem of a path of the repository, if it has one."""
    path = path.rstrip("/")
    mode = modes.get(path)
    if mode == LINK_MODE:
        return "it is a link"
    if mode == SUBMODULE_MODE:
        return "it is a submodule, which is not fetched"
    if mode is None and not any(other.startswith(f"{path}/") for other in modes):
        return "the repository has no such file or folder"
    return None


def check_out(request: dict[str, Any]) -> dict[str, Any]:
    """Fetch one commit, look at what it holds, and write its files."""
    Path(FOLDER).mkdir()
    run_git(request, "init", "--quiet", "--template=")
    fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--")
    run_git(request, *fetch, request["url"], request["ref"] or "HEAD")
    commit = run_git(
        request, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}", reason="ref_not_found"
    )
    commit = commit.strip()
    modes = check_tree(request, commit)
    run_git(request, "checkout", "--quiet", "--detach", commit)
    problems = {path: context_problem(path, modes) for path in request["context_paths"]}
    return {"commit": commit, "problems": {path: each for path, each in problems.items() if each}}


def main() -> None:
    """Do what the request says, and leave the result or the reason against it."""
    request = json.loads(sys.argv[1])
    try:
        result = check_out(request)
    except CheckoutError as error:
        result = {"reason": error.reason, "problem": str(error)}
    Path("result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
