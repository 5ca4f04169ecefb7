"""Core memory: a few short texts that a model always has before it, each with a limit of its own."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from clew.core import patch as core_patch
from clew.core.arguments import check_arguments, check_methods
from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import BlockFull, BlockNotFound, InvalidArgument, StateConflict, VersionConflict
from clew.core.manifest.document import CORE_MEMORY, MEMORY_KEY
from clew.core.ops import Document
from clew.core.values import AnyVersion, Committed, Exact, Expectation
from clew.database.thread import Thread
from clew.runtime.state.schema import Schema
from clew.runtime.tools.tool import Effect, Tool, ToolContext, ToolOutcome, tool

CORE_MEMORY_CHANGED: Final = "CoreMemoryChanged"
ANY_VERSION: Final = AnyVersion()
BLOCK_CHARACTERS: Final[Mapping[str, int]] = {"persona": 2000, "human": 2000, "scratchpad": 1000}

CoreMemoryField: TypeAlias = Annotated[dict[str, str], core_patch.merge]
"""How a state declares core memory, so that the tools can change it: ``core_memory: CoreMemoryField``."""


class BlockLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The number of characters that a block may have; ``other`` is for the blocks that are not named."""

    blocks: Mapping[str, int] = msgspec.field(default_factory=lambda: BLOCK_CHARACTERS)
    other: int = 1000

    def of(self, block: str) -> int:
        """The limit of a block."""
        return self.blocks.get(block, self.other)


LIMITS: Final = BlockLimits()


# What becomes of a block, decided without looking at any store.


def default_blocks(schema: Schema) -> dict[str, JSON]:
    """Return the core memory that a session begins with: the default of the schema's field, if it has one."""
    field = schema.fields.get(MEMORY_KEY)
    defaults = dict(CORE_MEMORY) if field is None else as_json(field.default())
    return defaults if isinstance(defaults, dict) else {}


def blocks_of(state: Document, defaults: Mapping[str, JSON] = CORE_MEMORY) -> dict[str, str]:
    """The blocks of a state by their names; those that it does not hold are as they begin."""
    memory = state.get(MEMORY_KEY)
    blocks = {**defaults, **(memory if isinstance(memory, dict) else {})}
    return {name: _as_text(blocks[name]) for name in sorted(blocks)}


def _as_text(value: JSON) -> str:
    """The text of a block; a manifest from elsewhere may hold other values than texts."""
    return value if isinstance(value, str) else encode(value).decode()


def append_to_block(blocks: Mapping[str, str], block: str, text: str, limits: BlockLimits = LIMITS) -> str:
    """The text of a block after another text is added below it.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
    """
    before = _existing_block(blocks, block)
    return _check_limit(block, f"{before}\n{text}" if before else text, limits)


def replace_in_block(
    blocks: Mapping[str, str], block: str, old: str, new: str, limits: BlockLimits = LIMITS
) -> str:
    """The text of a block after a part of it is replaced; without a new text the part is removed.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
        InvalidArgument: The part is not there, or not only once.
    """
    before = _existing_block(blocks, block)
    times = before.count(old) if old else 0
    if times != 1:
        reason = (
            "nothing was named" if not old else f"it is there {times} times" if times else "it is not there"
        )
        problem = f"The text to replace must occur in block {block!r} exactly once, and {reason}."
        raise InvalidArgument(problem=problem)
    return _check_limit(block, before.replace(old, new), limits)


def rewrite_block(blocks: Mapping[str, str], block: str, text: str, limits: BlockLimits = LIMITS) -> str:
    """The text of a block after it is written anew.

    Raises:
        BlockNotFound: There is no such block.
        BlockFull: It would be over its limit.
    """
    _existing_block(blocks, block)
    return _check_limit(block, text, limits)


def _existing_block(blocks: Mapping[str, str], block: str) -> str:
    if block not in blocks:
        raise BlockNotFound(block=block, known=sorted(blocks))
    return blocks[block]


def _check_limit(block: str, text: str, limits: BlockLimits) -> str:
    limit = limits.of(block)
    if len(text) > limit:
        raise BlockFull(block=block, size=len(text), limit=limit)
    return text


@check_arguments
def render_blocks(blocks: Mapping[str, str], limits: BlockLimits = LIMITS) -> str:
    """Core memory as a prompt has it. Every line of a block is set in, so that none passes for a heading."""
    parts = [
        f"[{block}] {len(text)} of {limits.of(block)} characters\n{_indent(text)}"
        for block, text in blocks.items()
    ]
    return "\n".join(["Core memory:", *parts])


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines() or ["(empty)"])


# Calls.


class CoreMemorySnapshot(msgspec.Struct, frozen=True, kw_only=True):
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

    async def blocks(self, *, at: int | None = None) -> CoreMemorySnapshot:
        """The texts of the blocks, now or at an earlier version."""
        head = await self._thread.head(at=at)
        return CoreMemorySnapshot(version=head.version, blocks=blocks_of(head.state, self._defaults))

    async def append(self, block: str, text: str, *, expect: Expectation = ANY_VERSION) -> Committed:
        """Write a text below what is in a block.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            StateConflict: Another writer changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(
            block, lambda blocks: append_to_block(blocks, block, text, self.limits), expect
        )

    async def replace(
        self, block: str, old: str, new: str, *, expect: Expectation = ANY_VERSION
    ) -> Committed:
        """Put a part of a block differently.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            InvalidArgument: The part is not there, or not only once.
            StateConflict: Another writer changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(
            block, lambda blocks: replace_in_block(blocks, block, old, new, self.limits), expect
        )

    async def put(self, block: str, text: str, *, expect: Expectation = ANY_VERSION) -> Committed:
        """Write a block anew.

        Raises:
            BlockNotFound: There is no such block.
            BlockFull: It would be over its limit.
            StateConflict: Another writer changed the block at the same moment.
            VersionConflict: The block was changed since the version that is expected.
        """
        return await self._change(
            block, lambda blocks: rewrite_block(blocks, block, text, self.limits), expect
        )

    async def _change(
        self, block: str, decide: Callable[[Mapping[str, str]], str], expect: Expectation
    ) -> Committed:
        """Change one block, whatever else becomes of the thread meanwhile."""
        snapshot = await self.blocks(at=expect.version if isinstance(expect, Exact) else None)
        patch = core_patch.merge([MEMORY_KEY], {block: decide(snapshot.blocks)})
        while True:
            head = await self._thread.head()
            blocks = blocks_of(head.state, self._defaults)
            if blocks.get(block) != snapshot.blocks[block]:
                raise self._conflict(block, snapshot.version, head.version, expect)
            try:
                return await self._thread.append(
                    patches=[patch],
                    reason=CORE_MEMORY_CHANGED,
                    author=self._author,
                    expect=Exact(head.version, head.hash),
                )
            except VersionConflict:
                continue  # something else of the thread may have changed; the block decides

    def _conflict(
        self, block: str, base_version: int, head_version: int, expect: Expectation
    ) -> StateConflict | VersionConflict:
        if isinstance(expect, Exact):
            return VersionConflict(thread=self._thread.id, expected=base_version, actual=head_version)
        return StateConflict(
            thread=self._thread.id,
            path=[MEMORY_KEY, block],
            ours="merge",
            theirs="change",
            version=head_version,
        )


# Tools.


@check_arguments
def core_memory_tools(
    limits: BlockLimits = LIMITS, defaults: Mapping[str, JSON] = CORE_MEMORY
) -> tuple[Tool, Tool]:
    """Tools with which a model changes core memory, in a state that has it as a ``CoreMemoryField``.

    A change commits with the tool's result, so after a crash it is there once or not at all.
    """

    @tool(effect=Effect.NONE)
    def core_memory_append(block: str, text: str, context: ToolContext) -> ToolOutcome:
        """Write a text below what is in a block of core memory. Change a block only once in one answer."""
        return _outcome(block, append_to_block(_blocks_in(context, defaults), block, text, limits), limits)

    @tool(effect=Effect.NONE)
    def core_memory_replace(block: str, old: str, new: str, context: ToolContext) -> ToolOutcome:
        """Put a part of a block of core memory differently, or take it out if the new text is empty.

        The old text must stand in the block exactly once. Change a block only once in one answer.
        """
        return _outcome(
            block, replace_in_block(_blocks_in(context, defaults), block, old, new, limits), limits
        )

    return core_memory_append, core_memory_replace


def _blocks_in(context: ToolContext, defaults: Mapping[str, JSON]) -> dict[str, str]:
    return blocks_of({MEMORY_KEY: getattr(context.state, MEMORY_KEY, None)}, defaults)


def _outcome(block: str, text: str, limits: BlockLimits) -> ToolOutcome:
    output = f"Block {block!r} has {len(text)} of {limits.of(block)} characters now."
    return ToolOutcome(output=output, delta={MEMORY_KEY: {block: text}})
