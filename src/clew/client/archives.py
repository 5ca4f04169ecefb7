"""Calls of archives and manifests."""

from clew.api.archives import EXPORT_PERSON, EXPORT_SESSION, IMPORT_SESSION, REPLACE_SESSION, ImportView
from clew.api.threads import CommitView
from clew.client.call import ApiCall, CallMethod, api_call


class ArchiveMethods:
    """Calls of archives and manifests."""

    @CallMethod
    def export_person(self, *, user: str | None = None) -> ApiCall[bytes]:
        """Export everything that a user owns, as one archive."""
        return api_call(EXPORT_PERSON, user=user)

    @CallMethod
    def export_manifest(self, id: str) -> ApiCall[bytes]:
        """Export a session as one JSON document: what it holds now, without its past."""
        return api_call(EXPORT_SESSION, id)

    @CallMethod
    def export_archive(self, id: str) -> ApiCall[bytes]:
        """Export a session as an archive: every version, to the hash."""
        return api_call(EXPORT_SESSION, id, format="archive")

    @CallMethod
    def import_manifest(
        self, id: str, manifest: bytes, *, expect: int | None = None, key: str | None = None
    ) -> ApiCall[CommitView]:
        """Replace a session by what a manifest says."""
        return api_call(REPLACE_SESSION, id, body=manifest, key=key, expect=expect)

    @CallMethod
    def import_sessions(
        self, archive: bytes, *, skip_existing: bool = False, key: str | None = None
    ) -> ApiCall[ImportView]:
        """Import the sessions of an archive; those that are there already are refused, or skipped."""
        return api_call(
            IMPORT_SESSION,
            body=archive,
            key=key,
            skip_existing=skip_existing or None,
        )
