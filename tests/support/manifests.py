"""Manifests put on a volume by hand, as a release before checkpoints wrote them: without a version."""

from __future__ import annotations

from clew.core.manifest.document import Manifest, written
from clew.core.manifest.files import Place, path_of
from clew.workbench.volume.volume import Volume


def save(volume: Volume, place: Place, manifest: Manifest) -> str:
    """Write a manifest to its place on its user's volume; the path of it there."""
    path = str(path_of(place))
    volume.write(path, written(manifest))
    return path
