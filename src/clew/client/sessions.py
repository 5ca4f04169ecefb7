"""Calls of sessions and episodes."""

from clew.api.feedback import FeedbackLabel
from clew.api.sessions import (
    DELETE_SESSION,
    END_SESSION,
    GET_EPISODE,
    GET_SESSION,
    LIST_EPISODES,
    LIST_SESSIONS,
    LIST_TURNS,
    SESSION_STATUS,
    SESSIONS_STATE,
    ActiveSessions,
    EpisodeDetail,
    EpisodePage,
    EpisodeStatusView,
    NewSessionEnd,
    SessionPage,
    SessionStatusView,
    SessionView,
    TurnPage,
)
from clew.client.call import ApiCall, CallMethod, api_call


class SessionMethods:
    """Calls of sessions and episodes."""

    @CallMethod
    def sessions_state(self) -> ApiCall[ActiveSessions]:
        """Return the sessions that are active now."""
        return api_call(SESSIONS_STATE)

    @CallMethod
    def sessions(
        self, *, search: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ApiCall[SessionPage]:
        """Return sessions, the newest first."""
        return api_call(LIST_SESSIONS, search=search, limit=limit, cursor=cursor)

    @CallMethod
    def session(self, id: str) -> ApiCall[SessionView]:
        """Return a session."""
        return api_call(GET_SESSION, id)

    @CallMethod
    def delete_session(self, id: str, *, expect: int | None = None) -> ApiCall[None]:
        """Delete a session."""
        return api_call(DELETE_SESSION, id, expect=expect)

    @CallMethod
    def turns(self, id: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[TurnPage]:
        """Return the messages of a session, turn by turn."""
        return api_call(LIST_TURNS, id, limit=limit, cursor=cursor)

    @CallMethod
    def end_session(
        self, id: str, *, feedback: FeedbackLabel | None = None, key: str | None = None
    ) -> ApiCall[EpisodeStatusView]:
        """End the episode that a session is in."""
        return api_call(END_SESSION, id, body=NewSessionEnd(feedback=feedback), key=key)

    @CallMethod
    def episodes(
        self, *, over: bool = False, limit: int = 50, cursor: str | None = None
    ) -> ApiCall[EpisodePage]:
        """Return episodes that are active or, with ``over``, ending or ended; the last touched first."""
        return api_call(LIST_EPISODES, over=over, limit=limit, cursor=cursor)

    @CallMethod
    def episode(self, id: str) -> ApiCall[EpisodeDetail]:
        """Return an episode that is over, and what it left behind."""
        return api_call(GET_EPISODE, id)

    @CallMethod
    def session_status(self, id: str) -> ApiCall[SessionStatusView]:
        """Return the status of a session, and what can be done next."""
        return api_call(SESSION_STATUS, id)
