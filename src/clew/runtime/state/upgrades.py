"""Upgrading a stored state: registered steps, in order, from the version it was written by to ours."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from clew.core import ops, patch
from clew.core.encoding import JSON, as_json, encode_checked
from clew.core.errors import InvalidValue, NewerSchema, SchemaInvalid, StateInvalid
from clew.core.ops import Document, Op
from clew.core.values import ABOUT_KEY
from clew.runtime.state.schema import Fold, Lifecycle, Lifetime, Schema

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Brings a state from one version to the next; it may change its argument, and returns it."""

SCHEMA = "schema"
FIRST = 1


def check_upgrades(schema: Schema, upgrades: Mapping[int, Upgrade]) -> None:
    """Refuse steps that leave a gap, or lead beyond the schema's version.

    Raises:
        SchemaInvalid: They do.
    """
    if sorted(upgrades) != list(range(FIRST, schema.version)):
        problem = f"version {schema.version} needs one step from each of the versions before it"
        raise SchemaInvalid(schema=schema.cls.__name__, field="upgrades", problem=problem)


def schema_version_of(state: Document) -> int | None:
    """The schema version that a state was written by; None if no runtime has written it yet."""
    about = state.get(ABOUT_KEY)
    version = about.get(SCHEMA) if isinstance(about, dict) else None
    if version is None:
        return FIRST if application_state(state) else None
    return int(version)


def application_state(state: Document) -> Document:
    """A state without what the runtime and the thread keep in it."""
    return {key: value for key, value in state.items() if not key.startswith("$")}


def check_not_newer(thread: str, state: Document, schema: Schema) -> None:
    """Refuse a state that a newer program wrote.

    Raises:
        NewerSchema: It did; the state is left as it is.
    """
    version = schema_version_of(state)
    if version is not None and version > schema.version:
        raise NewerSchema(thread=thread, found=version, known=schema.version)


def upgrade_ops(thread: str, state: Document, schema: Schema, upgrades: Mapping[int, Upgrade]) -> list[Op]:
    """The ops that bring an older state up to this program's schema.

    Raises:
        NewerSchema: A newer program wrote it.
        StateInvalid: A step failed, or gave back what is no state.
    """
    check_not_newer(thread, state, schema)
    about = state.get(ABOUT_KEY)
    if isinstance(about, dict) and about.get(SCHEMA) == schema.version:
        return []
    before = application_state(state)
    after: Document = as_json(before)
    for number in range(schema_version_of(state) or schema.version, schema.version):
        after = _run_step(number, upgrades[number], after)
    return [*ops.diff(before, after), patch.set([ABOUT_KEY, SCHEMA], schema.version)]


def current_state(thread: str, state: Document, schema: Schema, upgrades: Mapping[int, Upgrade]) -> Document:
    """A stored state as this program understands it; nothing is written.

    Raises:
        NewerSchema: A newer program wrote it.
    """
    return ops.apply_ops(state, upgrade_ops(thread, state, schema, upgrades))


def _run_step(number: int, step: Upgrade, state: Document) -> Document:
    name = f"the upgrade from version {number}"
    try:
        return application_state(encode_checked(step(state), name)[1])
    except InvalidValue as error:
        raise StateInvalid(stage=name, field="", problem=str(error)) from error
    except Exception as error:  # a step is not ours; its state is left as it was, and it is named
        problem = f"it raised {type(error).__name__}: {error}"
        raise StateInvalid(stage=name, field="", problem=problem) from error


def replacement_state(values: Mapping[str, JSON], before: Document, schema: Schema) -> Document:
    """A state that takes the place of another; what the thread keeps about itself stays.

    Raises:
        StateInvalid: The new one has what the schema does not keep.
    """
    by = "the caller"
    new: Document = {}
    for name, value in values.items():
        field = schema.field(name, by)
        is_stored = field.lifecycle is Lifecycle.REDUCER and field.lifetime is Lifetime.THREAD
        if not is_stored or field.fold is Fold.APPEND:
            raise field.error(by, "it is not kept in the state, so it cannot be replaced")
        new[name] = field.validate(value, by)
    old_about = before.get(ABOUT_KEY)
    about: Document = old_about if isinstance(old_about, dict) else {}
    return {**new, ABOUT_KEY: {**about, SCHEMA: schema.version}}
