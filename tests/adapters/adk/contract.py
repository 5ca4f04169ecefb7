"""What a session service of ADK's must do: ADK ships no tests, so this is what its interface says, tested.

A service that is known to be wrong somewhere says so in ``wrong``; the test must then fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

OpenService = Callable[[], AbstractAsyncContextManager[BaseSessionService]]
"""Opens a service on the storage of the test; a second call opens another one on the same."""

APP, ALICE, BOB = "weather", "alice", "bob"
NOON = 1_750_000_000.0


def text_event(
    text: str,
    changes: Mapping[str, object] | None = None,
    *,
    author: str = "user",
    at: float | None = None,
    id: str = "",
    **state: object,
) -> Event:
    """An event with some text, which may change the state."""
    delta = {key.replace("__", ":"): value for key, value in {**(changes or {}), **state}.items()}
    role = "user" if author == "user" else "model"
    event = Event(
        author=author,
        id=id,
        invocation_id="turn-1",
        content=types.Content(role=role, parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta),
    )
    if at is not None:
        event.timestamp = at
    return event


def texts(session: Session | None) -> list[str | None]:
    """The texts of a session's events."""
    assert session is not None
    return [part.text for event in session.events for part in (event.content or types.Content()).parts or ()]


async def begin_session(
    service: BaseSessionService, id: str = "s1", user: str = ALICE, **state: object
) -> Session:
    """A new session."""
    start_state: dict[str, Any] = {key.replace("__", ":"): value for key, value in state.items()}
    return await service.create_session(app_name=APP, user_id=user, session_id=id, state=start_state)


async def load_session(
    service: BaseSessionService, id: str = "s1", user: str = ALICE, config: GetSessionConfig | None = None
) -> Session:
    """A session that must be there."""
    session = await service.get_session(app_name=APP, user_id=user, session_id=id, config=config)
    assert session is not None
    return session


class SessionServiceContract:
    """Subclass it, and give it the fixture ``open_service``."""

    wrong: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def is_known_to_be_wrong(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in self.wrong:
            request.applymarker(pytest.mark.xfail(reason=self.wrong[name], strict=True))

    @pytest.fixture
    async def service(self, open_service: OpenService) -> AsyncIterator[BaseSessionService]:
        async with open_service() as service:
            yield service

    @pytest.fixture
    async def other(
        self, open_service: OpenService, service: BaseSessionService
    ) -> AsyncIterator[BaseSessionService]:
        async with open_service() as other:
            yield other

    # Sessions.

    async def test_a_session_begins_with_what_it_was_given(self, service: BaseSessionService) -> None:
        session = await begin_session(service, mood="calm")

        assert (session.app_name, session.user_id, session.id) == (APP, ALICE, "s1")
        assert (session.state, session.events) == ({"mood": "calm"}, [])
        assert session.last_update_time > NOON

    async def test_a_session_without_an_id_gets_one_of_its_own(self, service: BaseSessionService) -> None:
        one = await service.create_session(app_name=APP, user_id=ALICE)
        two = await service.create_session(app_name=APP, user_id=ALICE)

        assert one.id
        assert one.id != two.id

    async def test_an_id_that_is_taken_is_refused(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await begin_session(service, mood="calm")

        with pytest.raises(AlreadyExistsError):
            await begin_session(other, mood="wild")
        assert (await load_session(service)).state == {"mood": "calm"}

    async def test_one_id_under_two_users_is_two_sessions(self, service: BaseSessionService) -> None:
        await service.append_event(await begin_session(service, user=ALICE), text_event("I am Alice"))
        await begin_session(service, user=BOB)

        assert texts(await load_session(service, user=ALICE)) == ["I am Alice"]
        assert texts(await load_session(service, user=BOB)) == []

    async def test_a_session_that_is_not_there_is_none(self, service: BaseSessionService) -> None:
        assert await service.get_session(app_name=APP, user_id=ALICE, session_id="nowhere") is None

    async def test_a_session_is_there_for_another_instance(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await service.append_event(await begin_session(service), text_event("Hi"))

        assert texts(await load_session(other)) == ["Hi"]

    async def test_names_may_hold_any_letter(self, service: BaseSessionService) -> None:
        for id in ("a/b", "a%2Fb", "ä ß", "a.b:c"):
            await service.append_event(await begin_session(service, id, user="al/ice"), text_event(id))

        response = await service.list_sessions(app_name=APP, user_id="al/ice")
        assert sorted(session.id for session in response.sessions) == ["a%2Fb", "a.b:c", "a/b", "ä ß"]
        assert texts(await load_session(service, "a/b", user="al/ice")) == ["a/b"]

    async def test_a_deleted_session_is_gone(self, service: BaseSessionService) -> None:
        await service.append_event(await begin_session(service), text_event("Hi"))
        await service.delete_session(app_name=APP, user_id=ALICE, session_id="s1")
        await begin_session(service)

        assert texts(await load_session(service)) == []

    async def test_deleting_what_is_not_there_is_fine(self, service: BaseSessionService) -> None:
        await service.delete_session(app_name=APP, user_id=ALICE, session_id="nowhere")

        assert (await service.list_sessions(app_name=APP)).sessions == []

    async def test_deleting_a_session_keeps_the_state_of_app_and_user(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, app__unit="C", user__name="Alice", mood="calm")
        await service.delete_session(app_name=APP, user_id=ALICE, session_id="s1")

        assert (await begin_session(service, "s2")).state == {"app:unit": "C", "user:name": "Alice"}

    # Events.

    async def test_an_event_comes_back_as_it_was(self, service: BaseSessionService) -> None:
        parts = [
            types.Part(text="Let me see"),
            types.Part(text="hm", thought=True),
            types.Part(
                function_call=types.FunctionCall(id="c1", name="look", args={"at": None, "n": [1, 2.5]})
            ),
            types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
        ]
        event = Event(
            author="agent",
            invocation_id="turn-1",
            branch="root.agent",
            content=types.Content(role="model", parts=parts),
            long_running_tool_ids={"c1"},
            custom_metadata={"cost": 0.5},
            error_code="E1",
            error_message="no",
            turn_complete=True,
            actions=EventActions(
                state_delta={"seen": {"deep": [None, True]}, "gone": None},
                artifact_delta={"map.png": 3},
                transfer_to_agent="other",
                escalate=True,
            ),
        )
        await service.append_event(await begin_session(service), event)

        assert (await load_session(service)).events == [event]

    async def test_a_tool_result_comes_back_as_it_was(self, service: BaseSessionService) -> None:
        answer = types.FunctionResponse(id="c1", name="look", response={"result": None, "n": {"a": [1]}})
        event = Event(
            author="agent", content=types.Content(role="user", parts=[types.Part(function_response=answer)])
        )
        await service.append_event(await begin_session(service), event)

        assert (await load_session(service)).events[0].get_function_responses() == [answer]

    async def test_events_keep_the_order_in_which_they_were_appended(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        for id in ("c", "b", "a"):
            await service.append_event(session, text_event(id, id=id, at=NOON))

        assert texts(await load_session(service)) == ["c", "b", "a"]

    async def test_the_session_at_hand_is_brought_up_to_date(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        event = await service.append_event(session, text_event("Hi", mood="calm"))

        assert session.events == [event]
        assert session.state == {"mood": "calm"}
        assert session.last_update_time == pytest.approx(event.timestamp, abs=1e-3)
        assert (await load_session(service)).last_update_time == pytest.approx(
            session.last_update_time, abs=1e-3
        )

    async def test_a_session_was_updated_when_its_last_event_happened(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        await service.append_event(session, text_event("late", at=NOON + 10))
        await service.append_event(await load_session(service), text_event("early", at=NOON))
        again = await load_session(service, config=GetSessionConfig(num_recent_events=0))
        [listed] = (await service.list_sessions(app_name=APP, user_id=ALICE)).sessions

        assert (again.last_update_time, listed.last_update_time) == (NOON, NOON)

    async def test_the_session_at_hand_knows_when_its_last_event_happened(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        await service.append_event(session, text_event("Hi", at=NOON))

        assert session.last_update_time == NOON

    @pytest.mark.parametrize("id", [" s1", "s1 ", "\ts1\n"], ids=repr)
    async def test_space_around_an_id_does_not_count(self, service: BaseSessionService, id: str) -> None:
        await begin_session(service, "s1", mood="calm")
        padded = await service.get_session(app_name=APP, user_id=ALICE, session_id=id)

        assert padded is not None
        assert (padded.id, padded.state) == ("s1", {"mood": "calm"})
        with pytest.raises(AlreadyExistsError):
            await begin_session(service, id)
        await service.delete_session(app_name=APP, user_id=ALICE, session_id=id)
        assert await service.get_session(app_name=APP, user_id=ALICE, session_id="s1") is None

    async def test_a_session_made_with_space_around_its_id_is_found_without(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service, " s1\n")

        assert (session.id, (await load_session(service)).id) == ("s1", "s1")

    @pytest.mark.parametrize("id", ["", " ", "\n"], ids=repr)
    async def test_a_blank_id_is_none(self, service: BaseSessionService, id: str) -> None:
        session = await begin_session(service, id)

        assert session.id.strip()
        assert await service.get_session(app_name=APP, user_id=ALICE, session_id=id) is None

    async def test_a_part_of_a_stream_is_not_stored(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        part = text_event("H", mood="wild")
        part.partial = True
        await service.append_event(session, part)

        assert (session.events, session.state) == ([], {})
        assert texts(await load_session(service)) == []

    async def test_an_event_that_comes_twice_is_there_once(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        event = text_event("Hi", app__seen=1)
        await service.append_event(session, event)
        await service.append_event(session, event.model_copy(deep=True))

        assert texts(session) == ["Hi"]
        assert texts(await load_session(service)) == ["Hi"]

    async def test_an_event_for_a_deleted_session_is_refused(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        await service.delete_session(app_name=APP, user_id=ALICE, session_id="s1")

        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, text_event("Anybody?"))

    # State.

    async def test_state_changes_by_key(self, service: BaseSessionService) -> None:
        session = await begin_session(service, mood="calm", city="Lisbon")
        await service.append_event(session, text_event("Hm", mood="wild", city=None))
        await service.append_event(session, text_event("Oh", {"a.b": {"c": 1}}))

        assert (await load_session(service)).state == {"mood": "wild", "city": None, "a.b": {"c": 1}}

    async def test_the_state_of_an_app_is_seen_by_all_of_its_sessions(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, "s2", user=BOB)
        await service.append_event(await begin_session(service), text_event("Hi", app__unit="C"))
        elsewhere = await service.create_session(app_name="other", user_id=ALICE)

        assert (await load_session(service, "s2", user=BOB)).state == {"app:unit": "C"}
        assert elsewhere.state == {}

    async def test_the_state_of_a_user_is_seen_by_all_of_their_sessions(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, "s2")
        await begin_session(service, "s3", user=BOB)
        await service.append_event(await begin_session(service), text_event("Hi", user__name="Alice"))
        elsewhere = await service.create_session(app_name="other", user_id=ALICE)

        assert (await load_session(service, "s2")).state == {"user:name": "Alice"}
        assert (await load_session(service, "s3", user=BOB)).state == {}
        assert elsewhere.state == {}

    async def test_state_begins_in_its_scopes(self, service: BaseSessionService) -> None:
        first = await begin_session(
            service, app__unit="C", user__name="Alice", mood="calm", temp__key="secret"
        )
        second = await begin_session(service, "s2")

        assert first.state == {"app:unit": "C", "user:name": "Alice", "mood": "calm"}
        assert second.state == {"app:unit": "C", "user:name": "Alice"}

    async def test_temporary_state_lives_in_the_session_at_hand_only(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        await service.append_event(session, text_event("Hi", temp__key="secret", mood="calm"))
        again = await load_session(service)

        assert session.state == {"temp:key": "secret", "mood": "calm"}
        assert again.state == {"mood": "calm"}
        assert again.events[0].actions.state_delta == {"mood": "calm"}

    async def test_the_state_of_a_user_can_be_read_without_a_session(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, user__name="Alice", mood="calm")

        assert await service.get_user_state(app_name=APP, user_id=ALICE) == {"name": "Alice"}
        assert await service.get_user_state(app_name=APP, user_id=BOB) == {}

    async def test_what_was_read_can_be_changed_without_changing_what_is_stored(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, app__units=["C"], user__names=["Alice"], moods=["calm"])
        session = await load_session(service)
        for value in session.state.values():
            value.append("changed")

        assert (await load_session(service)).state == {
            "app:units": ["C"],
            "user:names": ["Alice"],
            "moods": ["calm"],
        }

    # Windows.

    @pytest.mark.parametrize(("count", "latest"), [(0, []), (2, ["3", "4"]), (9, ["0", "1", "2", "3", "4"])])
    async def test_a_window_holds_the_latest_events(
        self, service: BaseSessionService, count: int, latest: list[str]
    ) -> None:
        session = await begin_session(service)
        for number in range(5):
            await service.append_event(session, text_event(str(number), mood=number))
        window = await load_session(service, config=GetSessionConfig(num_recent_events=count))

        assert texts(window) == latest
        assert window.state == {"mood": 4}

    @pytest.mark.parametrize(("at", "later"), [(0, ["0", "1", "2"]), (1, ["1", "2"]), (1.5, ["2"]), (3, [])])
    async def test_a_window_holds_the_events_since_a_time(
        self, service: BaseSessionService, at: float, later: list[str]
    ) -> None:
        session = await begin_session(service)
        for number in range(3):
            await service.append_event(session, text_event(str(number), at=NOON + number))

        assert texts(await load_session(service, config=GetSessionConfig(after_timestamp=NOON + at))) == later

    async def test_a_window_may_be_both(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        for number in range(5):
            await service.append_event(session, text_event(str(number), at=NOON + number))
        both = GetSessionConfig(num_recent_events=2, after_timestamp=NOON + 1)
        late = GetSessionConfig(num_recent_events=4, after_timestamp=NOON + 3)

        assert texts(await load_session(service, config=both)) == ["3", "4"]
        assert texts(await load_session(service, config=late)) == ["3", "4"]

    async def test_a_session_read_by_a_window_can_be_appended_to(self, service: BaseSessionService) -> None:
        session = await begin_session(service)
        for number in range(3):
            await service.append_event(session, text_event(str(number)))
        window = await load_session(service, config=GetSessionConfig(num_recent_events=1))
        await service.append_event(window, text_event("3"))

        assert texts(await load_session(service)) == ["0", "1", "2", "3"]

    # Lists.

    async def test_a_list_holds_the_sessions_of_a_user_without_events(
        self, service: BaseSessionService
    ) -> None:
        await service.append_event(await begin_session(service, app__unit="C"), text_event("Hi", mood="calm"))
        await begin_session(service, "s2", user=BOB)
        [session] = (await service.list_sessions(app_name=APP, user_id=ALICE)).sessions

        assert (session.id, session.events) == ("s1", [])
        assert session.state == {"app:unit": "C", "mood": "calm"}

    async def test_a_list_without_a_user_holds_all_sessions_of_the_app(
        self, service: BaseSessionService
    ) -> None:
        await begin_session(service, user__name="Alice")
        await begin_session(service, "s2", user=BOB, user__name="Bob")
        await service.create_session(app_name="other", user_id=ALICE)
        sessions = (await service.list_sessions(app_name=APP)).sessions

        assert {session.id: session.state for session in sessions} == {
            "s1": {"user:name": "Alice"},
            "s2": {"user:name": "Bob"},
        }

    async def test_the_session_used_last_is_the_last_of_a_list(self, service: BaseSessionService) -> None:
        sessions = {id: await begin_session(service, id) for id in ("s1", "s2", "s3")}
        for id in ("s3", "s1", "s2"):
            await asyncio.sleep(0.002)  # the times of two uses must differ
            await service.append_event(sessions[id], text_event("Hi"))
        response = await service.list_sessions(app_name=APP, user_id=ALICE)

        assert [session.id for session in response.sessions] == ["s3", "s1", "s2"]

    async def test_a_list_of_nothing_is_empty(self, service: BaseSessionService) -> None:
        assert (await service.list_sessions(app_name="nowhere", user_id=ALICE)).sessions == []

    # Conflicts.

    async def test_a_stale_session_is_refused(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await begin_session(service)
        mine, theirs = await load_session(service), await load_session(other)
        await service.append_event(mine, text_event("first", mood="mine", app__who="mine", user__who="mine"))

        with pytest.raises(StaleSessionError):
            await other.append_event(
                theirs, text_event("second", mood="theirs", app__who="theirs", user__who="x")
            )
        now = await load_session(service)
        assert texts(now) == ["first"]
        assert now.state == {"mood": "mine", "app:who": "mine", "user:who": "mine"}

    async def test_a_stale_session_is_refused_whatever_the_clock_says(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        await service.append_event(session, text_event("zero", at=NOON))
        mine, theirs = await load_session(service), await load_session(other)
        await service.append_event(mine, text_event("first", at=NOON))

        with pytest.raises(StaleSessionError):
            await other.append_event(theirs, text_event("second", at=NOON))

    async def test_a_session_that_was_deleted_and_made_anew_is_another(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await begin_session(service)
        old = await load_session(other)
        await service.delete_session(app_name=APP, user_id=ALICE, session_id="s1")
        await begin_session(service)

        with pytest.raises(StaleSessionError):
            await other.append_event(old, text_event("late"))
        assert texts(await load_session(service)) == []

    async def test_a_refused_event_leaves_the_session_as_it_was(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await begin_session(service)
        mine, theirs = await load_session(service), await load_session(other)
        await service.append_event(mine, text_event("first"))
        with pytest.raises(StaleSessionError):
            await other.append_event(theirs, text_event("second", mood="wild", temp__key="secret"))

        assert (theirs.events, theirs.state) == ([], {})

    async def test_a_refused_writer_reads_again_and_goes_on(
        self, service: BaseSessionService, other: BaseSessionService
    ) -> None:
        await begin_session(service)
        mine, theirs = await load_session(service), await load_session(other)
        await service.append_event(mine, text_event("first"))
        with pytest.raises(StaleSessionError):
            await other.append_event(theirs, text_event("second"))
        await other.append_event(await load_session(other), text_event("second"))

        assert texts(await load_session(service)) == ["first", "second"]

    async def test_tasks_that_share_a_session_append_one_after_another(
        self, service: BaseSessionService
    ) -> None:
        session = await begin_session(service)
        events = [text_event(str(number), {f"k{number}": number}) for number in range(8)]
        await asyncio.gather(*(service.append_event(session, event) for event in events))
        result = await load_session(service)

        assert sorted(filter(None, texts(result))) == [str(number) for number in range(8)]
        assert result.state == {f"k{number}": number for number in range(8)}

    async def test_a_session_made_elsewhere_must_know_the_newest_event(
        self, service: BaseSessionService
    ) -> None:
        await service.append_event(await begin_session(service), text_event("zero"))
        events = (await load_session(service)).events
        knowing = Session(app_name=APP, user_id=ALICE, id="s1", events=list(events))
        ignorant = Session(app_name=APP, user_id=ALICE, id="s1", events=list(events))
        await service.append_event(knowing, text_event("one"))

        with pytest.raises(StaleSessionError):
            await service.append_event(ignorant, text_event("two"))
        assert texts(await load_session(service)) == ["zero", "one"]
