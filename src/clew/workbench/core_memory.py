"""Core memory: a few short texts that a model always has before it, each with a limit of its own."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from clew.core import patch as core_patch
from clew.core.arguments import check_arguments, check_methods
from clew.core.encoding import JSON, encode
from clew.core.errors import BlockFull, BlockNotFound, InvalidArgument, StateConflict, VersionConflict
from clew.core.manifest.document import CORE_MEMORY, MEMORY
from clew.core.ops import Document
from clew.core.values import Anywhere, Committed, Exact, Expect
from clew.database.thread import Thread
from clew.runtime.tools.tool import Effect, Outcome, Tool, ToolContext, tool

CHANGED: Final = "CoreMemoryChanged"
ANYWHERE: Final = Anywhere()
USUAL: Final[Mapping[str, int]] = {"persona": 2000, "human": 2000, "scratchpad": 1000}

CoreMemoryField: TypeAlias = Annotated[dict[str, str], core_patch.merge]
"""How a state declares core memory, so that the tools can change it: ``core_memory: CoreMemoryField``."""


class BlockLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many characters a block may have; ``other`` is for the blocks that are not named."""

    blocks: Mapping[str, int] = msgspec.field(default_factory=lambda: USUAL)
    other: int = 1000

    def of(self, block: str) -> int:
        """The limit of a block."""
        return self.blocks.get(block, self.other)


LIMITS: Final = BlockLimits()


# What becomes of a block, decided without looking at any store.


def blocks_of(state: Document, defaults: Mapping[str, JSON] = CORE_MEMORY) -> dict[str, str]:
    """The blocks of a state by their names; those that it does not hold are as they begin."""
    held = state.get(MEMORY)
    found = {**defaults, **(held if isinstance(held, dict) else {})}
    return {name: _text(found[name]) for name in sorted(found)}


def _text(value: JSON) -> str:
    """What a block says; a manifest from elsewhere may hold more than texts."""
    return value if isinstance(value, str) else encode(value).decode()


def appended(blocks: Mapping[str, str], block: str, text: str, limits: BlockLimits = LIMITS) -> str:
    """What a block says once a text stands below what is in it.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
    """
    before = _known(blocks, block)
    return _fitting(block, f"{before}\n{text}" if before else text, limits)


def replaced(blocks: Mapping[str, str], block: str, old: str, new: str, limits: BlockLimits = LIMITS) -> str:
    """What a block says once a part of it is put differently; without a new text the part is gone.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
        InvalidArgument: The part is not there, or not only once.
    """
    before = _known(blocks, block)
    times = before.count(old) if old else 0
    if times != 1:
        found = (
            "nothing was named" if not old else f"it is there {times} times" if times else "it is not there"
        )
        problem = f"The text to replace must stand in block {block!r} exactly once, and {found}."
        raise InvalidArgument(problem=problem)
    return _fitting(block, before.replace(old, new), limits)


def rewritten(blocks: Mapping[str, str], block: str, text: str, limits: BlockLimits = LIMITS) -> str:
    """What a block says once it is written anew.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
    """
    _known(blocks, block)
    return _fitting(block, text, limits)


def _known(blocks: Mapping[str, str], block: str) -> str:
    if block not in blocks:
        raise BlockNotFound(block=block, known=sorted(blocks))
    return blocks[block]


def _fitting(block: str, text: str, limits: BlockLimits) -> str:
    limit = limits.of(block)
    if len(text) > limit:
        raise BlockFull(block=block, size=len(text), limit=limit)
    return text


@check_arguments
def rendered(blocks: Mapping[str, str], limits: BlockLimits = LIMITS) -> str:
    """Core memory as a prompt has it. Every line of a block is set in, so that none passes for a heading."""
    parts = [
        f"[{block}] {len(text)} of {limits.of(block)} characters\n{_set_in(text)}"
        for block, text in blocks.items()
    ]
    return "\n".join(["Core memory:", *parts])


def _set_in(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines() or ["(empty)"])


# Calls.


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """Core memory at one version of its thread."""

    version: int
    blocks: dict[str, str]


@check_methods
class CoreMemory:
    """The core memory of one thread.

    Changes of two blocks never disturb each other, nor a turn that runs. Of two changes of one block the
    slower is refused.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        limits: BlockLimits = LIMITS,
        defaults: Mapping[str, JSON] = CORE_MEMORY,
        author: str | None = None,
    ) -> None:
        self.limits = limits
        self._thread = thread
        self._defaults = defaults
        self._author = author

    async def blocks(self, *, at: int | None = None) -> Blocks:
        """What the blocks say, now or at an earlier version."""
        head = await self._thread.head(at=at)
        return Blocks(version=head.version, blocks=blocks_of(head.state, self._defaults))

    async def append(self, block: str, text: str, *, expect: Expect = ANYWHERE) -> Committed:
        """Write a text below what is in a block.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            StateConflict: Somebody changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(block, lambda known: appended(known, block, text, self.limits), expect)

    async def replace(self, block: str, old: str, new: str, *, expect: Expect = ANYWHERE) -> Committed:
        """Put a part of a block differently.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            InvalidArgument: The part is not there, or not only once.
            StateConflict: Somebody changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(block, lambda known: replaced(known, block, old, new, self.limits), expect)

    async def put(self, block: str, text: str, *, expect: Expect = ANYWHERE) -> Committed:
        """Write a block anew.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            StateConflict: Somebody changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(block, lambda known: rewritten(known, block, text, self.limits), expect)

    async def _change(
        self, block: str, decide: Callable[[Mapping[str, str]], str], expect: Expect
    ) -> Committed:
        """Change one block, whatever else becomes of the thread meanwhile."""
        seen = await self.blocks(at=expect.version if isinstance(expect, Exact) else None)
        patch = core_patch.merge([MEMORY], {block: decide(seen.blocks)})
        while True:
            head = await self._thread.head()
            now = blocks_of(head.state, self._defaults)
            if now.get(block) != seen.blocks[block]:
                raise self._conflict(block, seen.version, head.version, expect)
            try:
                return await self._thread.append(
                    patches=[patch],
                    reason=CHANGED,
                    author=self._author,
                    expect=Exact(head.version, head.hash),
                )
            except VersionConflict:
                continue  # something else of the thread may have changed; the block decides

    def _conflict(self, block: str, seen: int, now: int, expect: Expect) -> StateConflict | VersionConflict:
        if isinstance(expect, Exact):
            return VersionConflict(thread=self._thread.id, expected=seen, actual=now)
        return StateConflict(
            thread=self._thread.id, path=[MEMORY, block], ours="merge", theirs="change", version=now
        )


# Tools.


@check_arguments
def core_memory_tools(
    limits: BlockLimits = LIMITS, defaults: Mapping[str, JSON] = CORE_MEMORY
) -> tuple[Tool, Tool]:
    """What a model changes core memory with, in a state that has it as a ``CoreMemoryField``.

    A change commits with the tool's result, so after a crash it is there once or not at all.
    """

    @tool(effect=Effect.NONE)
    def core_memory_append(block: str, text: str, context: ToolContext) -> Outcome:
        """Write a text below what is in a block of core memory. Change a block only once in one answer."""
        return _outcome(block, appended(_held(context, defaults), block, text, limits), limits)

    @tool(effect=Effect.NONE)
    def core_memory_replace(block: str, old: str, new: str, context: ToolContext) -> Outcome:
        """Put a part of a block of core memory differently, or take it out if the new text is empty.

        The old text must stand in the block exactly once. Change a block only once in one answer.
        """
        return _outcome(block, replaced(_held(context, defaults), block, old, new, limits), limits)

    return core_memory_append, core_memory_replace


def _held(context: ToolContext, defaults: Mapping[str, JSON]) -> dict[str, str]:
    return blocks_of({MEMORY: getattr(context.state, MEMORY, None)}, defaults)


def _outcome(block: str, text: str, limits: BlockLimits) -> Outcome:
    told = f"Block {block!r} has {len(text)} of {limits.of(block)} characters now."
    return Outcome(output=told, delta={MEMORY: {block: text}})
