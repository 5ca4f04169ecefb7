"""A manifest on a volume and its stamp: read as far as it must be to see where it stands."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from clew.core.encoding import encode
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import STAMP_KEY, Manifest, ManifestItem, ManifestState
from clew.core.manifest.stamps import encode_stamped_manifest, read_stamped_manifest

MANIFEST = Manifest(
    session="s",
    state=ManifestState(
        history=[
            ManifestItem(role="user", body={"content": "Æ"}),
            ManifestItem(base64=b"\x00\xff", codec="raw"),
        ],
        core_memory={"human": ""},
        fields={"mood": "calm"},
    ),
    about={"title": "A walk"},
)


def rewrite_manifest(*, whole: bool, **parts: Any) -> bytes:
    """The file with some parts changed by hand, and with a stamp that fits if it is to be whole."""
    document = msgspec.json.decode(encode_stamped_manifest(MANIFEST, 7, b"\x01" * 32))
    stamp = document.pop(STAMP_KEY)
    document |= parts
    if whole:
        stamp["sha256"] = sha256(encode(document)).hexdigest()
    return msgspec.json.encode({**document, STAMP_KEY: stamp})


def test_the_stamp_is_of_the_manifest_alone() -> None:
    document = msgspec.json.decode(encode_stamped_manifest(MANIFEST, 7, b"\x01" * 32))
    stamp = document.pop(STAMP_KEY)

    assert document == msgspec.to_builtins(MANIFEST)
    assert stamp == {"version": 7, "hash": "01" * 32, "sha256": sha256(encode(document)).hexdigest()}


def test_what_was_written_is_read_back() -> None:
    manifest_file = read_stamped_manifest(encode_stamped_manifest(MANIFEST, 7, b"\x01" * 32), "s")

    assert (manifest_file.manifest, manifest_file.is_intact) == (MANIFEST, True)


@pytest.mark.promise("F-02")
@pytest.mark.parametrize("whole", [True, False])
def test_one_of_a_newer_release_is_refused_however_whole_it_is(*, whole: bool) -> None:
    with pytest.raises(InvalidArgument, match="Upgrade first"):
        read_stamped_manifest(rewrite_manifest(whole=whole, version=99), "s")


@pytest.mark.parametrize("version", [0, -1])
def test_one_of_a_version_that_no_release_wrote_is_refused(version: int) -> None:
    with pytest.raises(InvalidArgument, match=f"has version {version}, and this release reads up to 1[.]"):
        read_stamped_manifest(rewrite_manifest(whole=True, version=version), "s")


def test_one_of_another_session_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="session 's'"):
        read_stamped_manifest(encode_stamped_manifest(MANIFEST, 7, b"\x01" * 32), "other")


def test_what_was_changed_by_hand_into_no_manifest_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot be used"):
        read_stamped_manifest(rewrite_manifest(whole=False, state={"history": "none"}), "s")
