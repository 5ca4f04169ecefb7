"""A provider of realtime models, asked for a short-lived secret with which a browser may begin one call.

The key of the provider stays here. What a browser gets is good for one call, and for a minute or so.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import httpx
import msgspec

from clew.core.errors import DeadlineExceeded, InvalidArgument, ModelFailed
from clew.runtime.model.protocol import ToolSpec
from clew.server.settings import ServerSettings

OPENAI = "https://api.openai.com/v1"
SECRETS_PATH, CALLS_PATH = "/realtime/client_secrets", "/realtime/calls"
TIMEOUT_SECONDS = 10.0
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
INVALID_ADDRESS = (
    "CLEW_SERVER_VOICE_URL is no address of a provider. It begins with https:// or http://, and names a host."
)
TOO_MANY = 429


class VoiceSessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a call: the model's instructions and tools, and whether answers are held back.

    ``gated`` says that nothing is answered until the client asks for it, which it does once what was said
    has been judged.
    """

    instructions: str
    tools: tuple[ToolSpec, ...] = ()
    gated: bool = True


class ClientSecret(msgspec.Struct, frozen=True, kw_only=True):
    """The secret with which a browser begins a call, its end in seconds since 1970, and the address."""

    value: str
    expires_at: int = 0
    url: str = ""
    model: str = ""


class RealtimeProvider(Protocol):
    """Whatever can make a secret for a call."""

    @property
    def origin(self) -> str:
        """The origin that browsers connect to with a secret, such as ``https://api.openai.com``."""
        ...

    async def create_secret(self, plan: VoiceSessionPlan) -> ClientSecret:
        """A secret for one call.

        Raises:
            ModelFailed: The provider does not give one.
            DeadlineExceeded: It took too long.
        """
        ...


class OpenAIRealtime:
    """A provider that speaks OpenAI's protocol, at whatever address."""

    def __init__(
        self,
        model: str,
        key: str,
        *,
        url: str = OPENAI,
        voice: str = "marin",
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._model = model
        self._key = key
        self._url = url.rstrip("/")
        self._voice = voice
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"OpenAIRealtime({self._model!r})"

    @property
    def origin(self) -> str:
        """The origin of the provider's address."""
        url = httpx.URL(self._url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    async def create_secret(self, plan: VoiceSessionPlan) -> ClientSecret:
        """A secret for one call, made with the plan."""
        try:
            async with httpx.AsyncClient(timeout=self._seconds) as client:
                answer = await client.post(
                    self._url + SECRETS_PATH,
                    json={"session": session_request(plan, self._model, self._voice)},
                    headers={"Authorization": f"Bearer {self._key}"},
                )
        except httpx.TimeoutException as error:
            raise DeadlineExceeded(what="The realtime provider", seconds=self._seconds) from error
        except httpx.HTTPError as error:
            raise self._failure(f"it cannot be reached ({type(error).__name__})", retry=True) from error
        if answer.is_error:
            raise self._refusal(answer)
        try:
            secret = msgspec.json.decode(answer.content, type=ClientSecret)
        except msgspec.MsgspecError as error:
            raise self._failure("what it answered is no secret") from error
        return msgspec.structs.replace(secret, url=self._url + CALLS_PATH, model=self._model)

    def _refusal(self, answer: httpx.Response) -> ModelFailed:
        """The error for a provider's refusal. Its own words may name the key, so they are left out."""
        reasons: Mapping[int, str] = {401: "it does not take the key", TOO_MANY: "it asks to wait"}
        wait = answer.headers.get("retry-after", "")
        return self._failure(
            reasons.get(answer.status_code, f"it answered {answer.status_code}"),
            retry=answer.status_code == TOO_MANY or answer.is_server_error,
            retry_after_ms=int(wait) * 1000 if wait.isdecimal() else None,
        )

    def _failure(self, problem: str, **more: Any) -> ModelFailed:
        return ModelFailed(model=self._model, problem=problem, **more)


def realtime_provider(settings: ServerSettings, variables: Mapping[str, str]) -> RealtimeProvider | None:
    """The provider of some settings, if they name a model and there is a key.

    Raises:
        InvalidArgument: What they name as its address is none.
    """
    model, key = (settings.voice_model or "").strip(), variables.get(OPENAI_KEY_VARIABLE, "").strip()
    if not model or not key:
        return None
    if not is_http_address(settings.voice_url):
        raise InvalidArgument(problem=INVALID_ADDRESS)
    return OpenAIRealtime(model, key, url=settings.voice_url, voice=settings.voice)


def missing_setting(settings: ServerSettings) -> str:
    """Return what a server without a provider lacks, and what to do, for the person who asks for a call."""
    if not (settings.voice_model or "").strip():
        return (
            "No calls are made here: CLEW_SERVER_VOICE_MODEL is not set. Name a realtime model with it, give "
            f"the key of its provider in {OPENAI_KEY_VARIABLE}, and start the server again."
        )
    return (
        f"No calls are made here: {OPENAI_KEY_VARIABLE} is not set. Give the key of the provider in it, and "
        "start the server again."
    )


def is_http_address(url: str) -> bool:
    """Return whether a provider can be reached at an address over HTTP."""
    try:
        return httpx.URL(url).scheme in ("http", "https") and bool(httpx.URL(url).host)
    except httpx.InvalidURL:
        return False


def session_request(plan: VoiceSessionPlan, model: str, voice: str) -> dict[str, Any]:
    """A plan as OpenAI's protocol has it. What is said is written down, or nobody could judge it."""
    turn_detection = {
        "type": "server_vad",
        "create_response": not plan.gated,
        "interrupt_response": True,
    }
    return {
        "type": "realtime",
        "model": model,
        "instructions": plan.instructions,
        "audio": {
            "input": {"transcription": {"model": "gpt-4o-mini-transcribe"}, "turn_detection": turn_detection},
            "output": {"voice": voice},
        },
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in plan.tools
        ],
        "tool_choice": "auto",
    }
