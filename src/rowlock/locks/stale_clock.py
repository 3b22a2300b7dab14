"""Detects expired leases and other stale marks: a term is over when this process has seen no change for that long.

Only the local monotonic clock is used, never the times of different machines; an observer that comes late therefore
waits a whole term.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping

from rowlock import clock


class StaleClock:
    """Tracks for how long this process has seen each thing unchanged.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def ages(self, marks: Mapping[str, Hashable]) -> dict[str, float]:
        """For each named thing, the seconds since it was first seen with its current mark.  Things not named any more are forgotten."""
        now = clock.monotonic_s()
        with self._lock:
            known = self._seen
            self._seen = {name: known[name] if name in known and known[name][0] == mark else (mark, now) for name, mark in marks.items()}
            return {name: now - since for name, (_, since) in self._seen.items()}
