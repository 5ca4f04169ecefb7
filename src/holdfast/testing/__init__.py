"""What tests of stores, and of code that uses them, are made of: a contract, a machine, faults, a clock."""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.core.errors import MissingExtra

if TYPE_CHECKING:
    from holdfast.testing.clock import Clock
    from holdfast.testing.contract import StoreContract
    from holdfast.testing.damage import Damage
    from holdfast.testing.faults import FailingStore
    from holdfast.testing.given import Opening
    from holdfast.testing.machine import store_machine
    from holdfast.testing.scripted import ScriptedModel

__all__ = ["Clock", "Damage", "FailingStore", "Opening", "ScriptedModel", "StoreContract", "store_machine"]

_HOMES = {
    "Clock": "clock",
    "Damage": "damage",
    "FailingStore": "faults",
    "Opening": "given",
    "ScriptedModel": "scripted",
    "StoreContract": "contract",
    "store_machine": "machine",
}
_EXTRA = {"hypothesis", "pytest", "pytest_asyncio"}


def __getattr__(name: str) -> object:
    """What is exported, imported when it is first asked for, since not all of it is always installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise MissingExtra(extra="testing", package=error.name.replace("_", "-")) from error
