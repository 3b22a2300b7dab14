"""A clock that a test moves."""

from __future__ import annotations

from rowlock import clock


class Days(clock.SystemClock):
    """The system's clock, ahead by as much as the test says."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def pass_days(self, days: float) -> None:
        self.ahead_ms += int(days * 86_400_000)
