"""Metrics and spans of transactions, for OpenTelemetry.  The only module that imports `opentelemetry`; nothing else imports this one.

import rowlock.telemetry

rowlock.telemetry.instrument()      # pip install 'rowlock[otel]'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from rowlock import clock, extras
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.transaction.state import phases
from rowlock.transaction.state.call import writer
from rowlock.transaction.state.receipt import Receipt

extras.need("rowlock.telemetry", "opentelemetry")

from opentelemetry import metrics, trace  # noqa: E402 - after the error that names the extra
from opentelemetry.metrics import MeterProvider  # noqa: E402
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider  # noqa: E402

__all__ = ["instrument"]

Attributes = dict[str, str]
WAITS = ("lock", "wait")
"""Phases of a receipt in which a transaction waits: in line for a lease; for the commit lane or another's turn."""
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The buckets of the histogram, where the application's views do not choose others."""
COUNTERS: Mapping[str, tuple[str, str]] = {
    "rowlock.commits": ("{commit}", "Transactions that were committed."),
    "rowlock.rebases": ("{rebase}", "Rebases of transactions over the commits of others."),
    "rowlock.rebased_rows": ("{row}", "Rows that rebases looked at."),
    "rowlock.lost_puts": ("{put}", "Puts of a version that another writer had taken."),
    "rowlock.conflicts": ("{conflict}", "Commits of others that a transaction met, by outcome: settled by a rebase, or raised by a rule."),
    "rowlock.failures": ("{transaction}", "Transactions that failed, by error."),
    "rowlock.wait_time": ("s", "Seconds that transactions waited, by phase: lock, wait."),
}
"""The counters by name: unit and description."""


def instrument(*, meter_provider: MeterProvider | None = None, tracer_provider: TracerProvider | None = None) -> Callable[[], None]:
    """Records every transaction of this process that ends at its commit, as metrics and as a span.  Runs on the driver.

    Args:
        meter_provider: Where metrics go; by default the global provider.
        tracer_provider: Where spans go; by default the global provider.

    Returns:
        A function that stops the recording.

    Every measurement carries `rowlock.table`, `rowlock.operation` and `rowlock.application`.  Metrics are those of `COUNTERS` and the histogram
    `rowlock.commit.duration` in seconds.  A span is called `rowlock UPDATE` (the operation), is a child of the span that is current where the commit
    was called, and has an event for each conflict.

    Raises:
        InvalidInput: The extra `otel` is not installed (on import).
    """
    return phases.listen(_Recorder(meter_provider, tracer_provider))


class _Recorder:
    """Turns receipts and errors into measurements."""

    def __init__(self, meter_provider: MeterProvider | None, tracer_provider: TracerProvider | None) -> None:
        meter = metrics.get_meter("rowlock", meter_provider=meter_provider)
        self._counters = {name: meter.create_counter(name, unit, description) for name, (unit, description) in COUNTERS.items()}
        self._duration = meter.create_histogram(
            "rowlock.commit.duration", "s", "Seconds from the beginning of a transaction to its end.", explicit_bucket_boundaries_advisory=BUCKETS_S
        )
        self._tracer = trace.get_tracer("rowlock", tracer_provider=tracer_provider)

    def committed(self, table: str, receipt: Receipt) -> None:
        """Counts a transaction that ended, and makes its span."""
        about = _about(table, receipt.operation)
        seconds = sum(receipt.seconds.values())
        landed = receipt.version is not None
        self._add("rowlock.commits", int(landed), about)
        self._add("rowlock.rebases", receipt.rounds, about)
        self._add("rowlock.rebased_rows", receipt.rows_rebased, about)
        self._add("rowlock.lost_puts", max(0, receipt.attempts - landed), about)
        self._add("rowlock.conflicts", len(receipt.conflicts), {**about, "rowlock.outcome": "settled"})
        for phase in WAITS:
            self._add("rowlock.wait_time", receipt.seconds.get(phase, 0.0), {**about, "rowlock.phase": phase})
        self._duration.record(seconds, about)
        whole: dict[str, str | int | float] = {
            **about,
            "rowlock.txn_id": receipt.txn_id,
            "rowlock.attempts": receipt.attempts,
            "rowlock.rounds": receipt.rounds,
            **({} if receipt.version is None else {"rowlock.version": receipt.version}),
            **{f"rowlock.seconds.{phase}": value for phase, value in receipt.seconds.items()},
        }
        with self._span(seconds, whole) as span:
            for conflict in receipt.conflicts:
                met = dict[str, str | int](version=conflict.version, operation=conflict.operation or "", rows_gone=conflict.rows_gone)
                span.add_event("conflict", {f"rowlock.{name}": value for name, value in {**met, "rows_born": conflict.rows_born}.items()})

    def failed(self, table: str, operation: str, error: BaseException) -> None:
        """Counts a transaction that failed, and makes its span."""
        about = {**_about(table, operation), "error.type": type(error).__name__}
        conflict = error.conflict if isinstance(error, DeltaConcurrentModificationException) else None
        self._add("rowlock.failures", 1, about)
        if conflict is not None:
            self._add("rowlock.conflicts", 1, {**about, "rowlock.outcome": "raised", "rowlock.rule": conflict.rule})
        with self._span(0.0, about) as span:
            span.set_status(Status(StatusCode.ERROR, str(error)[:200]))

    def _add(self, name: str, amount: float, about: Attributes) -> None:
        if amount:
            self._counters[name].add(amount, about)

    def _span(self, seconds: float, about: Mapping[str, str | int | float]) -> AbstractContextManager[Span]:
        """A span that ends now and began so many seconds ago."""
        began_ns = clock.now_ms() * 1_000_000 - int(seconds * 1e9)
        name = f"rowlock {about['rowlock.operation']}"
        return self._tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=about, start_time=began_ns)


def _about(table: str, operation: str) -> Attributes:
    return {"rowlock.table": table, "rowlock.operation": operation, "rowlock.application": writer()["application"]}
