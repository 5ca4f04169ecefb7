"""Provisional texts of a database: those of running answers, which the log never has.

What is written to a store goes through ``encode_part``, and what is read through ``decode_parts``: texts that
are sealed will be sealed and opened there, and nowhere else.
"""

from collections.abc import Collection, Iterable, Sequence

from clew.core.log.rows import AskThread, ask
from clew.core.ports import KeepsProvisionalTexts, ProvisionalTexts, Store
from clew.core.values import Scope

MOST_TEXTS = 1000
"""The most texts that a tenant has at a time. Of one more answer nothing is kept."""


def provisional_texts(store: Store) -> ProvisionalTexts | None:
    """Return the texts of running answers that a store keeps; None if it keeps none."""
    return store.provisional if isinstance(store, KeepsProvisionalTexts) else None


def encode_part(text: str) -> bytes:
    """Return some text as a store keeps it."""
    return text.encode("utf-8", "replace")


def decode_parts(parts: Sequence[bytes]) -> list[str]:
    """Return what a store has kept, as text."""
    return [part.decode("utf-8", "replace") for part in parts]


async def drop_thread_texts(store: Store, scope: Scope, threads: Iterable[str]) -> None:
    """Drop the texts of some threads."""
    texts = provisional_texts(store)
    if texts is not None:
        for thread in threads:
            await texts.drop(scope, thread)


async def drop_subject_texts(
    store: Store, scope: Scope, *, owner: str | None, threads: Collection[str]
) -> int:
    """Drop the texts of an owner and of some threads, and return how many there were.

    Those of threads that are gone go too: a fork may have been made, and erased, since the threads were read.
    """
    texts = provisional_texts(store)
    count = 0
    for header in [] if texts is None else await texts.headers(scope):
        assert texts is not None
        is_own = header.thread in threads or (owner is not None and header.owner == owner)
        if is_own or await store.read(scope, ask(AskThread(header.thread))) is None:
            count += await texts.drop(scope, header.thread) and is_own
    return count
