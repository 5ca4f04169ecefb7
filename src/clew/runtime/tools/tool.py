"""Tools: typed functions that a model may call, and what is known of their effects."""

import asyncio
import enum
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_type_hints, overload

import msgspec

from clew.core.arguments import check_arguments, check_fields
from clew.core.encoding import JSON, encode_checked
from clew.core.errors import InvalidValue, SchemaInvalid
from clew.runtime.model.protocol import ToolSpec
from clew.runtime.state.schema import State
from clew.runtime.turn.draft import Delta

log = logging.getLogger("clew")


class Effect(enum.Enum):
    """The effect of a tool on the world, which decides what is done after a crash in the middle of a call."""

    NONE = "none"
    """It only reads: it is simply called again."""
    IDEMPOTENT = "idempotent"
    """It may be called again with the same key."""
    CHECKABLE = "checkable"
    """Its check says what became of a key."""
    UNKNOWN = "unknown"
    """Unknown after a crash: a person is asked, and it is never silently repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The call that a tool works for.

    ``key`` is the same whenever this call is tried again, and no other call ever has it. ``state`` is a copy
    of its own. ``decision`` is what a person's ``PassOn`` gave.
    """

    thread: str
    run: str
    call: str
    key: str
    user: str | None
    state: State
    decision: JSON = None


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a tool that also changes the state, by a delta like that of a stage."""

    output: JSON
    delta: Delta = {}


class Suspend(Exception):
    """Raised by a tool that cannot go on before a person has answered a question.

    ``delta`` is what it wants kept meanwhile; fields that belong to a tool call are there when it is called
    again.
    """

    def __init__(self, question: JSON, *, delta: Delta | None = None) -> None:
        super().__init__(str(question))
        self.question = question
        self.delta: Delta = delta or {}


class NotHappened:
    """The answer of a check that the effect did not happen; the tool is then called."""


NOT_HAPPENED = NotHappened()
ApprovalRule: TypeAlias = bool | Callable[[JSON], bool]
"""True if a person must agree to every call, or a function of the arguments that returns it."""
ToolKind: TypeAlias = Literal["tool", "code", "retrieval"]
"""The kind of step that a call is in its run."""
EffectCheck: TypeAlias = Callable[[ToolContext], Any]
"""Returns the output of the call with a key, or ``NOT_HAPPENED``. It may be async."""


class ToolFunction(Protocol):
    """A function that becomes a tool."""

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
    check: EffectCheck | None = None
    approval: ApprovalRule = False
    kind: ToolKind = "tool"

    def __post_init__(self) -> None:
        check_fields(self)

    def spec(self) -> ToolSpec:
        """Return the description for a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=_schema(self.arguments))

    def check_arguments(self, arguments: JSON) -> dict[str, Any]:
        """Return the arguments for the function, converted to its types.

        Raises:
            ValidationError: The arguments are not what it takes.
        """
        values = msgspec.convert(arguments, self.arguments)
        return {name: getattr(values, name) for name in values.__struct_fields__}

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a person must agree to a call with these arguments. If the rule fails, one must."""
        if not callable(self.approval):
            return self.approval
        try:
            return self.approval(msgspec.to_builtins(arguments))
        except Exception:
            log.exception("Whether tool %s needs approval cannot be told; a person is asked.", self.name)
            return True

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Call it with arguments that were checked.

        Raises:
            Suspend: A person has to answer first.
            InvalidValue: What it gave back is not JSON.
        """
        values = dict(arguments) if self.context is None else {**arguments, self.context: context}
        try:
            value = await _call_function(self.function, values)
        except Suspend as suspension:
            raise Suspend(
                self._plain(suspension.question, "question"), delta=suspension.delta
            ) from suspension
        outcome = value if isinstance(value, ToolOutcome) else ToolOutcome(output=value)
        return msgspec.structs.replace(outcome, output=self._plain(outcome.output, "output"))

    async def run_check(self, context: ToolContext) -> JSON | NotHappened:
        """Run its check on a call that may have had its effect."""
        assert self.check is not None
        value = await _call_function(self.check, {}, context)
        return value if isinstance(value, NotHappened) else self._plain(value, "check")

    def _plain(self, value: Any, what: str) -> JSON:
        try:
            plain = msgspec.to_builtins(value)
        except TypeError as error:
            raise InvalidValue(path=f"{what} of tool {self.name}", problem=str(error)) from error
        return encode_checked(plain, f"{what} of tool {self.name}")[1]


async def _call_function(function: Callable[..., Any], values: Mapping[str, Any], *first: Any) -> Any:
    """Call a function; one that is not async runs in a thread, so that the loop does not wait for it."""
    if inspect.iscoroutinefunction(function):
        return await function(*first, **values)
    result = await asyncio.to_thread(_call_in_thread, function, values, first)
    return await result if inspect.isawaitable(result) else result


def _call_in_thread(function: Callable[..., Any], values: Mapping[str, Any], first: Sequence[Any]) -> Any:
    try:
        return function(*first, **values)
    except StopIteration as error:  # a future cannot carry it
        raise RuntimeError("the function raised StopIteration") from error


def tool_of(function: Tool | ToolFunction) -> Tool:
    """Return a tool as it is, or make one of a function, of whose effects nothing is known.

    Raises:
        SchemaInvalid: Nothing can be made of the function's arguments.
    """
    return function if isinstance(function, Tool) else tool(function)


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = Effect.UNKNOWN,
    check: EffectCheck | None = None,
    approval: ApprovalRule = False,
    kind: ToolKind = "tool",
) -> Callable[[ToolFunction], Tool]: ...


@check_arguments
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = Effect.UNKNOWN,
    check: EffectCheck | None = None,
    approval: ApprovalRule = False,
    kind: ToolKind = "tool",
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of a function: ``@tool`` or ``@tool(effect=Effect.NONE)``.

    Its arguments are what its signature says; one annotated with ``ToolContext`` is filled in. Its
    docstring is what the model reads. Unless ``effect`` says otherwise its effects are unknown, so after
    a crash in the middle of a call a person is asked. ``kind`` says what it is among the steps of a run.
    """

    def decorate(function: ToolFunction) -> Tool:
        return _make_tool(function, name, effect, check, approval, kind)

    return decorate if function is None else decorate(function)


def _make_tool(
    function: ToolFunction,
    name: str | None,
    effect: Effect,
    check: EffectCheck | None,
    approval: ApprovalRule,
    kind: ToolKind,
) -> Tool:
    if name is None and function.__name__ == "<lambda>":
        problem = "a lambda has no name for the model to call it by; write a function, or give a name"
        raise SchemaInvalid(schema=function.__name__, field="name", problem=problem)
    if (effect is Effect.CHECKABLE) != (check is not None):
        problem = "a checkable tool has a check, and only such a one"
        raise SchemaInvalid(schema=function.__name__, field="check", problem=problem)
    context, arguments = _read_signature(function)
    return Tool(
        name=name or function.__name__,
        description=inspect.getdoc(function) or "",
        function=function,
        arguments=arguments,
        context=context,
        effect=effect,
        check=check,
        approval=approval,
        kind=kind,
    )


def _read_signature(function: ToolFunction) -> tuple[str | None, type[msgspec.Struct]]:
    """Return the name of the argument that takes the context, if one does, and the type of the others."""

    def invalid(field: str, problem: str) -> SchemaInvalid:
        return SchemaInvalid(schema=function.__name__, field=field, problem=problem)

    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise invalid("", str(error)) from error
    context: str | None = None
    fields: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise invalid(name, "every argument of a tool is given by name")
        if name not in hints:
            raise invalid(name, "every argument of a tool has a type")
        if hints[name] is ToolContext:
            context = name
        else:
            fields.append((name, hints[name], *_default(parameter)))
    arguments = msgspec.defstruct(
        f"{function.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )
    try:
        _schema(arguments)
    except TypeError as error:
        raise invalid("", f"its arguments cannot be described to a model: {error}") from error
    return context, arguments


def _default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    if parameter.default is parameter.empty:
        return ()
    if isinstance(parameter.default, list | dict | set):
        return (msgspec.field(default_factory=parameter.default.copy),)
    return (parameter.default,)


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments for a model."""
    _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = parts.pop(arguments.__name__)
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema
