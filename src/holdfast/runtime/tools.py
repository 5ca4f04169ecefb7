"""Tools: typed functions that a model may call, and what is known of their effects."""

import enum
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, get_type_hints, overload

import msgspec

from holdfast.core.encoding import JSON, encode_checked
from holdfast.core.errors import InvalidValue, SchemaInvalid
from holdfast.runtime.draft import Delta
from holdfast.runtime.models import ToolSpec
from holdfast.runtime.schema import State


class Effect(enum.Enum):
    """What a tool does to the world, and so what may be done after a crash in the middle of it."""

    NONE = "none"
    """It only reads: it is simply called again."""
    IDEMPOTENT = "idempotent"
    """It may be called again with the same key."""
    CHECKABLE = "checkable"
    """Its check says what became of a key."""
    UNKNOWN = "unknown"
    """Nobody knows: a person is asked, and it is never silently repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool knows of its call. ``key`` is the same whenever this call is tried again."""

    thread: str
    run: str
    call: str
    key: str
    user: str | None
    state: State
    decision: JSON = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gives back when it also changes the state."""

    output: JSON
    delta: dict[str, Any] = {}


class Suspend(Exception):
    """Raised by a tool that cannot go on before a person has answered a question."""

    def __init__(self, question: JSON) -> None:
        super().__init__(str(question))
        self.question = question


class Unfinished:
    """What a check answers when the effect did not happen; the tool is then called."""


UNFINISHED = Unfinished()
Approval: TypeAlias = bool | Callable[[JSON], bool]
"""Whether a person must agree: always, never, or by the arguments."""
Check: TypeAlias = Callable[[ToolContext], Awaitable[JSON | Unfinished]]


class Function(Protocol):
    """What a tool is made from."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        ...


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function with a name, typed arguments, and what is known of its effects."""

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    context: str | None = None
    effect: Effect = Effect.UNKNOWN
    check: Check | None = None
    approval: Approval = False

    def spec(self) -> ToolSpec:
        """What a model is told of it."""
        return ToolSpec(name=self.name, description=self.description, parameters=_schema(self.arguments))

    def needs_approval(self, arguments: JSON) -> bool:
        """Whether a person must agree before it is called with these arguments."""
        return self.approval(arguments) if callable(self.approval) else self.approval

    async def call(self, arguments: JSON, context: ToolContext) -> Outcome:
        """Call it.

        Raises:
            ValidationError: The arguments are not what it takes; nothing was called.
            InvalidValue: What it gave back is not JSON.
        """
        given = msgspec.convert(arguments, self.arguments)
        values = {name: getattr(given, name) for name in given.__struct_fields__}
        if self.context is not None:
            values[self.context] = context
        found = self.function(**values)
        if inspect.isawaitable(found):
            found = await found
        outcome = found if isinstance(found, Outcome) else Outcome(output=found)
        try:
            plain = msgspec.to_builtins(outcome.output)
        except TypeError as error:
            raise InvalidValue(path=f"output of tool {self.name}", problem=str(error)) from error
        return Outcome(output=encode_checked(plain, f"output of tool {self.name}")[1], delta=outcome.delta)


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = Effect.UNKNOWN,
    check: Check | None = None,
    approval: Approval = False,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = Effect.UNKNOWN,
    check: Check | None = None,
    approval: Approval = False,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a function: ``@tool`` or ``@tool(effect=Effect.NONE)``.

    Its arguments are what its signature says; one annotated with ``ToolContext`` is filled in. Its
    docstring is what the model reads. Unless told otherwise its effects are unknown, so after a crash in
    the middle of a call a person is asked.
    """

    def made(function: Function) -> Tool:
        return _tool(function, name, effect, check, approval)

    return made if function is None else made(function)


def _tool(
    function: Function,
    name: str | None,
    effect: Effect,
    check: Check | None,
    approval: Approval,
) -> Tool:
    if (effect is Effect.CHECKABLE) != (check is not None):
        problem = "a checkable tool has a check, and only such a one"
        raise SchemaInvalid(schema=function.__name__, field="check", problem=problem)
    context, arguments = _arguments(function)
    return Tool(
        name=name or function.__name__,
        description=inspect.getdoc(function) or "",
        function=function,
        arguments=arguments,
        context=context,
        effect=effect,
        check=check,
        approval=approval,
    )


def _arguments(function: Function) -> tuple[str | None, type[msgspec.Struct]]:
    hints = get_type_hints(function, include_extras=True)
    context: str | None = None
    fields: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name not in hints:
            problem = "every argument of a tool has a name and a type"
            raise SchemaInvalid(schema=function.__name__, field=name, problem=problem)
        if hints[name] is ToolContext:
            context = name
        elif parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    made = msgspec.defstruct(
        f"{function.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )
    return context, made


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    found = parts.pop(arguments.__name__)
    found.pop("title", None)
    return {**found, "$defs": parts} if parts else found


__all__ = ["UNFINISHED", "Delta", "Effect", "Outcome", "Suspend", "Tool", "ToolContext", "Unfinished", "tool"]
