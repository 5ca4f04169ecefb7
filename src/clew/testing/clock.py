"""A clock that is advanced by hand."""


class Clock:
    """A time in milliseconds that moves only by ``advance``: ``SqliteStore(path, clock=Clock())``."""

    def __init__(self, now: int = 1_750_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        """The time."""
        return self.now

    def advance(self, ms: int = 1) -> None:
        """Let time pass; a negative number sets the clock back, as happens to real ones."""
        self.now += ms
