"""Threads for ADK's state: one for each app, for each of its users, and for each session."""

from collections.abc import Mapping
from typing import Any

from google.adk.sessions import State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from clew.core import patch
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, encode_checked
from clew.core.errors import InvalidArgument, InvalidValue
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Head

ADK_KEY = "adk"
"""The first part of the id of every thread of ADK's, and the key of ADK's part of its state."""

SESSION_PREFIX = ""
"""The prefix of state that belongs to the session alone."""


@check_arguments
def thread_id_of(app_name: str, *names: str) -> str:
    """The id of the thread of an app's state, of one user's of it, or of a session of that user."""
    parts = (name.replace("%", "%25").replace("/", "%2F") for name in (app_name, *names))
    return "/".join((ADK_KEY, *parts))


def names_of_session(id: str) -> tuple[str, str, str] | None:
    """The app, user and session that a thread's id names, if it is a session's."""
    first, *parts = id.split("/")
    if first != ADK_KEY or len(parts) != 3:
        return None
    app, user, session = (name.replace("%2F", "/").replace("%25", "%") for name in parts)
    return app, user, session


def state_in(head: Head) -> dict[str, Any]:
    """The state that a thread holds for ADK.

    Raises:
        InvalidArgument: The thread was written by something else.
    """
    state = head.state.get(ADK_KEY)
    if not isinstance(state, dict):
        raise InvalidArgument(
            problem=f"Thread {head.id!r} was not written by the session service of ADK. Choose another id."
        )
    return state


def json_state(state: Mapping[str, Any]) -> dict[str, JSON]:
    """State as JSON, without what is temporary: rich values as ADK writes them, others refused by name.

    Raises:
        InvalidValue: A value has no JSON form.
    """
    result: dict[str, JSON] = {}
    for key, value in persistent_state(state).items():
        path = f"state[{key!r}]"
        try:
            _, result[key] = encode_checked(to_jsonable_python(value), path)
        except PydanticSerializationError as error:
            raise InvalidValue(path=path, problem=str(error)) from error
    return result


def persistent_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """State without what is for the present invocation only."""
    return {key: value for key, value in state.items() if not key.startswith(State.TEMP_PREFIX)}


def state_by_scope(state: Mapping[str, JSON]) -> dict[str, dict[str, JSON]]:
    """State by the prefix of its scope, with keys that lack it."""
    scopes: dict[str, dict[str, JSON]] = {State.APP_PREFIX: {}, State.USER_PREFIX: {}, SESSION_PREFIX: {}}
    for key, value in state.items():
        scope = next(prefix for prefix in scopes if key.startswith(prefix))
        scopes[scope][key.removeprefix(scope)] = value
    return scopes


def with_prefixes(app: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an app and of its user, as a session shows it."""
    result = {State.APP_PREFIX + key: value for key, value in app.items()}
    return result | {State.USER_PREFIX + key: value for key, value in user.items()}


def state_patches(delta: Mapping[str, JSON]) -> tuple[Op, ...]:
    """The ops that set some keys of a thread's state."""
    return tuple(patch.set([ADK_KEY, key], value) for key, value in delta.items())


def shared_writes(
    app_name: str, user_id: str, deltas: Mapping[str, Mapping[str, JSON]], key: str | None = None
) -> list[tuple[AppendTo, str | None]]:
    """The writes of app and user state, each with the owner of its thread.

    They set, and the last to set a key wins, so they fit any version.
    """
    places = (
        (State.APP_PREFIX, thread_id_of(app_name), None),
        (State.USER_PREFIX, thread_id_of(app_name, user_id), user_id),
    )
    return [
        (
            AppendTo(
                thread=thread, change=Changeset(patches=state_patches(deltas[scope]), reason="State", key=key)
            ),
            owner,
        )
        for scope, thread, owner in places
        if deltas[scope]
    ]
