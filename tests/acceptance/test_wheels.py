"""Both wheels are small, whole, and work in an environment with nothing but what they ask for."""

from __future__ import annotations

import json
import statistics
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.wheels import BuiltFiles, Environment, build_files, make_environment

LARGEST_WHEEL = 2_000_000
LONGEST_IMPORT = 0.12
IMPORTS = 7
LICENCES = {"clew": {"LICENSE"}, "clew-companion": {"LICENSE", "NOTICE"}}
APPEND = """
import asyncio, clew
async def main():
    async with clew.open("sqlite:///agent.db") as db:
        thread = await db.create("ada-1")
        print((await thread.append(items=[clew.user("Hi")])).version)
asyncio.run(main())
"""
LIST_PACKAGES = """
import json, sys, time
begin = time.process_time()
import clew
seconds = time.process_time() - begin
packages = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps([seconds, sorted(name for name in packages if not name.startswith("__"))]))
"""
ENTRY_POINTS = """
from importlib.metadata import entry_points
print([(point.name, type(point.load()).__name__) for point in entry_points(group="clew.agents")])
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clew_files(tmp_path_factory: pytest.TempPathFactory) -> BuiltFiles:
    """What Clew is published as."""
    return build_files("clew", tmp_path_factory.mktemp("clew"))


@pytest.fixture(scope="module")
def companion_files(tmp_path_factory: pytest.TempPathFactory) -> BuiltFiles:
    """What the companion is published as."""
    return build_files("clew-companion", tmp_path_factory.mktemp("companion"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, clew_files: BuiltFiles) -> Environment:
    """Clew without extras."""
    return make_environment(tmp_path_factory.mktemp("bare") / "venv", [clew_files.wheel])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, clew_files: BuiltFiles) -> Environment:
    """Clew with its server, without the companion."""
    return make_environment(tmp_path_factory.mktemp("alone") / "venv", [clew_files.wheel], extras=["server"])


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, clew_files: BuiltFiles, companion_files: BuiltFiles
) -> Environment:
    """Clew with its server, and the companion."""
    wheels = [clew_files.wheel, companion_files.wheel]
    return make_environment(tmp_path_factory.mktemp("both") / "venv", wheels, extras=["server"])


def names_in(archive: Path) -> list[str]:
    """The paths of the files of a wheel or of a source distribution."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as files:
        return files.getnames()


def test_the_wheel_of_clew_is_small(clew_files: BuiltFiles) -> None:
    assert clew_files.wheel.stat().st_size < LARGEST_WHEEL


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
@pytest.mark.parametrize("name", ["clew", "clew-companion"])
def test_a_distribution_has_its_licences_and_no_tests(
    name: str, kind: str, clew_files: BuiltFiles, companion_files: BuiltFiles
) -> None:
    files = {"clew": clew_files, "clew-companion": companion_files}[name]
    paths = [Path(path) for path in names_in(getattr(files, kind))]

    assert LICENCES[name] <= {path.name for path in paths}
    assert not [path for path in paths if "tests" in path.parts or path.name.startswith("test_")]
    assert [path for path in paths if path.name == "py.typed"]


def test_clew_without_extras_keeps_a_thread(bare: Environment, tmp_path: Path) -> None:
    run = bare.run("python", "-c", APPEND, cwd=tmp_path)

    assert run.stdout == "1\n", run.stderr


def test_the_command_without_extras_says_what_to_install(bare: Environment, tmp_path: Path) -> None:
    run = bare.run("clew", "--version", cwd=tmp_path)

    assert run.returncode == 1
    assert "pip install '.[cli]'" in run.stderr


def test_an_import_loads_no_driver_and_takes_little_time(both: Environment, tmp_path: Path) -> None:
    outputs = [both.run("python", "-c", LIST_PACKAGES, cwd=tmp_path) for _ in range(IMPORTS)]
    imports = [json.loads(output.stdout) for output in outputs]

    assert {name for _, packages in imports for name in packages} == {"clew", "msgspec", "typing_extensions"}
    assert statistics.median(seconds for seconds, _ in imports) <= LONGEST_IMPORT


@pytest.mark.parametrize("environment", ["alone", "both"])
@pytest.mark.parametrize("command", [["--version"], ["serve", "--help"], ["chat", "--help"]], ids=" ".join)
def test_a_command_answers(
    environment: str, command: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installation: Environment = request.getfixturevalue(environment)
    run = installation.run("clew", *command, cwd=tmp_path)

    assert run.returncode == 0, run.stderr
    assert "clew" in run.stdout


@pytest.mark.parametrize("environment", ["alone", "both"])
def test_the_demo_loses_nothing(environment: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    installation: Environment = request.getfixturevalue(environment)
    run = installation.run("clew", "demo", "--rounds", "1", "--json", cwd=tmp_path)

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["count"]["lost"] == 0


def test_the_companion_is_found_by_its_entry_point(both: Environment, tmp_path: Path) -> None:
    run = both.run("python", "-c", ENTRY_POINTS, cwd=tmp_path)

    assert run.stdout == "[('companion', 'Agent')]\n", run.stderr


def test_the_companion_answers_without_a_model(both: Environment, tmp_path: Path) -> None:
    run = both.run("clew", "chat", "--user-id", "ada", cwd=tmp_path, text="Hello, I am Ada.\n")

    assert run.returncode == 0, run.stderr
    assert "I run without a language model" in run.stdout


def test_chat_without_the_companion_says_how_to_name_a_model(alone: Environment, tmp_path: Path) -> None:
    run = alone.run("clew", "chat", "--user-id", "ada", cwd=tmp_path, text="Hello, I am Ada.\n")

    assert run.returncode == 0, run.stderr
    assert "--model" in run.stdout
