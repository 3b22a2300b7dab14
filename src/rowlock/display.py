"""Text for people: objects as aligned lines in a terminal and as small tables in a notebook.  Pure: no I/O, and nothing here raises for a value that is odd."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

Facts = Sequence[tuple[str, Sequence[str]]]
"""Names, each with its lines of text; a name without lines is left out."""

_SHOWN_NAMES = 8
_UNITS_S = ((259_200, 86_400, "d"), (10_800, 3600, "h"), (300, 60, "min"), (0.1, 1, "s"))


def aligned(title: str, facts: Facts) -> str:
    """A title, then one line for each fact, the names in one column."""
    shown = [(name, lines) for name, lines in facts if lines]
    width = max((len(name) for name, _ in shown), default=0)
    out = [title]
    for name, lines in shown:
        out += [f"  {name if n == 0 else '':<{width}}  {line}" for n, line in enumerate(lines)]
    return "\n".join(out)


def html_table(title: str, facts: Facts) -> str:
    """The same as an HTML table of two columns; all text is escaped."""
    from html import escape

    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{"<br>".join(escape(line) for line in lines)}</td></tr>'
        for name, lines in facts
        if lines
    )
    return f'<table><caption style="text-align:left">{escape(title)}</caption><tbody>{rows}</tbody></table>'


def call(name: str, /, *parts: str, **fields: object) -> str:
    """One line such as `DeltaTable('/lake/sales', version=12)`; fields that are None are left out."""
    return f"{name}({', '.join([*parts, *(f'{k}={v!r}' for k, v in fields.items() if v is not None)])})"


def some_names(names: Iterable[str]) -> str:
    """Names in brackets; of many the first 8, and how many more there are."""
    held = list(names)
    more = f", and {len(held) - _SHOWN_NAMES} more" if len(held) > _SHOWN_NAMES else ""
    return f"[{', '.join(held[:_SHOWN_NAMES])}{more}]"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 row`, `2,000 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(size_bytes: int) -> str:
    """Bytes in decimal units: `999 B`, `3.4 MB`."""
    amount, units = float(size_bytes), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{size_bytes} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def duration(seconds: float, digits: int = 2) -> str:
    """A length of time: `0 s`, `3 ms`, `0.25 s`, `70 s`, `12 min`, `3 d`; with more digits `4.99 s`."""
    if seconds <= 0:
        return "0 s"
    amount, unit = next(((seconds / of, unit) for least, of, unit in _UNITS_S if seconds >= least), (1000 * seconds, "ms"))
    return f"{amount:.0f} {unit}" if amount >= 10**digits - 0.5 else f"{amount:.{digits}g} {unit}"


def first_line(error: object) -> str:
    """The first line of an error's text; the name of its class where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def shortened(text: str, width: int) -> str:
    """The text without its middle where it is longer than `width`."""
    return text if len(text) <= width else f"{text[: width // 2]}…{text[-(width // 2 - 1) :]}"


def utc(timestamp_ms: float | None) -> datetime.datetime | None:
    """A time in milliseconds since the epoch; None for None, and for one that Python does not have."""
    try:
        return None if timestamp_ms is None else datetime.datetime.fromtimestamp(timestamp_ms / 1000, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return None


def moment(timestamp_ms: float | None) -> str:
    """A time as a full date in UTC, to the second; `?` where it is not known."""
    at = utc(timestamp_ms)
    return "?" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def time_in(timestamp_ms: int, zone: datetime.tzinfo | None = None) -> str:
    """A time for people, in a zone that is named with it; by default the zone of this process."""
    found = utc(timestamp_ms)
    if found is None:
        return f"{timestamp_ms} ms after 1970"
    try:
        at = found.astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms after 1970"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} {at.tzname() or ''}".strip()


def nearest(given: str, known: Iterable[str], likeness: float = 0.75) -> str | None:
    """The known name that is most like a misspelt one, whatever its case; None where none is so much like it (1: equal)."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(given.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[found[0]] if found else None


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the known name that is most like a misspelt one; empty where none is like it."""
    return f"; did you mean {found}?" if (found := nearest(given, known)) else ""
