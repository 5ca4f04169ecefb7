"""The texts of running answers in memory."""

import msgspec

from clew.core.values import ProvisionalText, Scope


class MemoryTexts:
    """The texts of running answers, by tenant and thread."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], ProvisionalText] = {}

    async def begin(self, scope: Scope, text: ProvisionalText, most: int) -> bool:
        """Keep a text in place of the one that its thread has, unless there are too many others."""
        key = (scope.tenant, text.thread)
        if key in self._texts and await self.read(scope, text.thread) is None:
            return False  # the text of another user
        if sum(tenant == scope.tenant for tenant, thread in self._texts if thread != text.thread) >= most:
            self._texts.pop(key, None)
            return False
        self._texts[key] = text
        return True

    async def extend(self, scope: Scope, text: ProvisionalText, part: bytes) -> bool:
        """Add a part to a text; return False if it is no longer there."""
        current = await self.read(scope, text.thread)
        if current is None or current.id != text.id:
            return False
        self._texts[scope.tenant, text.thread] = msgspec.structs.replace(
            current, parts=(*current.parts, part)
        )
        return True

    async def read(self, scope: Scope, thread: str) -> ProvisionalText | None:
        """The text of a thread, if it has one."""
        text = self._texts.get((scope.tenant, thread))
        return text if text is not None and scope.user in (None, text.owner) else None

    async def headers(self, scope: Scope) -> list[ProvisionalText]:
        """Every text, without its parts."""
        return [
            msgspec.structs.replace(text, parts=())
            for (tenant, _), text in self._texts.items()
            if tenant == scope.tenant and scope.user in (None, text.owner)
        ]

    async def drop(self, scope: Scope, thread: str, text: ProvisionalText | None = None) -> bool:
        """Drop the text of a thread, or only a given one; return whether there was one."""
        current = await self.read(scope, thread)
        if current is None or (text is not None and text.id != current.id):
            return False
        del self._texts[scope.tenant, thread]
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._texts.clear()
