"""Skills of a folder: texts by the names of their files, or an error that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agents.skills import LARGEST_SKILL, MOST_SKILLS, read_skills
from clew.core.errors import InvalidArgument


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def test_markdown_and_text_files_are_skills_by_their_names(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "sailing.md": "# Sailing\n\nSpeak of the sea: 海.\n".encode(),
            "brief.txt": b"\xef\xbb\xbfBe brief.",
            "LOUD.MD": b"Be loud.",
        },
    )

    assert read_skills(str(tmp_path)) == {
        "LOUD": "Be loud.",
        "brief": "Be brief.",
        "sailing": "# Sailing\n\nSpeak of the sea: 海.",
    }


def test_other_files_and_folders_are_passed_over(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"brief.md": b"Be brief.", ".hidden.md": b"no", "notes.pdf": b"no", "README": b"no"}
    )
    (tmp_path / "folder.md").mkdir()

    assert list(read_skills(str(tmp_path))) == ["brief"]


@pytest.mark.parametrize("folder", [None, ""])
def test_without_a_folder_there_are_no_skills(folder: str | None) -> None:
    assert read_skills(folder) == {}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "has 0 skills"),
        ({f"s{number}.md": b"text" for number in range(MOST_SKILLS + 1)}, "has 101 skills"),
        ({"a.md": b"one", "a.txt": b"two"}, "a.txt' cannot be used: there is another file for the skill 'a'"),
        ({"a.md": b"x" * (LARGEST_SKILL + 1)}, "it has more than 65536 bytes"),
        ({"a.md": b"caf\xe9"}, "it is not UTF-8, at byte 3"),
        ({"a.md": b" \n"}, "it is empty"),
        ({"two words.md": b"text"}, "its name is no name of a skill"),
    ],
    ids=["none", "many", "twice", "large", "latin-1", "empty", "name"],
)
def test_what_cannot_be_a_skill_is_named(tmp_path: Path, files: dict[str, bytes], problem: str) -> None:
    write_files(tmp_path, files)

    with pytest.raises(InvalidArgument) as caught:
        read_skills(str(tmp_path))
    assert problem in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_skill_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": b"x" * LARGEST_SKILL})

    assert len(read_skills(str(tmp_path))["a"]) == LARGEST_SKILL


@pytest.mark.parametrize("name", ["nowhere", "file.md"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"file.md": b"text"})

    with pytest.raises(InvalidArgument, match="Name a folder that is there"):
        read_skills(str(tmp_path / name))
