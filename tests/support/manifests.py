"""Manifests put on a volume by hand, as a release before checkpoints wrote them: without a version."""

from __future__ import annotations

from clew.core.manifest.document import Manifest, encode_manifest
from clew.core.manifest.files import ManifestAddress, manifest_path
from clew.workbench.volume.volume import Volume


def save(volume: Volume, place: ManifestAddress, manifest: Manifest) -> str:
    """Write a manifest to its place on its user's volume; the path of it there."""
    path = str(manifest_path(place))
    volume.write(path, encode_manifest(manifest))
    return path
