"""The body of a request, which may be anything: what its reader cannot read is the fault of who sent it.

Whoever sends JSON must say so. A browser asks the server before a page of another site may send that type; a
form or plain text it sends at once.
"""

from typing import Any

from litestar import Request
from litestar.exceptions import ClientException

from clew.core.errors import UnsupportedMediaType

JSON_TYPE = "application/json"


class NestedTooDeeply(ClientException):
    """A body that no reader can follow to its end."""

    detail = "it is nested too deeply"


class SafeBodyRequest(Request[Any, Any, Any]):
    """A request whose body is read, or refused."""

    async def json(self) -> Any:
        """What the body says.

        Raises:
            UnsupportedMediaType: It is not said to be JSON.
            ClientException: It is no text, or nested deeper than the interpreter goes.
        """
        media_type = self.headers.get("content-type")
        if (media_type or "").partition(";")[0].strip().lower() != JSON_TYPE:
            raise UnsupportedMediaType(media_type=media_type, expected=JSON_TYPE)
        try:
            return await super().json()
        except UnicodeDecodeError as error:
            raise ClientException("it is not UTF-8") from error
        except RecursionError as error:
            raise NestedTooDeeply from error
