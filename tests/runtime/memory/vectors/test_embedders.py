"""Vectors from a server and from a model on this machine: in batches, again when it may help, never half."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from clew.core.errors import DeadlineExceeded, InvalidArgument, MissingExtra, ModelFailed
from clew.runtime.memory.vectors.embedders import LONGEST_TEXT, LocalEmbedder, RemoteEmbedder, open_embedder
from clew.runtime.memory.vectors.embedding import embed_texts
from clew.runtime.model.call import RetryPolicy
from tests.support.openai_server import (
    ChatServer,
    EmbeddingReply,
    ErrorReply,
    Line,
    Raw,
    chat_server,
    letters_of,
    refusing_url,
)

KEY = "sk-secret-12345678"
QUICK = RetryPolicy(pause=0.001, attempts=3)


async def vectors_of(
    server: ChatServer,
    texts: Sequence[str],
    *,
    dimensions: int | None = None,
    batch: int = 64,
    patience: RetryPolicy = QUICK,
) -> Sequence[Sequence[float]]:
    """What the server answers to some texts."""
    async with RemoteEmbedder(
        "small", base_url=server.url, key=KEY, dimensions=dimensions, batch=batch, retry_policy=patience
    ) as embedder:
        return await embedder.embed(texts)


async def failure(*script: Line, dimensions: int | None = None) -> tuple[ModelFailed, int]:
    """How a script ends that ends badly, and how often it was asked until then."""
    async with chat_server(*script) as server:
        with pytest.raises(ModelFailed) as error:
            await vectors_of(server, ["one", "two"], dimensions=dimensions)
    return error.value, len(server.requests)


async def test_texts_get_their_vectors_in_their_order() -> None:
    async with chat_server(EmbeddingReply(size=3)) as server:
        vectors = await vectors_of(server, ["one", "two", "three"])

    assert vectors == [letters_of(text, 3) for text in ("one", "two", "three")]
    assert server.paths == ["/v1/embeddings"]
    assert server.requests == [
        {"model": "small", "input": ["one", "two", "three"], "encoding_format": "float"}
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_many_texts_are_asked_for_in_batches() -> None:
    async with chat_server(EmbeddingReply(), EmbeddingReply(), EmbeddingReply()) as server:
        vectors = await vectors_of(server, [f"text {n}" for n in range(5)], batch=2)

    assert [len(request["input"]) for request in server.requests] == [2, 2, 1]
    assert vectors == [letters_of(f"text {n}", 4) for n in range(5)]


async def test_no_text_is_empty_and_none_is_endless() -> None:
    async with chat_server(EmbeddingReply()) as server:
        await vectors_of(server, ["", " \n", "x" * (LONGEST_TEXT + 1)])

    assert [len(text) for text in server.requests[0]["input"]] == [1, 1, LONGEST_TEXT]


async def test_without_texts_nobody_is_asked() -> None:
    async with chat_server() as server:
        vectors = await vectors_of(server, [])

    assert (vectors, server.requests) == ([], [])


async def test_the_number_of_dimensions_is_asked_for_and_part_of_the_name() -> None:
    async with chat_server(EmbeddingReply(size=2)) as server:
        await vectors_of(server, ["one"], dimensions=2)

    assert server.requests[0]["dimensions"] == 2
    assert RemoteEmbedder("small", dimensions=2).name == "small-2"


@pytest.mark.parametrize(
    "fault",
    [
        ErrorReply(status=429, message="slow down"),
        ErrorReply(status=500, message="broken"),
        EmbeddingReply(cut=True),
        EmbeddingReply(missing=1),
        Raw(body='{"data": "nothing"}'),
        Raw(body="no JSON"),
        Raw(body='{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}'),
    ],
    ids=["429", "500", "cut", "missing", "other", "text", "no number"],
)
async def test_what_may_pass_is_tried_again(fault: Line) -> None:
    async with chat_server(fault, fault, EmbeddingReply()) as server:
        vectors = await vectors_of(server, ["one", "two"])

    assert vectors == [letters_of("one", 4), letters_of("two", 4)]
    assert len(server.requests) == 3


async def test_what_does_not_pass_is_given_up_in_the_end() -> None:
    error, times = await failure(*[ErrorReply(status=500, message="broken")] * 3)

    assert times == 3
    assert str(error) == "Model 'small' failed: it answered 500: broken."


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (ErrorReply(status=400, message="too long"), "it answered 400: too long"),
        (ErrorReply(status=401, message=f"bad key {KEY}"), "it answered 401; check the credentials"),
        (ErrorReply(status=404, message=f"no model for {KEY}"), "it answered 404: no model for [hidden]"),
        (EmbeddingReply(size=4, last_size=3), "its vectors have 3 and 4 numbers"),
        (EmbeddingReply(size=0), "its vectors have 0 numbers"),
    ],
)
async def test_what_does_not_help_is_not_tried_again(fault: Line, problem: str) -> None:
    error, times = await failure(fault)

    assert (error.problem, times) == (problem, 1)


async def test_vectors_of_another_size_than_asked_for_are_refused() -> None:
    error, times = await failure(EmbeddingReply(size=4), dimensions=8)

    assert (error.problem, times) == ("its vectors have 4 numbers instead of 8", 1)


async def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    refusal = ErrorReply(status=429, headers={"retry-after": "0.05"})
    loop = asyncio.get_running_loop()
    async with chat_server(refusal, EmbeddingReply()) as server:
        began = loop.time()
        await vectors_of(server, ["one"])

    assert loop.time() - began >= 0.05


async def test_a_slow_server_is_given_up_at_the_deadline() -> None:
    never = asyncio.Event()
    async with chat_server(EmbeddingReply(before=never)) as server:
        with pytest.raises(DeadlineExceeded):
            await vectors_of(server, ["one"], patience=RetryPolicy(call_seconds=0.05, attempts=1))


async def test_an_absent_server_is_a_failure_that_may_pass() -> None:
    embedder = RemoteEmbedder("small", base_url=refusing_url(), retry_policy=RetryPolicy(attempts=1))
    with pytest.raises(ModelFailed) as error:
        await embedder.embed(["one"])

    assert error.value.retry


# A model on this machine.


class Letters:
    """Encodes as a model of sentence-transformers does: rows of numbers for a list of texts."""

    def __init__(self, model: str = "made") -> None:
        if model == "unknown":
            raise OSError("there is no model unknown")
        self.sizes: list[tuple[int, int]] = []

    def encode(
        self, sentences: list[str], *, batch_size: int, show_progress_bar: bool
    ) -> list[tuple[float, ...]]:
        assert not show_progress_bar
        self.sizes.append((len(sentences), batch_size))
        return [tuple(letters_of(text, 4)) for text in sentences]


async def test_a_local_model_makes_vectors_beside_the_event_loop() -> None:
    model = Letters()
    embedder = LocalEmbedder(model, name="letters", batch=8)

    assert await embedder.embed(["one", "two"]) == [letters_of("one", 4), letters_of("two", 4)]
    assert (embedder.name, model.sizes) == ("letters", [(2, 8)])


class KnownModels:
    """Stands in for the models of fastembed, which knows one of them."""

    folders: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, model_name: str, specific_model_path: str | None = None) -> None:
        if model_name not in {"small", *self.folders}:
            raise ValueError(f"Model {model_name} is not supported")
        self.path = specific_model_path

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": "small"}, *({"model": name} for name in cls.folders)]

    @classmethod
    def add_custom_model(cls, **description: Any) -> None:
        cls.folders[description["model"]] = description

    def embed(self, documents: list[str], batch_size: int) -> Iterator[list[float]]:
        return (letters_of(text, 4) for text in documents)


@pytest.fixture
def fastembed(monkeypatch: pytest.MonkeyPatch) -> type[KnownModels]:
    """Put a stand-in for the package in its place."""
    package, description = ModuleType("fastembed"), ModuleType("fastembed.common.model_description")
    package.TextEmbedding = KnownModels  # type: ignore[attr-defined]  # a stand-in for the package
    description.PoolingType = SimpleNamespace(CLS="CLS", MEAN="MEAN")  # type: ignore[attr-defined]  # the same
    description.ModelSource = lambda hf: hf  # type: ignore[attr-defined]  # the same
    monkeypatch.setitem(sys.modules, "fastembed", package)
    monkeypatch.setitem(sys.modules, "fastembed.common.model_description", description)
    monkeypatch.setattr(KnownModels, "folders", {})
    return KnownModels


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder with the files of a model."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "1_Pooling").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "onnx/model.onnx"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "config.json").write_text('{"hidden_size": 4, "model_type": "bert"}')
    (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    return tmp_path


async def test_a_local_model_is_loaded_by_its_name_when_first_needed(fastembed: type[KnownModels]) -> None:
    embedder = LocalEmbedder("small")

    assert await embedder.embed(["one"]) == [letters_of("one", 4)]
    assert embedder.name == "local:small"


async def test_a_local_model_is_loaded_from_its_folder(
    fastembed: type[KnownModels], model_folder: Path
) -> None:
    embedder = LocalEmbedder(str(model_folder))
    vectors = await embedder.embed(["one"])

    ((name, description),) = fastembed.folders.items()
    assert vectors == [letters_of("one", 4)]
    assert name == f"folder:{model_folder}"
    assert (description["pooling"], description["dim"]) == ("CLS", 4)
    assert description["model_file"] == "onnx/model.onnx"


async def test_two_embedders_may_have_one_folder(fastembed: type[KnownModels], model_folder: Path) -> None:
    first, second = LocalEmbedder(str(model_folder)), LocalEmbedder(str(model_folder))

    assert await first.embed(["one"]) == await second.embed(["one"])


async def test_a_model_that_is_not_known_is_told_before_anything_is_served(
    fastembed: type[KnownModels],
) -> None:
    with pytest.raises(ModelFailed, match="Model unknown is not supported"):
        async with open_embedder("local:unknown", {}):
            pass


def test_a_folder_that_is_not_there_is_refused(fastembed: type[KnownModels], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no such folder"):
        LocalEmbedder(str(tmp_path / "absent"))


def test_a_folder_without_a_model_is_refused_with_what_is_missing(
    fastembed: type[KnownModels], model_folder: Path
) -> None:
    (model_folder / "onnx/model.onnx").unlink()
    (model_folder / "tokenizer.json").unlink()

    with pytest.raises(InvalidArgument, match=r"no model\.onnx, tokenizer\.json"):
        LocalEmbedder(str(model_folder))


def test_without_the_package_a_local_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"\[embeddings\]"):
        LocalEmbedder("small")


def test_a_model_already_made_needs_a_name() -> None:
    with pytest.raises(InvalidArgument):
        LocalEmbedder(Letters())


# By a setting.


@pytest.mark.parametrize("asked_for", ["", "none"])
async def test_none_is_an_embedder_too(asked_for: str) -> None:
    async with open_embedder(asked_for, {}) as embedder:
        assert embedder is None


async def test_an_embedder_is_made_from_a_setting_and_the_environment() -> None:
    async with (
        chat_server(EmbeddingReply()) as server,
        open_embedder("openai:small", {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}) as embedder,
    ):
        assert embedder is not None
        await embedder.embed(["one"])

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("asked_for", ["openai", "openai:", "local:", "word2vec", "hashing"])
async def test_an_unknown_embedder_is_refused_with_the_known_ones(asked_for: str) -> None:
    with pytest.raises(InvalidArgument, match="or none"):
        async with open_embedder(asked_for, {}):
            pass


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "ab",
        [[0.5], "ab"],
        [[0.5], ["1", "2"]],
        [[0.5], None],
        [[0.5], []],
        [[0.5], [math.nan]],
        [[0.5]],
        [[0.5]] * 3,
    ],
    ids=["nothing", "text", "a text", "digits", "a gap", "empty", "NaN", "too few", "too many"],
)
async def test_vectors_that_are_none_are_a_failure_of_the_embedder(answer: Any) -> None:
    class Odd:
        name = "odd"

        async def embed(self, texts: Sequence[str]) -> Any:
            return answer

    with pytest.raises(ModelFailed, match="'odd' failed"):
        await embed_texts(Odd(), ["one", "two"])
