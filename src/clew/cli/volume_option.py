"""The option of commands that names the volume beside a database."""

from pathlib import Path
from typing import Annotated

import typer

from clew.core.errors import InvalidArgument
from clew.workbench.volume.operators import Volumes

VolumeFolder = Annotated[
    Path | None,
    typer.Option(
        "--volume",
        envvar="CLEW_VOLUME",
        metavar="FOLDER",
        help="The volume with the files beside the database.",
    ),
]


def volumes_at(folder: Path | None) -> Volumes | None:
    """The volume that the option names; None without one.

    Raises:
        InvalidArgument: It is not mounted.
    """
    return None if folder is None else Volumes(mounted_volume(folder))


def mounted_volume(folder: Path) -> Path:
    """A volume that is mounted: nobody wants files in a folder that was mistyped.

    Raises:
        InvalidArgument: It is not.
    """
    if not folder.is_dir():
        raise InvalidArgument(problem=f"There is no volume at {str(folder)!r}.")
    return folder
