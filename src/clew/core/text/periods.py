"""Periods that a question names: in May, on 7 May 2023, last summer, two weeks ago."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import msgspec

DAY_MS = 86_400_000
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TOLD_LATER_DAYS = 30
"""What happened in a period is told in it, or in so many days after it."""

_MONTH = "|".join(MONTHS)
_CUE = r"\b(?:in|of|on|last|this|since|during|until|by|early|late|mid|before|after)(?:\s+the)?\s+"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?:of\s+)?(?P<year>(?:19|20)\d\d))"
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "a couple of": 2}


class NamedPeriod(msgspec.Struct, frozen=True):
    """A time from its first to its last millisecond."""

    start: int
    end: int

    def closeness(self, time: int) -> float:
        """1 for a time in the period, and less and less after it: much is told only later."""
        if time < self.start:
            return 0.0
        return max(0.0, 1 - max(0, time - self.end) / (TOLD_LATER_DAYS * DAY_MS))


def named_period(text: str, now: int) -> NamedPeriod | None:
    """The period that a text names, as seen from a time; None if it names none. Days are those of UTC."""
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    for pattern, days in _PATTERNS:
        if match := pattern.search(text):
            try:
                first, last = days(match, today)
            except (ValueError, OverflowError):  # the thirtieth of February
                continue
            return NamedPeriod(_milliseconds(first), _milliseconds(last + timedelta(days=1)) - 1)
    return None


_Days = Callable[[re.Match[str], date], tuple[date, date]]


def _milliseconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def _latest(match: re.Match[str], month: int, day: int, today: date) -> date:
    """A day of the year that is named, or else the last one that was."""
    if match["year"]:
        return date(int(match["year"]), month, day)
    this_year = date(today.year, month, day)
    return this_year if this_year <= today else date(today.year - 1, month, day)


def _one_day(match: re.Match[str], today: date) -> tuple[date, date]:
    day = _latest(match, MONTHS.index(match["month"].lower()) + 1, int(match["day"]), today)
    return day, day


def _iso_day(match: re.Match[str], today: date) -> tuple[date, date]:
    day = date.fromisoformat(match[0])
    return day, day


def _months(start: date, count: int) -> tuple[date, date]:
    end = start.year * 12 + start.month - 1 + count
    return start, date(end // 12, end % 12 + 1, 1) - timedelta(days=1)


def _month(match: re.Match[str], today: date) -> tuple[date, date]:
    return _months(_latest(match, MONTHS.index(match["month"].lower()) + 1, 1, today), 1)


def _season(match: re.Match[str], today: date) -> tuple[date, date]:
    return _months(_latest(match, SEASONS[match["season"].lower()], 1, today), 3)


def _year(match: re.Match[str], today: date) -> tuple[date, date]:
    return _months(date(int(match["year"]), 1, 1), 12)


def _ago(match: re.Match[str], today: date) -> tuple[date, date]:
    number = match["number"].lower()
    days = UNITS[match["unit"].lower()]
    middle = today - timedelta(days=days * (_NUMBERS[number] if number in _NUMBERS else int(number)))
    return middle - timedelta(days=days // 2), middle + timedelta(days=days // 2)


def _last_unit(match: re.Match[str], today: date) -> tuple[date, date]:
    days = UNITS[match["unit"].lower()]
    if match["which"].lower() == "this":
        return today - timedelta(days=days), today
    return today - timedelta(days=2 * days), today - timedelta(days=1)


def _weekday(match: re.Match[str], today: date) -> tuple[date, date]:
    back = (today.weekday() - WEEKDAYS.index(match["weekday"].lower())) % 7 or 7
    day = today - timedelta(days=back)
    return day, day


def _near_day(match: re.Match[str], today: date) -> tuple[date, date]:
    day = today if match[0].lower() == "today" else today - timedelta(days=1)
    return day, day


def _pattern(text: str, days: _Days) -> tuple[re.Pattern[str], _Days]:
    return re.compile(text, re.IGNORECASE), days


_PATTERNS = (
    _pattern(r"\b(?:19|20)\d\d-\d\d-\d\d\b", _iso_day),
    _pattern(rf"\b{_DAY}\s+(?:of\s+)?(?P<month>{_MONTH})\b{_YEAR}?", _one_day),
    _pattern(rf"\b(?P<month>{_MONTH})\s+{_DAY}\b{_YEAR}?", _one_day),
    _pattern(rf"\b(?P<month>{_MONTH}){_YEAR}", _month),
    _pattern(rf"{_CUE}(?P<month>{_MONTH})\b(?P<year>$^)?", _month),
    _pattern(rf"\b(?:{_CUE})?(?P<season>{'|'.join(SEASONS)}){_YEAR}", _season),
    _pattern(rf"{_CUE}(?P<season>{'|'.join(SEASONS)})\b(?P<year>$^)?", _season),
    _pattern(r"\b(?:yesterday|today|last night)\b", _near_day),
    _pattern(
        rf"\b(?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)})\s+(?P<unit>day|week|month|year)s?\s+ago\b", _ago
    ),
    _pattern(r"\b(?P<which>last|this|past)\s+(?P<unit>week|month|year)\b", _last_unit),
    _pattern(rf"\b(?:on|last)\s+(?P<weekday>{'|'.join(WEEKDAYS)})\b", _weekday),
    _pattern(rf"{_CUE}(?P<year>(?:19|20)\d\d)\b", _year),
)
