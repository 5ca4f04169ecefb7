"""Arguments checked against annotations: what an annotation allows, and how a refusal names what is wrong."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import pytest

from clew.core.arguments import Count, Seconds, check_arguments, check_async, check_fields, check_methods
from clew.core.encoding import Id
from clew.core.errors import ClewError, InvalidArgument, InvalidId
from clew.core.shapes import shape_of


class Color(enum.Enum):
    """Something to choose from."""

    RED = 1
    BLUE = 2


class Singer(Protocol):
    """What sings."""

    name: str

    def sing(self) -> None:
        """Sing."""
        ...


class Bird:
    """A singer."""

    name = "wren"

    def sing(self) -> None:
        """Sing."""


HINTS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "anything": (Any, [None, 1, "a"], []),
    "text": (str, ["", "a"], [b"a", 1, None]),
    "integers": (int, [0, -1], [True, 1.0, "1", None]),
    "numbers": (float, [0, 1.5], [True, "1", None]),
    "truths": (bool, [True], [1, "yes", None]),
    "nothing": (None, [None], [0, ""]),
    "a choice of types": (int | None, [1, None], [True, "1"]),
    "a choice of words": (Literal["wait", 1], ["wait", 1], ["weit", True, 1.0]),
    "a choice of an enum": (Color, [Color.RED], ["RED", 1]),
    "a list": (Sequence[str], [[], ["a"], ("a",), iter(["a"])], ["a", b"a", [1], {"a"}, {"a": 1}, None]),
    "some": (Iterable[str], [["a"], {"a"}], ["a", [1], 3]),
    "a pair": (tuple[int, str], [(1, "a")], [(1,), (1, 2), "1a", None]),
    "any tuple": (tuple[int, ...], [(), (1, 2)], [("a",), 1]),
    "a dict": (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [], "a"]),
    "an object": (dict[str, Any], [{}, {"a": None}], [[], None]),
    "a function": (Callable[[int], str], [len, str], [1, "len"]),
    "a class": (type[ClewError], [ClewError, InvalidId], [Exception, "ClewError"]),
    "a protocol": (Singer, [Bird()], [Bird, "wren", None]),
    "a class of ours": (Bird, [Bird()], [Bird, None]),
}  # fmt: skip


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("hint", "good", "bad"), HINTS.values(), ids=HINTS)
def test_an_annotation_says_what_is_allowed(hint: Any, good: list[Any], bad: list[Any]) -> None:
    shape = shape_of(hint)

    assert [value for value in good if not shape.fits(value)] == []
    assert [value for value in bad if shape.fits(value)] == []
    for value in bad:
        with pytest.raises(InvalidArgument, match="it"):
            shape.refuse("it", value)


@check_arguments
def take(id: Id, *rest: int, count: Count = 0, seconds: Seconds = 1.0, names: Sequence[str] = ()) -> str:
    """Take what it is given."""
    return id


@check_methods
class Box:
    """A class with every kind of method."""

    def __init__(self, size: int) -> None:
        self.size = size

    @classmethod
    def of(cls, size: int) -> Box:
        """A box."""
        return cls(size)

    @staticmethod
    def twice(size: int) -> int:
        """Twice the size."""
        return 2 * size

    async def put(self, thing: str) -> str:
        """Put something in."""
        return thing

    async def things(self, *, after: int = 0) -> AsyncIterator[int]:
        """What is in it."""
        yield after


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "an id": (lambda: take(7), "The id cannot be used: int is not text"),  # type: ignore[arg-type]  # the mistake
    "an empty id": (lambda: take(""), "The id cannot be used: it is empty"),
    "one of the rest": (lambda: take("a", 1, "b"), "rest must be an integer, not str"),  # type: ignore[arg-type]  # the mistake
    "a negative count": (lambda: take("a", count=-1), "count must be an integer from 0 on, not -1"),
    "a true count": (lambda: take("a", count=True), "count must be an integer from 0 on, not True"),
    "no time": (lambda: take("a", seconds=float("nan")), "seconds must be a number of seconds from 0 on"),
    "a part of a list": (lambda: take("a", names=["b", 3]), r"names\[1\] must be text, not 3"),  # type: ignore[list-item]  # the mistake
    "a constructor": (lambda: Box("big"), "size must be an integer, not str"),  # type: ignore[arg-type]  # the mistake
    "a class method": (lambda: Box.of("big"), "size must be an integer, not str"),  # type: ignore[arg-type]  # the mistake
    "a static method": (lambda: Box.twice("big"), "size must be an integer, not str"),  # type: ignore[arg-type]  # the mistake
    "a coroutine function": (lambda: Box(1).put(3), "thing must be text, not 3"),  # type: ignore[arg-type]  # the mistake
    "an async iterator": (lambda: Box(1).things(after="a"), "after must be an integer, not str"),  # type: ignore[arg-type]  # the mistake
}


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("attempt", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_when_the_call_is_made(
    attempt: Callable[[], object], problem: str
) -> None:
    with pytest.raises((InvalidArgument, InvalidId), match=problem):
        attempt()


@pytest.mark.promise("B-20")
async def test_what_is_right_goes_through() -> None:
    box = Box.of(2)

    assert (take("a", 1, 2, count=3, names=["b"]), Box.twice(2), await box.put("x")) == ("a", 4, "x")
    assert [each async for each in box.things(after=4)] == [4]


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("cuont", "Did you mean 'count'?"),
        ("max_count", "Did you mean 'count'?"),
        ("zzz", "It takes id"),
    ],
)
def test_an_unknown_option_is_answered_by_what_there_is(option: str, advice: str) -> None:
    wrong: dict[str, Any] = {option: 1}

    with pytest.raises(TypeError) as error:
        take("a", **wrong)
    assert f"take() got an unexpected keyword argument {option!r}. {advice}" in str(error.value)


@pytest.mark.promise("B-20")
def test_an_error_shows_nothing_that_may_be_private() -> None:
    with pytest.raises(InvalidArgument) as error:
        take("a", names="my secret")
    assert "secret" not in str(error.value)


def test_a_checked_function_looks_like_itself() -> None:
    assert (take.__name__, take.__doc__) == ("take", "Take what it is given.")
    assert list(inspect.signature(take).parameters) == ["id", "rest", "count", "seconds", "names"]


@dataclasses.dataclass
class Point:
    """A value whose fields are checked."""

    x: int
    label: Annotated[str, "not a function"] = ""

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.promise("B-20")
def test_a_field_of_another_type_is_named_with_its_class() -> None:
    with pytest.raises(InvalidArgument, match=r"Point\.x must be an integer, not str"):
        Point("a")  # type: ignore[arg-type]  # the mistake
    assert Point(1, label="a").label == "a"


def plain(value: int) -> int:
    """Be done at once."""
    return value


async def coroutine(value: int) -> int:
    """Be awaited."""
    return value


def passing_on(value: int) -> Awaitable[int]:
    """Give what is to be awaited."""
    return coroutine(value)


@functools.wraps(coroutine)
def forward(value: int) -> Any:
    """Give what is to be awaited, as another."""
    return coroutine(value)


@pytest.mark.promise("B-20")
def test_only_a_function_that_is_plainly_not_async_is_refused() -> None:
    fine: list[Callable[..., Any]] = [coroutine, passing_on, forward, functools.partial(coroutine, 1)]
    for function in (*fine, lambda value: value):
        check_async(function, "it")

    with pytest.raises(InvalidArgument, match=r"it must be async\. Write it as: async def plain"):
        check_async(plain, "it")
