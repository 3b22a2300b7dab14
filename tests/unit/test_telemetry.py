"""Metrics and spans: what a receipt or an error says is what OpenTelemetry gets; a listener that fails changes nothing (I2)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import telemetry
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.transaction.definition import creation
from rowlock.transaction.state import phases
from rowlock.transaction.transaction import Options
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import commit, run, stage


class Told:
    """A meter and a tracer that keep what they get."""

    def __init__(self) -> None:
        self._reader, self.exporter = InMemoryMetricReader(), InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.stop = telemetry.instrument(meter_provider=MeterProvider([self._reader]), tracer_provider=tracers)

    def points(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """(attributes, value) of a metric; of a histogram the number of measurements."""
        data = self._reader.get_metrics_data()
        found = [m for r in (data.resource_metrics if data else ()) for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [(dict(p.attributes), p.count if hasattr(p, "count") else p.value) for m in found for p in m.data.data_points]

    def value(self, name: str, **about: str) -> float:
        """The sum of a metric over points with these attributes."""
        wanted = {f"rowlock.{k}": v for k, v in about.items()}
        return sum(value for attributes, value in self.points(name) if wanted.items() <= attributes.items())

    @property
    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def told() -> Iterator[Told]:
    found = Told()
    yield found
    found.stop()


@pytest.fixture
def world() -> InMemory:
    made = InMemory()
    made.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {})
    run(made.table, parse("APPEND (1, 0), (2, 0)"))
    return made


def test_a_commit_that_was_rebased(world: InMemory, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_APPLICATION", "nightly")
    script = parse("UPDATE SET v = v + 1 WHERE k = 1")
    ours = stage(world.table, script)
    run(world.table, parse("UPDATE SET v = v + 10 WHERE k = 1"))
    receipt = commit(ours, script)
    assert receipt.rounds == 1 and receipt.rows_rebased > 0
    assert told.value("rowlock.commits", operation="UPDATE", application="nightly", table=world.state.store.root) == 2
    assert told.value("rowlock.rebases") == 1 and told.value("rowlock.rebased_rows") == receipt.rows_rebased
    assert told.value("rowlock.conflicts", outcome="settled") == len(receipt.conflicts) == 1
    assert told.value("rowlock.lost_puts") == receipt.attempts - 1 and told.value("rowlock.failures") == 0
    assert told.value("rowlock.commit.duration", operation="UPDATE") == 2
    span = told.spans[-1]
    assert span.name == "rowlock UPDATE" and span.attributes["rowlock.version"] == receipt.version and span.attributes["rowlock.rounds"] == 1
    assert [e.attributes["rowlock.version"] for e in span.events] == [receipt.conflicts[0].version]
    assert span.end_time - span.start_time == pytest.approx(sum(receipt.seconds.values()) * 1e9, abs=5e8)


def test_a_conflict_that_was_raised_counts_once(world: InMemory, told: Told) -> None:
    script = parse("UPDATE SET v = v + 1 WHERE k = 1")
    ours = stage(world.table, script, Options(on_conflict="fail"))
    run(world.table, parse("UPDATE SET v = v + 10 WHERE k = 1"))
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        commit(ours, script)
    (about, failures), *more = told.points("rowlock.failures")
    assert (about["error.type"], about["rowlock.operation"], failures, more) == (type(raised.value).__name__, "UPDATE", 1, [])
    assert told.value("rowlock.conflicts", outcome="raised", rule=raised.value.conflict.rule) == 1
    assert told.spans[-1].status.is_ok is False
    assert told.value("rowlock.commits") == 1, "the winner's"


def test_each_append_of_a_group_and_each_change_of_the_definition_counts(tmp_path: Path, told: Told) -> None:
    for n in range(3):
        rowlock.append(tmp_path, pa.table({"k": [n]}))
    assert told.value("rowlock.commits", table=str(tmp_path)) == 3
    world = InMemory()
    world.create(schema_string([("k", "long", True)]), (), {})
    creation.set_properties(world.state, {"owner": "me"})
    assert [about["rowlock.operation"] for about, _ in told.points("rowlock.commits")] == ["WRITE", "CREATE TABLE", "SET TBLPROPERTIES"]
    assert told.value("rowlock.failures") == 0


def test_a_listener_that_fails_changes_nothing(world: InMemory, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def committed(self, table: str, receipt: Any) -> None:
            raise ValueError("no such meter")

        def failed(self, table: str, operation: str, error: Any) -> None:
            raise ValueError("no such meter")

    stop = phases.listen(Broken())
    try:
        assert run(world.table, parse("UPDATE SET v = 7 WHERE k = 2")).version == 2
    finally:
        stop()
    assert "could not be handed to Broken: no such meter" in caplog.text


def test_after_stop_nothing_is_recorded(world: InMemory, told: Told) -> None:
    told.stop()
    run(world.table, parse("UPDATE SET v = 7 WHERE k = 2"))
    assert told.points("rowlock.commits") == [] and told.spans == []


def test_nothing_else_imports_opentelemetry(tmp_path: Path) -> None:
    code = f"import sys, pyarrow as pa, rowlock\nrowlock.append({str(tmp_path / 't')!r}, pa.table({{'k': [1]}}))\nprint([m for m in sys.modules if m.startswith('opentel')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
