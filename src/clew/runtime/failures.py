"""What went wrong at a provider: whether asking again may help, told without anything secret."""

from collections.abc import Sequence

from pydantic_ai import exceptions

from clew.core.errors import ModelFailed
from clew.runtime.hiding import hidden, is_passing

FAILURES = (exceptions.AgentRunError, exceptions.UserError, exceptions.FallbackExceptionGroup)
"""What a request to a provider may raise."""


def failure_of(model: str, error: BaseException, secrets: Sequence[str] = ()) -> ModelFailed:
    """An error of a provider as ours."""
    if isinstance(error, exceptions.FallbackExceptionGroup):
        return _failure_of_all(model, [failure_of(model, inner, secrets) for inner in error.exceptions])
    after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    return ModelFailed(
        model=model,
        problem=hidden(_problem(error), secrets),
        retry=_may_pass(error),
        retry_after_ms=None if after is None else round(after * 1000),
    )


def _failure_of_all(model: str, failures: Sequence[ModelFailed]) -> ModelFailed:
    """Several models were asked in turn, and each failed."""
    waits = [failure.retry_after_ms or 0 for failure in failures if failure.retry]
    return ModelFailed(
        model=model,
        problem="; ".join(failure.problem for failure in failures),
        retry=bool(waits),
        retry_after_ms=min(waits, default=0) or None,
    )


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return False
    if isinstance(error, exceptions.ModelHTTPError):
        told = error.provider_retry_hint
        return told if told is not None else is_passing(error.status_code)
    if isinstance(error, exceptions.ContentFilterError):
        return False
    return isinstance(error, exceptions.ModelAPIError | exceptions.UnexpectedModelBehavior)


def _problem(error: BaseException) -> str:
    if isinstance(error, exceptions.ModelHTTPError):
        return _refusal(error)
    if isinstance(error, exceptions.ModelConnectionError):
        return f"its provider could not be reached or broke off: {_root(error)}"
    return str(error) or type(error).__name__


def _refusal(error: exceptions.ModelHTTPError) -> str:
    """The status and what the provider says of it; what it says of credentials may quote them."""
    code = error.provider_error_code
    said = f"it answered {error.status_code}" + (f" ({code})" if code else "")
    if error.status_code in (401, 403):
        return f"{said}; check the credentials"
    body = error.body
    message = body.get("message") if isinstance(body, dict) else body
    return f"{said}: {message}" if isinstance(message, str) and message else said


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__} {error}"
