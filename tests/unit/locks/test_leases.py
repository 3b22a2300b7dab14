"""Leases: who holds what, until when, and what a provider that misbehaves can cost.  Time is a test's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rowlock import clock
from rowlock.locks.lease import TABLE, Lease, Leases, Scope
from rowlock.storage import LocalStore
from rowlock.storage.registers import Cell, ObjectRegisters, Registers
from support.locks.clocks import TestClock
from support.locks.registers import Unreliable, in_memory

EU, US, DAY = (frozenset({pin}) for pin in (("region", "=EU"), ("region", "=US"), ("day", "=1")))
TERM_S = 10.0


@pytest.fixture(autouse=True)
def time() -> Iterator[TestClock]:
    with clock.use(TestClock()) as made:
        assert isinstance(made, TestClock)
        yield made


def party(registers: Registers) -> Leases:
    """The leases of one process, without a thread that renews."""
    return Leases(registers, term_s=TERM_S, keep=False)


def taken(leases: Leases, *scopes: Scope, timeout_s: float = 0.0) -> Lease:
    lease = leases.acquire(scopes, timeout_s)
    assert lease is not None
    return lease


def test_one_holder_at_a_time() -> None:
    registers = in_memory()
    a, b = party(registers), party(registers)
    first = taken(a, TABLE)
    assert b.acquire([TABLE], 0.0) is None and a.acquire([TABLE], 0.0) is None
    first.release()
    second = taken(b, TABLE)
    assert second.epoch == first.epoch + 1
    first.release()  # once more: it is not its own any more
    assert a.acquire([TABLE], 0.0) is None


def test_the_table_excludes_partitions_and_partitions_exclude_the_table() -> None:
    registers = in_memory()
    a, b = party(registers), party(registers)
    eu, us = taken(a, EU), taken(b, US)
    assert a.acquire([TABLE], 0.0) is None and b.acquire([DAY], 0.0) is None
    eu.release()
    assert a.acquire([TABLE], 0.0) is None
    us.release()
    table = taken(a, TABLE)
    assert b.acquire([EU], 0.0) is None
    table.release()
    taken(b, EU, US)


def test_several_scopes_are_taken_at_once_or_not_at_all() -> None:
    """Two writers that want the same two, in any order, cannot wait for each other."""
    registers = in_memory()
    a, b = party(registers), party(registers)
    held = taken(a, EU)
    assert b.acquire([US, EU], 0.0) is None
    assert len(b.holders().grants) == 1, "US was not taken while EU was not to be had"
    held.release()
    taken(b, US, EU)
    assert a.acquire([US], 0.0) is None


def test_a_holder_that_renews_is_not_stolen_from(time: TestClock) -> None:
    registers = in_memory()
    held, other = taken(party(registers), TABLE), party(registers)
    for _ in range(20):
        time.sleep(TERM_S / 3)
        assert held.renew()
        assert other.acquire([TABLE], 0.0) is None
    assert not held.lost


def test_a_dead_holder_is_stolen_from_after_its_term_by_the_thiefs_own_clock(time: TestClock) -> None:
    registers = in_memory()
    dead, other = taken(party(registers), TABLE), party(registers)
    time.sleep(1000)  # nobody was watching: that it is old is not known
    assert other.acquire([TABLE], 0.0) is None
    time.sleep(TERM_S - 0.1)
    assert other.acquire([TABLE], 0.0) is None
    time.sleep(0.2)
    stolen = taken(other, TABLE)
    assert stolen.epoch == dead.epoch + 1
    assert not dead.renew() and dead.lost
    dead.release()
    assert [g.id for g in other.holders().grants] == [stolen.id], "who was stolen from gives nothing back"


def test_one_renewal_starts_the_term_anew(time: TestClock) -> None:
    registers = in_memory()
    held, other = taken(party(registers), TABLE), party(registers)
    assert other.acquire([TABLE], 0.0) is None
    time.sleep(TERM_S - 1)
    held.renew()
    assert other.acquire([TABLE], 0.0) is None
    time.sleep(TERM_S - 1)
    assert other.acquire([TABLE], 0.0) is None


def test_waiting_is_bounded(time: TestClock) -> None:
    registers = in_memory()
    held = taken(party(registers), TABLE)
    renewing = Leases(RenewsAtEachRead(registers, held), term_s=TERM_S, keep=False)
    before = time.monotonic_s()
    assert renewing.acquire([TABLE], 60.0) is None
    assert 60.0 <= time.monotonic_s() - before < 61.0


class RenewsAtEachRead:
    """The other side of a wait, on one thread: a holder that is alive."""

    def __init__(self, inner: Registers, held: Lease) -> None:
        self._inner, self._held = inner, held
        self.create, self.swap = inner.create, inner.swap

    def read(self, name: str) -> Cell | None:
        self._held.renew()
        return self._inner.read(name)


def test_the_epoch_grows_through_everything(time: TestClock) -> None:
    registers = in_memory()
    parties, epochs = [party(registers) for _ in range(3)], []
    for n in range(12):
        lease = parties[n % 3].acquire([TABLE], 60.0)
        assert lease is not None
        epochs.append(lease.epoch)
        if n % 2:
            lease.release()
    assert epochs == sorted(set(epochs))


def test_a_cell_with_something_else_in_it_is_written_anew() -> None:
    registers = in_memory()
    for garbage in (b"", b"[]", b"{}", b"\xff", b'{"epoch": -1, "grants": []}', b'{"epoch": 1, "grants": [{"id": 1}]}', b'{"epoch": 1, "grants": 7}'):
        cell = registers.read("leases")
        registers.create("leases", garbage) if cell is None else registers.swap("leases", garbage, cell.tag)
        lease = taken(party(registers), TABLE)
        assert [g.id for g in party(registers).holders().grants] == [lease.id]


def test_a_provider_that_is_away_is_asked_a_few_times_and_then_left_alone(time: TestClock, caplog: pytest.LogCaptureFixture) -> None:
    away = Unreliable(in_memory(), seed=1, chance=1.0)
    away.read = lambda name: (_ for _ in ()).throw(OSError("away"))  # type: ignore[method-assign]
    leases = party(away)
    before = time.monotonic_s()
    assert leases.acquire([TABLE], 60.0) is None and time.monotonic_s() - before < 2
    assert "goes on without" in caplog.text
    away.read = away._inner.read  # type: ignore[method-assign]
    assert leases.acquire([TABLE], 60.0) is None, "for a while nobody waits for it again"
    time.sleep(31)
    away._chance = 0.0
    taken(leases, TABLE)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_provider_does_a_writer_goes_on(seed: int, time: TestClock) -> None:
    """4 parties take and give back 5 leases each over registers of which a third of the calls fails or lies: nothing is raised, and time is bounded."""
    registers = Unreliable(in_memory(), seed, chance=0.35)
    parties = [Leases(registers, term_s=TERM_S, keep=False, rest_s=0.0) for _ in range(4)]
    for n in range(20):
        before = time.monotonic_s()
        lease = parties[n % 4].acquire([TABLE if n % 3 else EU], 30.0)
        assert time.monotonic_s() - before < 35
        if lease is not None:
            lease.renew()
            if n % 5:
                lease.release()
    assert registers.faults > 10


def test_threads_hold_it_one_at_a_time(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """6 parties x 5 turns over one cell on a disk, by the system's clock: never two of them inside at once."""
    inside, most = 0, 0
    guard = threading.Lock()

    def work(leases: Leases) -> None:
        nonlocal inside, most
        for _ in range(5):
            lease = leases.acquire([TABLE], 30.0)
            assert lease is not None
            with guard:
                inside += 1
                most = max(most, inside)
            with guard:
                inside -= 1
            lease.release()

    with clock.use(clock.SystemClock()):
        threads = [threading.Thread(target=work, args=(Leases(ObjectRegisters(LocalStore(tmp_path / "t"))),)) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert most == 1


def test_a_thread_renews_while_the_lease_is_held(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """By the system's clock: a lease of 0.3 s outlives 1 s of another's waiting, and is free once it is given back."""
    with clock.use(clock.SystemClock()):
        registers = ObjectRegisters(LocalStore(tmp_path / "t"))
        held, other = Leases(registers, term_s=0.3).acquire([TABLE], 1.0), Leases(registers, term_s=0.3)
        assert held is not None
        assert other.acquire([TABLE], 1.0) is None and not held.lost
        assert other.holders().grants[0].renewals > 0
        held.release()
        again = other.acquire([TABLE], 5.0)
        assert again is not None
        again.release()
