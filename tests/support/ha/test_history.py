"""The checker of `make ha` finds the errors that are planted here."""

from __future__ import annotations

import pytest

from tests.support.ha.history import Operation, StoredAppend, check_history, longest_gap, longest_wait


def append(number: int, *, version: int | None = None, began: float | None = None) -> Operation:
    """An append that took half a second; number n began at n seconds and made version n."""
    start = float(number) if began is None else began
    at = number if version is None else version
    return Operation(thread="t", key=f"k{number}", version=at, began=start, ended=start + 0.5)


def reading(version: int, *, began: float) -> Operation:
    """A reading of the head that took a tenth of a second."""
    return Operation(thread="t", version=version, began=began, ended=began + 0.1)


def row(number: int, *, version: int | None = None) -> StoredAppend:
    """The row that an append leaves."""
    return StoredAppend(thread="t", key=f"k{number}", version=number if version is None else version)


def test_a_sound_history_is_sound() -> None:
    operations = [append(1), reading(1, began=1.6), append(2), append(3)]
    verdict = check_history(operations, [row(1), row(2), row(3)])

    assert verdict.is_sound
    assert verdict.acknowledged == 3


def test_an_append_that_was_stored_but_not_acknowledged_is_no_error() -> None:
    assert check_history([append(1)], [row(1), row(2)]).is_sound


def test_a_lost_append_is_found() -> None:
    assert check_history([append(1), append(2)], [row(1)]).lost == ("t k2 at 2",)


def test_an_append_at_another_version_than_acknowledged_is_lost() -> None:
    assert check_history([append(1), append(2)], [row(1), row(2, version=3)]).lost == ("t k2 at 2",)


def test_an_append_in_another_thread_is_lost() -> None:
    stored = [StoredAppend(thread="other", key="k1", version=1)]

    assert check_history([append(1)], stored).lost == ("t k1 at 1",)


def test_a_doubled_append_is_found() -> None:
    verdict = check_history([append(1), append(2)], [row(1), row(2), row(2, version=3)])

    assert verdict.doubled == ("t k2 × 2",)


@pytest.mark.parametrize("version", [1, 2])
def test_an_append_that_goes_back_is_found(version: int) -> None:
    verdict = check_history([append(2), append(3, version=version)], [row(2), row(3, version=version)])

    assert verdict.backward == (f"t: append got {version} after 2",)


def test_a_stale_reading_is_found() -> None:
    verdict = check_history([append(1), append(2), reading(1, began=2.6)], [row(1), row(2)])

    assert verdict.backward == ("t: reading got 1 after 2",)


def test_a_reading_ahead_of_a_later_append_is_found() -> None:
    verdict = check_history([reading(5, began=0.1), append(1)], [row(1)])

    assert verdict.backward == ("t: append got 1 after 5",)


def test_appends_at_the_same_time_may_have_either_order() -> None:
    operations = [append(1, version=2, began=1.0), append(2, version=1, began=1.2)]

    assert check_history(operations, [row(1, version=2), row(2, version=1)]).is_sound


def test_threads_have_versions_of_their_own() -> None:
    other = Operation(thread="other", key="k9", version=1, began=9.0, ended=9.5)
    stored = [row(1), row(2), StoredAppend(thread="other", key="k9", version=1)]

    assert check_history([append(1), append(2), other], stored).is_sound


def test_a_gap_is_the_longest_time_without_an_acknowledgement() -> None:
    operations = [append(1), append(2), reading(2, began=5.0), append(9)]

    assert longest_gap(operations, 1.0, 10.0) == 7.0
    assert longest_gap([], 1.0, 10.0) == 9.0


def test_a_wait_is_the_longest_append() -> None:
    slow = Operation(thread="t", key="slow", version=3, began=2.0, ended=6.0)

    assert longest_wait([append(1), slow]) == 4.0
