"""An embedder with real weights, which come in a package: small vectors of words, averaged for a text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import as_file, files

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class WordVectors:
    """The model of WordLlama that its package brings: 256 numbers for a text."""

    name = "wordllama-256"

    def __init__(self) -> None:
        # By name: the packages are in the environment of the benchmarks alone.
        weights_format, tokens, model = map(import_module, ("safetensors.numpy", "tokenizers", "wordllama"))
        package = files("wordllama")
        # Its own loader would look for the tokenizer elsewhere, and ask the network for it.
        with as_file(package / WEIGHTS) as weights, as_file(package / TOKENIZER) as tokenizer:
            self._model = model.WordLlamaInference(
                weights_format.load_file(weights)["embedding.weight"],
                tokens.Tokenizer.from_file(str(tokenizer)),
            )

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        rows: Sequence[Sequence[float]] = await asyncio.to_thread(
            lambda: self._model.embed(list(texts)).tolist()
        )
        return rows
