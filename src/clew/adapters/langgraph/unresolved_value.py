"""Values whose type is not known or not there any more: their data, and what is stored of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import ormsgpack

from clew.core.arguments import check_methods


@check_methods
class UnresolvedValue(Mapping[str, Any]):
    """The data of a value whose type was not named, was renamed or removed, or cannot be made any more.

    It reads like a dictionary of the value's fields; what has none, like a member of an enumeration, is its
    only entry, ``value``. ``type_name`` is the module and name that were stored. Put again, it is stored as
    it was, so that nothing is lost until the type is there again.
    """

    __slots__ = ("_code", "_data", "_fields", "type_name")

    def __init__(self, code: int, data: bytes, type_name: tuple[str, str], content: Any) -> None:
        self.type_name = type_name
        self._code = code
        self._data = data
        self._fields: dict[str, Any] = content if type(content) is dict else {"value": content}

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"UnresolvedValue({'.'.join(self.type_name)}, {self._fields!r})"

    def extension(self) -> ormsgpack.Ext:
        """The extension that was stored."""
        return ormsgpack.Ext(self._code, self._data)

    def _asdict(self) -> dict[str, Any]:
        """The fields that LangGraph's serializer writes of one within an object of another type."""
        return {"code": self._code, "data": self._data}


WRAPPER: tuple[str, str] = (UnresolvedValue.__module__, UnresolvedValue.__name__)
"""The name under which one is stored within an object of another type."""
