"""Tests for stores and for code that uses them: a contract, a random machine, faults, a clock."""

from importlib import import_module
from typing import TYPE_CHECKING

from clew.core.errors import MissingExtra

if TYPE_CHECKING:
    from clew.testing.clock import Clock
    from clew.testing.contract import StoreContract
    from clew.testing.damage import Damage
    from clew.testing.faults import FailingStore
    from clew.testing.fixtures import StoreOpener
    from clew.testing.machine import store_machine
    from clew.testing.scripted_model import ScriptedModel

__all__ = [
    "Clock",
    "Damage",
    "FailingStore",
    "ScriptedModel",
    "StoreContract",
    "StoreOpener",
    "store_machine",
]

_MODULES = {
    "Clock": "clock",
    "Damage": "damage",
    "FailingStore": "faults",
    "StoreOpener": "fixtures",
    "ScriptedModel": "scripted_model",
    "StoreContract": "contract",
    "store_machine": "machine",
}
_EXTRA_PACKAGES = {"hypothesis", "pytest", "pytest_asyncio"}


def __getattr__(name: str) -> object:
    """Import an exported name on first use, since not all extras are always installed."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_PACKAGES:
            raise
        raise MissingExtra(extra="testing", package=error.name.replace("_", "-")) from error
