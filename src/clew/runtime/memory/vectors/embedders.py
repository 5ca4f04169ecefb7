"""Providers of vectors: a server that speaks the OpenAI protocol, or a model on this machine."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

import msgspec

from clew.core.arguments import check_arguments, check_methods
from clew.core.errors import InvalidArgument, MissingExtra, ModelFailed
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.vectors.local_models import Encoder, check_local_model, load_local_model
from clew.runtime.model.call import RetryPolicy, call_with_retries
from clew.runtime.model.redaction import is_transient, redact

BATCH_SIZE = 64
LONGEST_TEXT = 8_000
"""So many letters of a text are sent; models read no more, and some refuse more."""

DEFAULT_URL = "https://api.openai.com/v1"
EMBEDDER_KINDS = ("openai", "local", "none")
"""The embedders that can be named: the first two with a model behind a colon."""


class _EmbeddingRow(msgspec.Struct, frozen=True):
    embedding: list[float]
    index: int


class _EmbeddingAnswer(msgspec.Struct, frozen=True):
    data: list[_EmbeddingRow]


@check_methods
class RemoteEmbedder:
    """A model behind ``POST {base_url}/embeddings``, as OpenAI and many others offer it.

    Use it as an async context manager, so that its connections are closed in the end. What may pass is tried
    again, with growing pauses, as ``retry_policy`` says; a server that asks for a longer pause gets it.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = DEFAULT_URL,
        key: str = "",
        dimensions: int | None = None,
        batch: int = BATCH_SIZE,
        retry_policy: RetryPolicy = RetryPolicy(),
    ) -> None:
        self.name = model if dimensions is None else f"{model}-{dimensions}"
        self._model = model
        self._dimensions = dimensions
        self._batch = batch
        self._key = key
        self._retry_policy = retry_policy
        self._http = import_httpx()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        # The deadline of a call is ours to keep, so that a slow answer is reported as slow.
        self._client = self._http.AsyncClient(
            base_url=base_url.rstrip("/") + "/", headers=headers, timeout=None
        )

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, asked for in batches.

        Raises:
            ModelFailed: It gave none that can be used, however often it was asked.
            DeadlineExceeded: It took too long, every time.
        """
        inputs = [text[:LONGEST_TEXT].strip() or "." for text in texts]  # an empty text is refused by some
        vectors: list[list[float]] = []
        for first in range(0, len(inputs), self._batch):
            vectors += await self._embed_batch(inputs[first : first + self._batch])
        return vectors

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        return await call_with_retries(self, lambda attempt: self._request_vectors(texts), self._retry_policy)

    async def _request_vectors(self, texts: Sequence[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        try:
            answer = await self._client.post("embeddings", json=body)
        except self._http.HTTPError as error:
            problem = f"its server could not be reached or broke off: {error!r}"
            raise self._model_failure(problem, retry=True) from None
        if answer.status_code != 200:
            raise self._status_failure(answer.status_code, answer.headers, answer.text)
        return self._parse_vectors(answer.content, len(texts))

    def _parse_vectors(self, content: bytes, count: int) -> list[list[float]]:
        """The vectors in the order of their texts, all there and all of one size."""
        try:
            answer = msgspec.json.decode(content, type=_EmbeddingAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._model_failure(f"its answer is not what was asked for: {error}", retry=True) from None
        vectors = {vector.index: vector.embedding for vector in answer.data}
        if sorted(vectors) != list(range(count)) or len(answer.data) != count:
            raise self._model_failure(f"it gave {len(answer.data)} vectors for {count} texts", retry=True)
        sizes = sorted({len(vector) for vector in vectors.values()})
        if len(sizes) > 1 or sizes == [0]:
            raise self._model_failure(f"its vectors have {' and '.join(map(str, sizes))} numbers")
        if self._dimensions not in (None, sizes[0]):
            raise self._model_failure(f"its vectors have {sizes[0]} numbers instead of {self._dimensions}")
        return [vectors[index] for index in range(count)]

    def _status_failure(self, status: int, headers: Mapping[str, str], text: str) -> ModelFailed:
        summary = f"it answered {status}"
        if status in (401, 403):  # what is said of credentials may quote them
            return self._model_failure(f"{summary}; check the credentials")
        message = _error_message(text)
        retry_after = headers.get("retry-after", "")
        return self._model_failure(
            f"{summary}: {message}" if message else summary,
            retry=is_transient(status),
            retry_after_ms=round(float(retry_after) * 1000)
            if retry_after.replace(".", "", 1).isdecimal()
            else None,
        )

    def _model_failure(
        self, problem: str, *, retry: bool = False, retry_after_ms: int | None = None
    ) -> ModelFailed:
        secrets = [self._key] if self._key else []
        return ModelFailed(
            model=self.name, problem=redact(problem, secrets), retry=retry, retry_after_ms=retry_after_ms
        )


@check_methods
class LocalEmbedder:
    """A model on this machine, by its name or folder, or one already made.

    A name is one that fastembed knows, such as ``BAAI/bge-small-en-v1.5``: it is downloaded once. A folder
    holds a model in the format ONNX with its tokenizer. A model that is already made is one of
    sentence-transformers, or anything that encodes as they do. It is loaded when first needed, and works in
    a thread beside the event loop, one call at a time.

    Raises:
        InvalidArgument: There is no such model, or its folder lacks something.
        MissingExtra: fastembed is not installed.
    """

    def __init__(self, model: str | Encoder, *, name: str | None = None, batch: int = BATCH_SIZE) -> None:
        if name is None and not isinstance(model, str):
            raise InvalidArgument(problem="A model that is already made needs a name.")
        if isinstance(model, str):
            check_local_model(model)
        self.name = name or f"local:{model}"
        self._batch = batch
        self._model = model
        self._lock = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text.

        Raises:
            ModelFailed: The model cannot be loaded, or does not work.
        """
        async with self._lock:
            return await asyncio.to_thread(self._encode, [text[:LONGEST_TEXT] for text in texts])

    async def load(self) -> None:
        """Load the model now, instead of when it is first needed.

        Raises:
            ModelFailed: It cannot be loaded.
        """
        async with self._lock:
            await asyncio.to_thread(self._loaded_model)

    def _loaded_model(self) -> Encoder:
        if isinstance(self._model, str):
            try:
                self._model = load_local_model(self._model)
            except (OSError, RuntimeError, ValueError) as error:
                raise ModelFailed(model=self.name, problem=redact(f"{error}", ())) from error
        return self._model

    def _encode(self, texts: list[str]) -> list[list[float]]:
        model = self._loaded_model()
        try:
            rows = model.encode(texts, batch_size=self._batch, show_progress_bar=False)
            return [[float(number) for number in row] for row in rows]
        except (OSError, RuntimeError, ValueError) as error:
            raise ModelFailed(model=self.name, problem=redact(f"{error}", ())) from error


@check_arguments
@asynccontextmanager
async def open_embedder(name: str, environment: Mapping[str, str]) -> AsyncIterator[EmbeddingProvider | None]:
    """The embedder that a setting names: ``openai:<model>``, ``local:<model>`` or ``none``.

    The first takes its key from ``OPENAI_API_KEY`` and its server from ``OPENAI_BASE_URL``. The second is
    loaded before it is used.

    Raises:
        InvalidArgument: There is no such embedder.
        ModelFailed: A local model cannot be loaded.
        MissingExtra: What it needs is not installed.
    """
    kind, _, model = name.partition(":")
    if kind == "openai" and model:
        server = environment.get("OPENAI_BASE_URL") or DEFAULT_URL
        async with RemoteEmbedder(
            model, base_url=server, key=environment.get("OPENAI_API_KEY", "")
        ) as embedder:
            yield embedder
    elif kind == "local" and model:
        local = LocalEmbedder(model)
        await local.load()
        yield local
    elif name in ("", "none"):
        yield None
    else:
        raise InvalidArgument(
            problem=f"There is no embedder {name!r}. Use openai:<model>, local:<model> or none."
        )


def import_httpx() -> ModuleType:
    """Return the module httpx, which only remote services need.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(extra="client", package="httpx") from error
    return httpx


def _error_message(text: str) -> str:
    """The message of a server's error, however it is wrapped."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    inner = document.get("error", document) if isinstance(document, dict) else document
    message = inner.get("message", "") if isinstance(inner, dict) else inner
    return message if isinstance(message, str) else ""
