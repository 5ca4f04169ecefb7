"""What a model reads documents with: list them, look at a part, find words. They are never put in whole."""

from collections.abc import Callable
from typing import Final

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, plain
from clew.runtime.tools import Effect, Tool, ToolContext, tool
from clew.workbench.documents import Documents

PART: Final = 4000
PLACES: Final = 10


@check_arguments
def document_tools(documents: Callable[[ToolContext], Documents]) -> tuple[Tool, Tool, Tool]:
    """Tools over the documents of the thread that a call is made for."""

    @tool(effect=Effect.NONE)
    async def document_list(context: ToolContext) -> JSON:
        """List the loaded documents: their paths, sizes and sections, and which one is active."""
        return plain(await documents(context).list())

    @tool(effect=Effect.NONE)
    async def document_peek(
        context: ToolContext, path: str | None = None, start: int = 0, length: int = PART
    ) -> JSON:
        """Read a part of a document, or of the active one if no path is named.

        Start counts characters. The answer says where the next part begins, and in which section this one is.
        """
        return plain(await documents(context).peek(path, start, length))

    @tool(effect=Effect.NONE)
    async def document_find(
        context: ToolContext, words: str, path: str | None = None, limit: int = PLACES
    ) -> JSON:
        """Find where words stand in a document, or in the active one. Read on from the start of a place."""
        return plain(await documents(context).find(words, path, limit))

    return document_list, document_peek, document_find
