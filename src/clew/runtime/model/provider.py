"""One model of a provider, or several behind one: anything that Pydantic AI can talk to."""

import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, MissingExtra, ModelFailed
from clew.runtime.model.boundary import CUT_OFF
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage

try:
    from pydantic_ai.direct import model_request, model_request_stream
except ImportError as error:
    raise MissingExtra(extra="models", package="pydantic-ai-slim (2.66 or newer)") from error

from pydantic_ai import UserError, exceptions
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model as Provided
from pydantic_ai.models import ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from clew.runtime.model.redaction import is_transient, redact
from clew.runtime.model.translation import (
    calls_of,
    event_text,
    own_thoughts,
    provider_messages,
    response_text,
    thoughts_of,
    usage_of,
)

FAILURES = (exceptions.AgentRunError, exceptions.UserError, exceptions.FallbackExceptionGroup)
"""The errors that a request to a provider may raise."""


def failure_of(model: str, error: BaseException, secrets: Sequence[str] = ()) -> ModelFailed:
    """An error of a provider as ours."""
    if isinstance(error, exceptions.FallbackExceptionGroup):
        return _failure_of_all(model, [failure_of(model, inner, secrets) for inner in error.exceptions])
    after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    return ModelFailed(
        model=model,
        problem=redact(_problem(error), secrets),
        retry=_is_transient(error),
        retry_after_ms=None if after is None else round(after * 1000),
    )


def _failure_of_all(model: str, failures: Sequence[ModelFailed]) -> ModelFailed:
    """The failure of several models that were asked in turn."""
    waits = [failure.retry_after_ms or 0 for failure in failures if failure.retry]
    return ModelFailed(
        model=model,
        problem="; ".join(failure.problem for failure in failures),
        retry=bool(waits),
        retry_after_ms=min(waits, default=0) or None,
    )


def _is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return False
    if isinstance(error, exceptions.ModelHTTPError):
        hint = error.provider_retry_hint
        return hint if hint is not None else is_transient(error.status_code)
    if isinstance(error, exceptions.ContentFilterError):
        return False
    return isinstance(error, exceptions.ModelAPIError | exceptions.UnexpectedModelBehavior)


def _problem(error: BaseException) -> str:
    if isinstance(error, exceptions.ModelHTTPError):
        return _refusal(error)
    if isinstance(error, exceptions.ModelConnectionError):
        return f"its provider could not be reached or broke off: {_root_cause(error)}"
    return str(error) or type(error).__name__


def _refusal(error: exceptions.ModelHTTPError) -> str:
    """The status and what the provider says of it; what it says of credentials may quote them."""
    code = error.provider_error_code
    answer = f"it answered {error.status_code}" + (f" ({code})" if code else "")
    if error.status_code in (401, 403):
        return f"{answer}; check the credentials"
    body = error.body
    message = body.get("message") if isinstance(body, dict) else body
    return f"{answer}: {message}" if isinstance(message, str) and message else answer


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__} {error}"


T = TypeVar("T")
ANSWER = "answer"
"""The name of the tool by which a model hands over a typed answer."""


@check_methods
class ProviderModel:
    """A model by its name, ``ProviderModel("openai:gpt-5")``, or one that Pydantic AI has made.

    Use it as an async context manager, so that its connections are closed in the end. ``settings`` are those
    of Pydantic AI: ``temperature``, ``max_tokens``, ``first_event_timeout`` and so on. The provider's own
    retries are off: how often to try again is said by ``RetryPolicy``.

    A streamed chat answer without a reason why it ended counts as cut off, unless the server is known never
    to give one (``needs_finish_reason=False``).
    """

    def __init__(
        self,
        model: str | Provided[Any],
        *,
        name: str | None = None,
        settings: Mapping[str, Any] | None = None,
        needs_finish_reason: bool = True,
    ) -> None:
        self._model = _infer_model(model)
        self.name = name or self._model.model_id
        self._needs_finish_reason = needs_finish_reason
        retry_settings = {} if "max_retries" in self._model.unsupported_settings else {"max_retries": 0}
        self._settings = cast(ModelSettings, {**retry_settings, **(settings or {})})

    def __repr__(self) -> str:
        return f"ProviderModel({self.name!r})"

    async def __aenter__(self) -> Self:
        await self._model.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._model.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the connections of a model that was not used as a context manager."""
        await self._model.__aenter__()
        await self._model.__aexit__(None, None, None)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The reply as it comes: any number of texts, then the whole. Leaving it closes the connection."""
        tools = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
            )
            for tool in request.tools
        ]
        model_input = self._model_input(request, ModelRequestParameters(function_tools=tools))
        try:
            async with model_request_stream(
                self._model,
                model_input[0],
                model_settings=self._settings,
                model_request_parameters=model_input[1],
            ) as stream:
                async for event in stream:
                    if text := event_text(event):
                        yield TextChunk(text)
                response = stream.get()
        except FAILURES as error:
            raise self._provider_failure(error) from None
        if self._needs_finish_reason and not _has_finish_reason(stream, response):
            raise self._model_failure(CUT_OFF, retry=True)
        yield self._reply(request, response)

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """An answer of a given type: handed over by a tool of that shape, then checked."""
        shape, is_wrapped = _answer_schema(kind)
        tool = ToolDefinition(
            name=ANSWER, description="Give the answer.", parameters_json_schema=shape, kind="output"
        )
        parameters = ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
        model_input = self._model_input(request, parameters)
        try:
            response = await model_request(
                self._model,
                model_input[0],
                model_settings=self._settings,
                model_request_parameters=model_input[1],
            )
        except FAILURES as error:
            raise self._provider_failure(error) from None
        self._check_complete(response)
        return self._parse_answer(response, kind, is_wrapped=is_wrapped), usage_of(response)

    def _model_input(
        self, request: ModelRequest, parameters: ModelRequestParameters
    ) -> tuple[list[ModelMessage], ModelRequestParameters]:
        if request.instructions:
            parameters.instruction_parts = [InstructionPart(content=request.instructions)]
        models = list(_models(self._model))
        messages = [
            own_thoughts(message, models) if isinstance(message, ModelResponse) else message
            for message in provider_messages(request.messages)
        ]
        return self._model.prepare_messages(messages, parameters), parameters

    def _reply(self, request: ModelRequest, response: ModelResponse) -> Reply:
        self._check_complete(response)
        try:
            calls = calls_of(response, request.messages)
        except ValueError as error:
            # Out of tokens in the middle of a call, the same request would end there again.
            retry = response.finish_reason != "length"
            raise self._model_failure(str(error), retry=retry, usage=usage_of(response)) from None
        thoughts = thoughts_of(response).text
        return Reply(text=response_text(response), calls=calls, thoughts=thoughts, usage=usage_of(response))

    def _check_complete(self, response: ModelResponse) -> None:
        if response.state != "complete":
            raise self._model_failure(CUT_OFF, retry=True)
        if response.finish_reason == "content_filter":
            raise self._model_failure("its provider's content filter stopped it", usage=usage_of(response))

    def _parse_answer(self, response: ModelResponse, kind: type[T], *, is_wrapped: bool) -> T:
        arguments = [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]
        text = arguments[0] if arguments else response_text(response)
        try:
            if is_wrapped:
                return msgspec.json.decode(text, type=_wrapper(kind)).value  # type: ignore[attr-defined,no-any-return]  # made
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            problem = f"its answer is not what was asked for: {error}"
            raise self._model_failure(problem, retry=True, usage=usage_of(response)) from None

    def _model_failure(self, problem: str, *, retry: bool = False, usage: Usage | None = None) -> ModelFailed:
        cost = {} if usage is None else msgspec.to_builtins(usage)
        return ModelFailed(model=self.name, problem=problem, retry=retry, spent=cost)

    def _provider_failure(self, error: BaseException) -> ModelFailed:
        headers = self._settings.get("extra_headers", {})
        return failure_of(self.name, error, [*_keys(self._model), *headers.values()])


def _infer_model(model: str | Provided[Any]) -> Provided[Any]:
    try:
        return infer_model(model)
    except (ImportError, UserError) as error:
        raise InvalidArgument(problem=_inference_problem(str(model), str(error))) from None


def _inference_problem(name: str, problem: str) -> str:
    """The reason why there is no model of a name; a library's advice about keys is about its own code."""
    key = re.search(r"`([A-Z][A-Z0-9_]*_KEY)`", problem)
    return problem if key is None else f"{name} needs a key. Set {key[1]}."


def _keys(model: Provided[Any]) -> Iterator[str]:
    """Yield the keys that a model, and those that it wraps, authenticate with."""
    for each in _models(model):
        key = getattr(getattr(each, "client", None), "api_key", None)
        if isinstance(key, str) and key:
            yield key


def _models(model: Provided[Any]) -> Iterator[Provided[Any]]:
    """Yield a model, and those that it wraps."""
    yield model
    for inner in (*getattr(model, "models", ()), getattr(model, "wrapped", None)):
        if isinstance(inner, Provided):
            yield from _models(inner)


def _has_finish_reason(stream: StreamedResponse, response: ModelResponse) -> bool:
    """Return whether a chat stream gave a reason why it ended; without one, its connection just closed."""
    chat = sys.modules.get("pydantic_ai.models.openai")
    if chat is None or not isinstance(stream, chat.OpenAIStreamedResponse):
        return True
    return response.finish_reason == "content_filter" or "finish_reason" in (response.provider_details or {})


def _answer_schema(kind: Any) -> tuple[dict[str, Any], bool]:
    """The JSON schema of a type, and whether it had to be wrapped because only objects can be asked for."""
    try:
        (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
        name = schema.get("$ref", "").rpartition("/")[2]
        if name in parts and "properties" in parts[name]:
            return _with_parts(parts[name], parts), False
        (schema,), parts = msgspec.json.schema_components([_wrapper(kind)], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidArgument(problem=f"A model cannot be asked for {kind!r}: {error}") from error
    return _with_parts(parts.pop(schema["$ref"].rpartition("/")[2]), parts), True


def _with_parts(shape: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    return {**shape, "$defs": parts} if parts else shape


def _wrapper(kind: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Answer", [("value", kind)])
