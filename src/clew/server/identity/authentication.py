"""The authentication that the settings name, beside API keys, which are always valid."""

from collections.abc import Collection, Mapping

from clew.core.errors import MissingExtra
from clew.server.identity.api_keys import KeyAuthentication, api_key_in
from clew.server.identity.dev import DevAuthentication
from clew.server.identity.directory import Directory
from clew.server.identity.identity import Authenticate, AuthSettings, Identity


class CombinedAuthentication:
    """Authenticates requests with an API key by it, and others in another way."""

    def __init__(self, keys: Authenticate, other: Authenticate) -> None:
        self._keys = keys
        self._other = other

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a request; see `Authenticate`."""
        authenticate = self._keys if api_key_in(headers) is not None else self._other
        return await authenticate(headers)


def authentication_for(
    settings: AuthSettings, directory: Directory, origins: Collection[str] = ()
) -> Authenticate:
    """Return the authentication that the settings name; pages of ``origins`` may send requests."""
    keys = KeyAuthentication(directory)
    if settings.mode == "dev":
        return CombinedAuthentication(keys, DevAuthentication(origins))
    if settings.issuer is None:
        return keys
    try:
        from clew.server.identity.oidc import TokenAuthentication
    except ImportError as error:
        raise MissingExtra(extra="server", package=error.name or "pyjwt") from error

    return CombinedAuthentication(keys, TokenAuthentication(directory, settings.issuer))
