"""Time zones as Spark's settings and casts spell them: by the name of a region, as `UTC`, `GMT`, `UT` or `Z`, or as an offset such as `+02:00` or `UTC+2`.  Pure."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d{1,2}))?|(\d\d)(\d\d)(\d\d)?|(\d{1,2}):(\d\d):(\d\d))\Z", re.ASCII)
_REGION = re.compile(r"(?!posix/|right/)[A-Z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*\Z", re.ASCII)
_FIXED = {"Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "EST": -5, "MST": -7, "HST": -10}
"""Hours from UTC.  The last three are regions with a history in some databases of time zones, and offsets to Spark."""
_MOST = dt.timedelta(hours=18)


@functools.lru_cache(maxsize=256)
def zone_of(text: str) -> dt.tzinfo:
    """The time zone of a text; raises ValueError for one that is not known here.

    Spark knows 25 more short names (`PST`, `IST`), which mean one region of several, and which are not taken here.
    """
    if text in _FIXED:
        return dt.timezone(dt.timedelta(hours=_FIXED[text]))
    if found := _OFFSET.match(text):
        hours, minutes, seconds = (int(next((g for g in groups if g), 0)) for groups in (found.group(2, 4, 7), found.group(3, 5, 8), found.group(6, 9)))
        offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and offset <= _MOST:
            return dt.timezone(-offset if found[1] == "-" else offset)
    elif _REGION.match(text):
        with contextlib.suppress(KeyError, OSError):
            return ZoneInfo(text)
    raise ValueError(f"{text!r} is no time zone that is known here")
