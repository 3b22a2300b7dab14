"""When a term is over: a watcher saw the same thing for a whole term by its own clock.

No machine's time is compared with another's; a watcher that came late waits a whole term.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping

from rowlock import clock


class StaleClock:
    """Since when this process has seen each thing unchanged.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def ages(self, marks: Mapping[str, Hashable]) -> dict[str, float]:
        """Seconds since each thing was first seen with its mark.  Things that are not named any more are forgotten."""
        now = clock.monotonic_s()
        with self._lock:
            known = self._seen
            self._seen = {name: known[name] if name in known and known[name][0] == mark else (mark, now) for name, mark in marks.items()}
            return {name: now - since for name, (_, since) in self._seen.items()}
