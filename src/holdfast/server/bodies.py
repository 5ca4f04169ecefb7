"""The body of a request, which may be anything: what its reader cannot read is the fault of who sent it."""

from typing import Any

from litestar import Request
from litestar.exceptions import ClientException


class NestedTooDeeply(ClientException):
    """A body that no reader can follow to its end."""

    detail = "it is nested too deeply"


class Asked(Request[Any, Any, Any]):
    """A request whose body is read, or refused."""

    async def json(self) -> Any:
        """What the body says.

        Raises:
            ClientException: It is no text, or nested deeper than the interpreter goes.
        """
        try:
            return await super().json()
        except UnicodeDecodeError as error:
            raise ClientException("it is not UTF-8") from error
        except RecursionError as error:
            raise NestedTooDeeply from error
