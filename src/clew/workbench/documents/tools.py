"""Putting the texts of documents into an interpreter, so that code can work on what no prompt holds."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, as_json
from clew.core.errors import (
    DocumentUnreadable,
    InterpreterGone,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.runtime.tools.tool import Effect, Tool, ToolContext, tool
from clew.workbench.documents.documents import Document, Documents
from clew.workbench.interpreter.port import ErrorOutput, Interpreter, StopOutput

PART_CHARACTERS: Final = 4000
MOST_MATCHES: Final = 10


@check_arguments
def document_tools(documents: Callable[[ToolContext], Documents]) -> tuple[Tool, Tool, Tool]:
    """Tools over the documents of the thread that a call is made for."""

    @tool(effect=Effect.NONE)
    async def document_list(context: ToolContext) -> JSON:
        """List the loaded documents: their paths, sizes and sections, and which one is active."""
        return as_json(await documents(context).list())

    @tool(effect=Effect.NONE)
    async def document_peek(
        context: ToolContext, path: str | None = None, start: int = 0, length: int = PART_CHARACTERS
    ) -> JSON:
        """Read a part of a document, or of the active one if no path is named.

        Start counts characters. The answer says where the next part begins, and in which section this one is.
        """
        return as_json(await documents(context).peek(path, start, length))

    @tool(effect=Effect.NONE)
    async def document_find(
        context: ToolContext, words: str, path: str | None = None, limit: int = MOST_MATCHES
    ) -> JSON:
        """Find where words stand in a document, or in the active one. Read on from the start of a place."""
        return as_json(await documents(context).find(words, path, limit))

    return document_list, document_peek, document_find


PIECE_CHARACTERS = 256 * 1024
"""Characters that are handed over at once."""


class DocumentTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of documents by the names that code knows them by, and what is wrong with the others."""

    texts: Mapping[str, str]
    problems: Mapping[str, str] = {}


def document_names(documents: Sequence[Document]) -> dict[str, str]:
    """The variable name of each document in an interpreter, by path: its file name, unless two share it."""
    name_counts = Counter(document.name for document in documents)
    return {each.path: each.name if name_counts[each.name] == 1 else each.path for each in documents}


async def read_texts(documents: Documents) -> DocumentTexts:
    """The texts of all documents of a session. One that is gone, or not what it was, hides no other."""
    texts: dict[str, str] = {}
    problems: dict[str, str] = {}
    listing = await documents.list()
    for path, name in document_names(listing.documents).items():
        try:
            texts[name] = (await documents.text(path))[1].text
        except (DocumentUnreadable, VolumeFileChanged, VolumeFileNotFound, VolumePathRefused) as error:
            problems[path] = f"{error.code}: {error}"
    return DocumentTexts(texts=texts, problems=problems)


async def run_setup(interpreter: Interpreter, code: str, problem: str) -> None:
    """Run code that an interpreter needs before anything else.

    Raises:
        InterpreterGone: It failed, so that the interpreter is not what its session needs.
    """
    async for output in interpreter.run(code):
        if isinstance(output, ErrorOutput | StopOutput):
            detail = output.message if isinstance(output, ErrorOutput) else output.detail
            raise InterpreterGone(interpreter=interpreter.id, problem=f"{problem}: {detail}")


async def send_texts(interpreter: Interpreter, texts: Mapping[str, str]) -> None:
    """Make ``documents`` in an interpreter what the texts are, by their names.

    Raises:
        InterpreterGone: It could not be done, so that the interpreter is not what its session needs.
    """
    for code in _assignments(texts):
        await run_setup(interpreter, code, "documents could not be put into it")


def _assignments(texts: Mapping[str, str]) -> Iterator[str]:
    """Code that no text can break out of: a text in JSON is a literal of Python too."""
    yield "documents = {}"
    for name, text in texts.items():
        key = json.dumps(name)
        yield f"documents[{key}] = ''"
        for start in range(0, len(text), PIECE_CHARACTERS):
            yield f"documents[{key}] += {json.dumps(text[start : start + PIECE_CHARACTERS])}"
