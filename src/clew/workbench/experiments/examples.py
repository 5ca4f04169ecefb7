"""Examples: what was asked and what was answered, taken from threads or from lines of JSON. Pure."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from clew.core.encoding import JSON, as_json, check_id, encode
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.messages.projection import project_item
from clew.core.values import Item, Record

EXAMPLE_KIND: Final = "example"
LONGEST_NAME = 128
ROLES = ("user", "assistant", "system")


class ExampleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    content: str


class ExampleSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an example: a thread, and the version and place of the answer in it."""

    thread: str
    version: int = 0
    item: int = 0


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation that ends with a question, and the answer that is expected.

    Its ``owner`` is the owner of the thread that it was made from, so it goes when they are erased.
    ``number`` is its place in the data set, ``revision`` is filled in by the store.
    """

    id: str
    messages: tuple[ExampleMessage, ...]
    expected: JSON = None
    source: ExampleSource | None = None
    owner: str | None = None
    number: int = 0
    revision: int = 0

    @property
    def question(self) -> str:
        """The last message of the conversation."""
        return self.messages[-1].content if self.messages else ""


def examples_of(
    thread: str, owner: str | None, items: Iterable[Item], *, since: int = 0, window: int = 20
) -> Iterator[Example]:
    """An example for each turn that was answered: what was said up to it, and the last answer.

    Tools, and what is said before they have answered, are left out. ``since`` leaves out turns that were
    answered before a version; of what was said, the newest ``window`` messages are kept.
    """
    messages: list[ExampleMessage] = []
    for prompts, answer, item in _turns(items):
        messages += prompts
        if answer is not None and item is not None:
            if any(message.role == "user" for message in prompts) and item.version >= since:
                source = ExampleSource(thread=thread, version=item.version, item=item.place)
                yield Example(
                    id=_content_id([thread, item.place, item.version]),
                    messages=tuple(messages[-window:]),
                    expected=answer.content,
                    source=source,
                    owner=owner,
                )
            messages.append(answer)


def _turns(
    items: Iterable[Item],
) -> Iterator[tuple[list[ExampleMessage], ExampleMessage | None, Item | None]]:
    """Pairs of a question and the last answer before the next question."""
    prompts: list[ExampleMessage] = []
    answer: ExampleMessage | None = None
    answer_item: Item | None = None
    for item, message in _messages(items):
        if message.role == "assistant":
            answer, answer_item = message, item
            continue
        if answer is not None:
            yield prompts, answer, answer_item
            prompts, answer, answer_item = [], None, None
        prompts.append(message)
    yield prompts, answer, answer_item


def _messages(items: Iterable[Item]) -> Iterator[tuple[Item, ExampleMessage]]:
    for item in items:
        if item.visibility == "all":
            for message in project_item(item):
                if message.text and message.role in ROLES:
                    yield item, ExampleMessage(role=message.role, content=message.text)


def _content_id(value: JSON) -> str:
    return hashlib.sha256(encode(value)).hexdigest()[:20]


# Lines of JSON.


class ExampleLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An example as a line of a file has it; ``input`` is short for one message of a user."""

    messages: tuple[ExampleMessage, ...] = ()
    input: str | None = None
    expected: JSON = None
    id: str | None = None
    source: ExampleSource | None = None
    owner: str | None = None


def line_of(example: Example) -> bytes:
    """An example as a line."""
    fields = {"id": example.id, "messages": as_json(example.messages), "expected": example.expected}
    optional_fields = {"source": as_json(example.source), "owner": example.owner}
    return (
        encode(fields | {name: value for name, value in optional_fields.items() if value is not None}) + b"\n"
    )


def examples_from(lines: Iterable[bytes]) -> Iterator[Example]:
    """Examples from lines; one without an id is named by what it says.

    Raises:
        InvalidArgument: A line is no example; the error says which.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _example_from(line, number)


def _example_from(line: bytes, number: int) -> Example:
    try:
        fields = msgspec.json.decode(line, type=ExampleLine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgument(problem=f"Line {number} is no example: {error}.") from error
    return example_from_line(fields, f"Line {number}")


def example_from_line(fields: ExampleLine, what: str) -> Example:
    """The example that a line is; ``what`` names it where it is none.

    Raises:
        InvalidArgument: It has no question.
    """
    messages = (
        fields.messages
        if fields.input is None
        else (*fields.messages, ExampleMessage(role="user", content=fields.input))
    )
    if not messages:
        raise InvalidArgument(problem=f"{what} is no example: it has neither messages nor an input.")
    return Example(
        id=check_name(fields.id or _content_id([as_json(messages), fields.expected]), "example id"),
        messages=messages,
        expected=fields.expected,
        source=fields.source,
        owner=fields.owner,
    )


def check_name(name: str, what: str) -> str:
    """A name of a data set, an example or an experiment.

    Raises:
        InvalidId: It is no id, or a long one.
        InvalidArgument: It holds a slash.
    """
    check_id(name, what)
    if len(name.encode()) > LONGEST_NAME or "/" in name:
        raise InvalidArgument(problem=f"A {what} has at most {LONGEST_NAME} bytes and no slash.")
    return name


# Records.


def example_record(dataset: str, example: Example) -> Record:
    """The record that an example is kept as. What names its thread goes when that is erased."""
    thread_tags = () if example.source is None else (f"thread:{example.source.thread}",)
    return Record(
        kind=EXAMPLE_KIND,
        id=record_id(dataset, example.id),
        owner=example.owner,
        tags=(f"dataset:{dataset}", *thread_tags),
        sort=example.number,
        body=as_json(msgspec.structs.replace(example, owner=None, number=0, revision=0)),
    )


def record_id(parent: str, example: str) -> str:
    """The id of a record about an example: that of a data set, or of an experiment."""
    return f"{parent}/{example}"


def example_of(record: Record) -> Example:
    """The example behind a record."""
    try:
        example = msgspec.convert(record.body, Example)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"example {record.id!r}", problem=str(error)) from error
    return msgspec.structs.replace(example, owner=record.owner, number=record.sort, revision=record.revision)
