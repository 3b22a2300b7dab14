"""The property test is worth something: engines that are wrong in one point are found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyroaring import BitMap64

from model.properties.histories import History, histories
from model.properties.test_rebase_in_memory import contest
from model.schedules.in_memory import InMemory
from rowlock.boundary import row_identity
from rowlock.protocol.actions import AddFile
from rowlock.transaction.publish import file_actions
from rowlock.transaction.state.shared import Vectors
from rowlock_simulation.memory import data_files
from rowlock_simulation.memory.engine import MemoryEngine

SETTINGS = settings(max_examples=1000, database=None, phases=[Phase.generate], derandomize=True, suppress_health_check=list(HealthCheck))


class KeepsGoneRows(MemoryEngine):
    """Derived rows stay though the rows that they come from are gone."""

    def keep(self, block: Any, mask: Any) -> Any:
        return super().keep(block, np.ones_like(mask) if block.kind == "derived" else mask)


class KeepsDeadInserts(MemoryEngine):
    """An insert stays though its key is there now."""

    def keep(self, block: Any, mask: Any) -> Any:
        return super().keep(block, np.ones_like(mask) if block.kind == "inserted" else mask)


class LeavesCounts(MemoryEngine):
    """Match counts stay as they were staged."""

    def propagate(self, program: Any, staged: Any, gone: Any, born: Any, *, first: Any = None, **more: Any) -> Any:
        out = super().propagate(program, staged, gone, born, first=first, **more)
        return out if first is not None else replace(out, counts=dict(staged.counts))


class IgnoresGoneImages(MemoryEngine):
    """Rows that are gone do not lower the match counts."""

    def propagate(self, program: Any, staged: Any, gone: Any, born: Any, **more: Any) -> Any:
        return super().propagate(program, staged, (), born, **more)


class IgnoresBornRows(MemoryEngine):
    """Winners' rows do not go through the program."""

    def propagate(self, program: Any, staged: Any, gone: Any, born: Any, *, first: Any = None, **more: Any) -> Any:
        return super().propagate(program, staged, gone, born if first is not None else (), first=first, **more)


class MixesUpProvenance(MemoryEngine):
    """Derived rows say that they come from each other's places."""

    def provenance(self, block: Any) -> Any:
        origin = super().provenance(block)
        return replace(origin, position=origin.position[::-1].copy()) if block.kind == "derived" else origin


class ForgetsIds(MemoryEngine):
    """Updated and moved rows are new rows."""

    def write(self, blocks: Any, **more: Any) -> Any:
        return super().write([replace(b, provenance=None) if b.kind == "derived" else b for b in blocks], **more)


class TakesMovesForUpdates(MemoryEngine):
    """Rows that a compaction moved count as changed by it."""

    def write(self, blocks: Any, **more: Any) -> Any:
        return super().write([replace(b, moved=False) for b in blocks], **more)


class TakesUpdatesForMoves(MemoryEngine):
    """Updated rows keep the version that changed them before."""

    def write(self, blocks: Any, **more: Any) -> Any:
        return super().write([replace(b, moved=b.kind == "derived") for b in blocks], **more)


class FirstChanges(MemoryEngine):
    """The change data of the first put serves for all."""

    def write_changes(self, changes: Any, **more: Any) -> Any:
        first = self.__dict__.setdefault("first", {})
        key = tuple(sorted(p for c in changes for b in c.blocks for p in (b.provenance.paths if b.provenance else ())))
        return first.setdefault(key, super().write_changes(changes, **more))


class LeavesOutOldImages(MemoryEngine):
    """Updates without what was there before."""

    def write_changes(self, changes: Any, **more: Any) -> Any:
        return super().write_changes([c for c in changes if c.type != "update_preimage"], **more)


class StagedVectors(Vectors):
    """A file's vector is for ever the first one that was seen."""

    def of(self, file: AddFile) -> BitMap64:
        first: dict[str, AddFile] = self.__dict__.setdefault("first", {})
        return super().of(first.setdefault(file.path, file))


def _staged_vectors(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    world = InMemory()
    world.state.vectors = StagedVectors(world.state.store)
    return world


def _false_statistics(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    """Maxima one too low: files are skipped that hold a row."""
    true = data_files.statistics_of

    def lowered(rows: Any, snapshot: Any) -> str:
        stats = orjson.loads(true(rows, snapshot))
        stats["maxValues"] = {k: v - 1 for k, v in stats["maxValues"].items()}
        return orjson.dumps(stats).decode()

    monkeypatch.setattr(data_files, "statistics_of", lowered)
    return InMemory()


def _with(engine: type[MemoryEngine]) -> Callable[[pytest.MonkeyPatch], InMemory]:
    return lambda monkeypatch: InMemory(engine=engine)


ENGINES = (KeepsGoneRows, KeepsDeadInserts, LeavesCounts, IgnoresGoneImages, IgnoresBornRows, MixesUpProvenance)
FAULTS = {engine.__name__: _with(engine) for engine in ENGINES} | {"StagedVectors": _staged_vectors, "FalseStatistics": _false_statistics}


TRACKING: dict[str, Callable[[pytest.MonkeyPatch], InMemory]] = {
    engine.__name__: _with(engine) for engine in (ForgetsIds, TakesMovesForUpdates, TakesUpdatesForMoves)
}


def _stale_mark(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    """Ids are given from the mark that was there when the table was made."""
    monkeypatch.setattr(row_identity.row_tracking, "high_water_mark", lambda domains, table=None: -1)
    return InMemory()


TRACKING["StaleMark"] = _stale_mark


def _everything_told_by_files(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    """Adds and removes are left to speak for themselves."""
    monkeypatch.setattr(file_actions, "needs_no_change_files", lambda *given, **more: True)
    return InMemory()


FEEDING = {engine.__name__: _with(engine) for engine in (FirstChanges, LeavesOutOldImages)} | {"EverythingToldByFiles": _everything_told_by_files}


@pytest.mark.parametrize("fault", FEEDING)
def test_fault_with_the_change_feed_is_found(fault: str) -> None:
    @given(history=histories())
    @SETTINGS
    def check(history: History) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            contest(history, FEEDING[fault](monkeypatch), tracked=True, properties={"delta.enableChangeDataFeed": "true"})

    with pytest.raises((AssertionError, KeyError, IndexError, ExceptionGroup)):
        check()


@pytest.mark.parametrize("fault", TRACKING)
def test_fault_with_row_ids_is_found(fault: str) -> None:
    @given(history=histories())
    @SETTINGS
    def check(history: History) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            contest(history, TRACKING[fault](monkeypatch), tracked=True)

    with pytest.raises((AssertionError, KeyError, IndexError, ExceptionGroup)):
        check()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.short(
    "KeepsGoneRows",
    "IgnoresGoneImages",
    "IgnoresBornRows",
    "MixesUpProvenance",
    "StagedVectors",
    "FalseStatistics",
    why="faults that only a late history finds",
)
def test_fault_is_found(fault: str) -> None:
    @given(history=histories())
    @SETTINGS
    def check(history: History) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            contest(history, FAULTS[fault](monkeypatch))

    with pytest.raises((AssertionError, KeyError, IndexError, ExceptionGroup)):
        check()
