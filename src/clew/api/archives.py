"""Archives and manifests: sessions that are exported and imported."""

import msgspec

from clew.api.route import LINES_TYPE, Route
from clew.api.threads import CommitView
from clew.core.encoding import JSON


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions and records that an import added, and those that it skipped.

    A session is skipped if it is there already. So is a record, also one that a user may not bring.
    """

    sessions: list[str]
    skipped: list[str] = []
    records: int = 0
    skipped_records: int = 0


REPLACE_SESSION = Route(
    "replace_session",
    "POST",
    "/sessions/{id}/import",
    CommitView,
    body=dict[str, JSON],
    takes_files=True,
    has_etag=True,
)
EXPORT_SESSION = Route(
    "export_session",
    "POST",
    "/sessions/{id}/export",
    bytes,
    other_media_types=(LINES_TYPE,),
)
EXPORT_PERSON = Route("export_person", "GET", "/person/export", bytes, media_type=LINES_TYPE)
IMPORT_SESSION = Route(
    "import_session",
    "POST",
    "/sessions/import",
    ImportView,
    status=201,
    body_type=LINES_TYPE,
    takes_files=True,
)
