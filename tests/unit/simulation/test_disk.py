"""The local store on a simulated disk that loses its power: what was acknowledged is durable, with the folders that it is in (I2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowlock.storage.local import LocalStore
from rowlock.storage.store import Committed, NotFound
from rowlock_simulation import Scheduler, simulated
from rowlock_simulation.history import History
from rowlock_simulation.plan import Weather
from rowlock_simulation.servers.disk import ROOT, Disk, SimulatedCalls
from rowlock_simulation.wire import Counted, Wire


@pytest.fixture
def disk() -> Iterator[Disk]:
    scheduler = Scheduler(0)
    with simulated(scheduler):
        yield Disk(History(), scheduler)


@pytest.fixture
def calls(disk: Disk) -> SimulatedCalls:
    """The calls of one process, which nothing delays or fails."""
    return SimulatedCalls(disk, Wire(disk.scheduler, disk.scheduler.outside, Weather(0.01, 0.01, 1000), Counted([])))


def test_a_folder_that_another_made_and_did_not_sync_is_durable_with_what_is_put_into_it(disk: Disk, calls: SimulatedCalls) -> None:
    """Its maker may have been killed between the two: what comes after it would be lost with the folder (`tables` 130,025,709)."""
    LocalStore(ROOT, calls).put("_delta_log/a.json", b"1")
    for folder in ("_rowlock", "_rowlock/prepared", "day=1"):
        calls.mkdir(f"{ROOT}/{folder}")
    store = LocalStore(ROOT, calls)
    store.put("_rowlock/prepared/b.json", b"2")
    store.put("day=1/part.parquet", b"3")
    disk.lose_power()
    assert (store.get("_rowlock/prepared/b.json"), store.get("day=1/part.parquet")) == (b"2", b"3")


def test_the_folder_of_a_new_table_that_another_made_and_did_not_sync_is_durable_with_version_0(disk: Disk, calls: SimulatedCalls) -> None:
    """The store made the log's folder alone, and took its name for that of all above it (`local` 191,001,582)."""
    calls.mkdir(ROOT)
    store = LocalStore(ROOT, calls)
    assert isinstance(store.put_if_absent("_delta_log/a.json", b"1"), Committed)
    disk.lose_power()
    assert store.get("_delta_log/a.json") == b"1"


def test_what_was_put_outlives_the_power(disk: Disk, calls: SimulatedCalls) -> None:
    store = LocalStore(ROOT, calls)
    assert isinstance(store.put_if_absent("_delta_log/a.json", b"1"), Committed)
    store.put("day=1/part.parquet", b"2")
    calls.close(calls.open(f"{ROOT}/unsynced", 0o101))
    disk.lose_power()
    assert (store.get("_delta_log/a.json"), store.get("day=1/part.parquet")) == (b"1", b"2")
    with pytest.raises(NotFound):
        store.get("unsynced")  # the disk does lose what nobody synced
