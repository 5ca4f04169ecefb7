"""What the tests of telemetry share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.telemetry.recorded_spans import RecordedSpans, record_spans
from tests.support.stores import db, shared_url, store_url

__all__ = ["db", "shared_url", "store_url"]


@pytest.fixture
def spans() -> Iterator[RecordedSpans]:
    """The spans of a test, in a program that has set up a tracer."""
    with record_spans() as recorded_spans:
        yield recorded_spans
