"""Models on this machine: found by name or folder, and run by fastembed."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from clew.core.errors import InvalidArgument, MissingExtra

PACKAGE: Final = "fastembed"
ONNX_FILES: Final = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx")
"""The files that a folder may have its model in; the first that is there is used."""
TOKENIZER_FILES: Final = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
POOLING_FILE: Final = "1_Pooling/config.json"
PATH_STARTS: Final = ("/", ".", "~")


class Encoder(Protocol):
    """A model of sentence-transformers, as far as it is needed here."""

    def encode(self, sentences: list[str], *, batch_size: int, show_progress_bar: bool) -> Any:
        """A row of numbers for each text."""
        ...


class TextEmbedding(Protocol):
    """A model of fastembed, as far as it is needed here."""

    def embed(self, documents: list[str], batch_size: int) -> Iterable[Any]:
        """A row of numbers for each text."""
        ...


class _ModelConfig(msgspec.Struct, frozen=True):
    hidden_size: int


class _PoolingConfig(msgspec.Struct, frozen=True):
    pooling_mode_cls_token: bool = False


class FastembedEncoder:
    """A model of fastembed that encodes as those of sentence-transformers do."""

    def __init__(self, model: TextEmbedding) -> None:
        self._model = model

    def encode(self, sentences: list[str], *, batch_size: int, show_progress_bar: bool) -> Any:
        """A row of numbers for each text."""
        return list(self._model.embed(sentences, batch_size=batch_size))


def check_local_model(model: str) -> None:
    """Refuse a model that cannot be there, without loading anything.

    Raises:
        InvalidArgument: There is no such folder, or it lacks something.
        MissingExtra: fastembed is not installed.
    """
    folder = _folder_of(model)
    if folder is not None:
        missing = [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
        if onnx_file(folder) is None:
            missing.insert(0, ONNX_FILES[0])
        if missing:
            names = ", ".join(missing)
            problem = f"There is no model in {model!r}: it has no {names}. Give a folder in the format ONNX."
            raise InvalidArgument(problem=problem)
    elif model.startswith(PATH_STARTS):
        raise InvalidArgument(problem=f"There is no model in {model!r}: there is no such folder.")
    if PACKAGE not in sys.modules and importlib.util.find_spec(PACKAGE) is None:
        raise MissingExtra(extra="embeddings", package=PACKAGE)


def load_local_model(model: str) -> Encoder:
    """Load a model of fastembed by its name, or the one in a folder.

    Raises:
        ValueError: fastembed knows no model of that name, or cannot read the folder.
        OSError: It cannot be downloaded.
    """
    fastembed = importlib.import_module(PACKAGE)
    folder = _folder_of(model)
    if folder is None:
        return FastembedEncoder(fastembed.TextEmbedding(model_name=model))
    name = _register_folder(fastembed.TextEmbedding, folder)
    return FastembedEncoder(fastembed.TextEmbedding(model_name=name, specific_model_path=str(folder)))


def _register_folder(models: Any, folder: Path) -> str:
    """Tell fastembed of a model in a folder: its file, its size, and how it makes one vector of many."""
    description = importlib.import_module(f"{PACKAGE}.common.model_description")
    name = f"folder:{folder.resolve()}"
    if name not in {each["model"] for each in models.list_supported_models()}:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_ModelConfig)
        pooling_file = folder / POOLING_FILE
        pooling = (
            msgspec.json.decode(pooling_file.read_bytes(), type=_PoolingConfig)
            if pooling_file.is_file()
            else _PoolingConfig()
        )
        models.add_custom_model(
            model=name,
            pooling=description.PoolingType.CLS
            if pooling.pooling_mode_cls_token
            else description.PoolingType.MEAN,
            normalization=True,
            sources=description.ModelSource(hf=name),  # never asked for: the files are there
            dim=config.hidden_size,
            model_file=onnx_file(folder),
        )
    return name


def onnx_file(folder: Path) -> str | None:
    """The file of a folder that holds the model, relative to it; None if there is none."""
    return next((name for name in ONNX_FILES if (folder / name).is_file()), None)


def _folder_of(model: str) -> Path | None:
    folder = Path(model).expanduser()
    return folder if folder.is_dir() else None
