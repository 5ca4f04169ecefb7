"""Encoding of items and changesets into rows, and back."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON, check_id, decoder, encode_checked, is_shallow, try_encode
from clew.core.errors import ClewError, InvalidArgument, InvalidValue, TooLarge
from clew.core.log.rows import ChangesetRow, ItemRow
from clew.core.ops import Document, Op
from clew.core.shapes import describe_value
from clew.core.values import (
    Changeset,
    Cut,
    Drop,
    Enqueue,
    Expectation,
    Finish,
    Item,
    Limits,
    Put,
    Require,
    UnreadableItem,
)


class ItemMeta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """All of an item but its body and place. A stored format: JSON in the item's row, hashed as it is."""

    role: str = ""
    kind: str = "message"
    id: str | None = None
    format: str = "clew"
    codec: str = "json"
    run: str | None = None
    step: int | None = None
    visibility: str = "all"
    call: str | None = None


ItemFacts: TypeAlias = Item | ItemMeta
"""An item on its way in, or the meta of one that is stored: either says what the item is."""


class PlaceRange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Items of a changeset that follow one another: so many from a place on. Part of a stored envelope."""

    log: str
    first: int
    count: int


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """All of a changeset but its content and the bodies of its items. A stored format: JSON in its row.

    It is never erased: the hash chain covers it as it is, not by a commitment.
    """

    reason: str = "append"
    run_id: str | None = None
    parent_run_id: str | None = None
    key: str | None = None
    author: str | None = None
    cuts: tuple[Cut, ...] = ()
    items: tuple[PlaceRange, ...] = ()


class Content(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The ops of a changeset and notes of its run. A stored format: JSON in its row, which can be erased."""

    patches: tuple[Op, ...] = ()
    snapshot: Document | None = None
    state_actions: tuple[JSON, ...] = ()
    run_meta: Document | None = None


class PreparedAppend(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An append checked and encoded as far as can be without the store.

    ``metas`` and ``bodies`` belong to ``change.items``, one to each. ``content`` is ``encoded_content``
    decoded again, for the planner to apply to the state: it shares nothing with the caller.
    """

    thread: str
    change: Changeset
    expect: Expectation
    metas: tuple[bytes, ...]
    bodies: tuple[bytes, ...]
    encoded_content: bytes | None
    content: Content


PreparedWrite: TypeAlias = PreparedAppend | Put | Drop | Require | Enqueue | Finish
"""A write that was checked, and can be planned."""

_encoder = msgspec.json.Encoder(order="sorted")
_meta_decoder = msgspec.json.Decoder(ItemMeta)
_read_envelope = decoder(Envelope)
_read_content = decoder(Content)
_content_decoder = msgspec.json.Decoder(Content)
_decode_body = msgspec.json.Decoder().decode
_decode_meta = lru_cache(maxsize=4096)(_meta_decoder.decode)
_no_content = Content()
OP: tuple[type, ...] = get_args(Op)
"""Every kind of op."""


def prepare_append(thread: str, change: Changeset, expect: Expectation, limits: Limits) -> PreparedAppend:
    """Check and encode all of an append that does not depend on the version it will make.

    It runs in the caller, so that the one writer of a store does not spend its time on JSON.

    Raises:
        InvalidValue: A part of it is not JSON.
        InvalidId: An id or a name in it cannot be used.
        TooLarge: A body, or all of it, is over the limit.
    """
    _check_parts(change)
    _check_names(change)
    bodies = tuple([_encode_body(item, index, limits) for index, item in enumerate(change.items)])
    encoded_content, content = _encode_content(change)
    size = sum(map(len, bodies)) + len(encoded_content or b"")
    if size > limits.changeset:
        raise TooLarge(what="changeset", size=size, limit=limits.changeset)
    return PreparedAppend(
        thread=thread,
        change=change,
        expect=expect,
        metas=tuple(map(_encode_meta, change.items)),
        bodies=bodies,
        encoded_content=encoded_content,
        content=content,
    )


def _check_parts(change: Changeset) -> None:
    """Refuse a changeset that is made of anything but items, ops and cuts."""
    if not isinstance(change, Changeset):
        raise InvalidArgument(problem=f"change must be a Changeset, not {describe_value(change)}.")
    check_items(change.items)
    check_patches(change.patches)
    _check_list(change.cuts, "cuts", Cut, "a Cut")
    _check_list(change.state_actions, "state_actions", object, "anything")
    for cut in change.cuts:
        check_fields(cut)


def check_items(items: object, what: str = "items") -> None:
    """Refuse anything but a list of items.

    Raises:
        InvalidArgument: It is none; the error names the part, and says how an item is made.
    """
    # Text alone is refused: it does not say whose it is.
    _check_list(items, what, Item, 'an item, such as clew.user("Hi") or clew.assistant("Hello")')


def check_patches(patches: object, what: str = "patches") -> None:
    """Refuse anything but a list of ops.

    Raises:
        InvalidArgument: It is none; the error names the part, and says how an op is made.
    """
    _check_list(patches, what, OP, 'an op, such as clew.set("city", "Bern")')


def _check_list(parts: object, what: str, kind: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(parts, tuple | list):
        if isinstance(parts, Iterator):
            return  # it can be read once, by what uses it
        raise InvalidArgument(
            problem=f"{what} must be a list, each part {wanted}, not {describe_value(parts)}."
        )
    for index, part in enumerate(parts):
        if not isinstance(part, kind):
            raise InvalidArgument(problem=f"{what}[{index}] must be {wanted}, not {describe_value(part)}.")


Items: TypeAlias = Annotated[Sequence[Item], check_items]
"""Items as the argument of a call."""
Patches: TypeAlias = Annotated[Sequence[Op], check_patches]
"""Ops as the argument of a call."""


def _check_names(change: Changeset) -> None:
    # One after the other, since every append comes through here.
    if change.run_id is not None:
        check_id(change.run_id, "run id")
    if change.parent_run_id is not None:
        check_id(change.parent_run_id, "parent run id")
    if change.key is not None:
        check_id(change.key, "idempotency key")
    if change.author is not None:
        check_id(change.author, "author")
    if change.reason != "append":
        check_id(change.reason, "reason")
    for cut in change.cuts:
        check_id(cut.log, "log name")
    for index, item in enumerate(change.items):
        _check_item(item, index)


def _check_item(item: Item, index: int) -> None:
    try:
        _check_words(item.log, item.format, item.codec, item.kind, item.visibility, item.role or "none")
    except TypeError:  # something that cannot be remembered is not text either
        _check_words.__wrapped__(
            item.log, item.format, item.codec, item.kind, item.visibility, item.role or "none"
        )
    if item.id is not None:
        check_id(item.id, "item id")
    if item.run is not None:
        check_id(item.run, "item run")
    if item.call is not None:
        check_id(item.call, "call id")
    if type(item.place) is not int or type(item.step or 0) is not int:
        raise InvalidValue(path=f"items[{index}]", problem="step and place are integers")


@lru_cache(maxsize=1024)
def _check_words(log: str, format: str, codec: str, kind: str, visibility: str, role: str) -> None:
    """Check the words that most items share; remembered, since they are always the same few."""
    check_id(log, "log name")
    check_id(format, "item format")
    check_id(codec, "item codec")
    check_id(kind, "item kind")
    check_id(visibility, "item visibility")
    check_id(role, "item role")


def _encode_body(item: Item, index: int, limits: Limits) -> bytes:
    if item.codec == "json":
        body, _ = try_encode(item.body) or encode_checked(item.body, f"items[{index}].body")
    elif isinstance(item.body, bytes):
        body = item.body
    else:
        kind = type(item.body).__name__
        raise InvalidValue(
            path=f"items[{index}].body", problem=f"codec {item.codec!r} takes bytes, not {kind}"
        )
    if len(body) > limits.body:
        raise TooLarge(what=f"body of item {index}", size=len(body), limit=limits.body)
    return body


def _encode_meta(item: Item) -> bytes:
    return _encoder.encode(
        ItemMeta(
            role=item.role,
            kind=item.kind,
            id=item.id,
            format=item.format,
            codec=item.codec,
            run=item.run,
            step=item.step,
            visibility=item.visibility,
            call=item.call,
        )
    )


def _encode_content(change: Changeset) -> tuple[bytes | None, Content]:
    """The encoded content, and a copy of it that the caller does not share."""
    content = Content(
        patches=tuple(change.patches),
        snapshot=change.snapshot,
        state_actions=tuple(change.state_actions),
        run_meta=change.run_meta,
    )
    if content == _no_content:
        return None, _no_content
    try:
        data = _encoder.encode(content)
        # The copy shows what survives JSON; it is also what the planner applies, not the caller's own.
        copy = _content_decoder.decode(data)
        if copy == content and is_shallow(data):
            return data, copy
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        _raise_for_part(change)
        raise InvalidValue(path="changeset", problem=str(error)) from error
    _raise_for_part(change)
    if copy == content:
        return data, copy
    raise InvalidValue(path="changeset", problem="it does not survive JSON")


def _raise_for_part(change: Changeset) -> None:
    """Raise for the part of a changeset that is not JSON."""
    for index, op in enumerate(change.patches):
        fields: tuple[str, ...] = op.__struct_fields__
        for field in fields:
            value: Any = getattr(op, field)
            encode_checked(list(value) if field == "path" else value, f"patches[{index}].{field}")
    if change.snapshot is not None:
        encode_checked(change.snapshot, "snapshot")
    encode_checked(list(change.state_actions), "state_actions")
    if change.run_meta is not None:
        encode_checked(change.run_meta, "run_meta")


def encode_envelope(change: Changeset, ranges: tuple[PlaceRange, ...]) -> bytes:
    """A changeset's envelope, encoded."""
    return _encoder.encode(
        Envelope(
            reason=change.reason,
            run_id=change.run_id,
            parent_run_id=change.parent_run_id,
            key=change.key,
            author=change.author,
            cuts=change.cuts,
            items=ranges,
        )
    )


def fingerprint(
    change: Changeset | Envelope,
    item_places: Sequence[tuple[str, int]],
    content: bytes | None,
    metas: Iterable[bytes],
    bodies: Iterable[bytes],
) -> bytes:
    """A digest of what two requests with one idempotency key must have in common.

    ``item_places`` are log and place of each item as the caller gave them: 0 for one that goes to the end.
    """
    about = [change.reason, change.run_id, change.parent_run_id, change.author, change.cuts]
    parts = [_encoder.encode([about, item_places]), content or b"", *metas, *bodies]
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


def meta_of(row: ItemRow) -> ItemMeta:
    """The meta of an item row."""
    return _decode_meta(row.meta)


def item_of(row: ItemRow) -> Item | UnreadableItem:
    """The item behind a row, or what is wrong with it."""
    if row.body is None:
        return UnreadableItem(
            log=row.log, place=row.place, version=row.version, problem="it was erased", erased=True
        )
    try:
        meta = _decode_meta(row.meta)
        body = _decode_body(row.body) if meta.codec == "json" else row.body
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ClewError) as error:
        return UnreadableItem(log=row.log, place=row.place, version=row.version, problem=str(error))
    return Item(
        body=body,
        role=meta.role,
        kind=meta.kind,
        id=meta.id,
        log=row.log,
        format=meta.format,
        codec=meta.codec,
        run=meta.run,
        step=meta.step,
        visibility=meta.visibility,
        call=meta.call,
        place=row.place,
        version=row.version,
        time=row.time,
    )


def content_of(row: ChangesetRow) -> Content:
    """The content of a changeset row; an empty one if it was erased."""
    return _read_content(row.content) if row.content is not None else _no_content


def envelope_of(row: ChangesetRow) -> Envelope:
    """The envelope of a changeset row."""
    return _read_envelope(row.envelope)


def changeset_of(row: ChangesetRow, items: tuple[Item, ...]) -> Changeset:
    """The changeset behind a row and its items."""
    envelope, content = envelope_of(row), content_of(row)
    return Changeset(
        items=items,
        patches=content.patches,
        cuts=envelope.cuts,
        snapshot=content.snapshot,
        state_actions=content.state_actions,
        reason=envelope.reason,
        run_id=envelope.run_id,
        parent_run_id=envelope.parent_run_id,
        run_meta=content.run_meta,
        key=envelope.key,
        author=envelope.author,
        version=row.version,
        time=row.time,
        hash=row.hash,
        erased=row.erased is not None,
    )
