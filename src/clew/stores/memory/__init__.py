"""The store in memory: nothing durable, everything exact. The others are held to it."""

from clew.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
