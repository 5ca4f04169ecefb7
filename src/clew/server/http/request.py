"""The body of a request: JSON that cannot be read is refused as the client's error.

A JSON body must have that content type. A browser asks the server before a page of another site may send it;
a form or plain text it would send at once.
"""

from typing import Any

from litestar import Request
from litestar.exceptions import ClientException

from clew.api.route import JSON_TYPE
from clew.core.errors import UnsupportedMediaType


class NestedTooDeeply(ClientException):
    """A body that is nested deeper than the parser can follow."""

    detail = "it is nested too deeply"


class SafeBodyRequest(Request[Any, Any, Any]):
    """A request whose body is parsed, or refused with a client error."""

    async def json(self) -> Any:
        """Return the parsed body.

        Raises:
            UnsupportedMediaType: Its content type is not JSON.
            ClientException: It is not UTF-8, or nested deeper than the interpreter goes.
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
