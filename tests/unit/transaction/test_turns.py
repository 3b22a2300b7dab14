"""I8: a writer that loses again and again is let through, within a bounded number of rounds.  Time is the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.locks.turns import AFTER, CELL, LONGEST_TERM_S, LOOK_S, PATIENCE_S, Turn, TurnRequest, Turns, parse
from rowlock.storage import MemoryStore
from rowlock.storage.registers import Cell, Registers
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import Append, parse as script
from rowlock_simulation.memory.statements import run
from support.locks.clocks import Stage, TestClock
from support.locks.registers import Unreliable, in_memory


@pytest.fixture
def time() -> Iterator[TestClock]:
    with clock.use(TestClock()) as made:
        assert isinstance(made, TestClock)
        yield made


class Counted:
    """Registers that count how often they are read."""

    def __init__(self, inner: Registers) -> None:
        self._inner, self.reads = inner, 0
        self.create, self.swap = inner.create, inner.swap

    def read(self, name: str) -> Cell | None:
        self.reads += 1
        return self._inner.read(name)


def process(registers: Registers) -> Turns:
    return Turns(lambda: registers)


def in_cell(registers: Registers) -> Turn:
    cell = registers.read(CELL)
    return Turn() if cell is None else parse(cell.value)


def announced(registers: Registers) -> tuple[Turns, TurnRequest]:
    turns = process(registers)
    bid = lost(turns.request("long"))
    assert bid.announced
    return turns, bid


def lost(bid: TurnRequest, puts: int = AFTER, seconds: float = PATIENCE_S) -> TurnRequest:
    """A writer that lost so many puts, and so much time with them, right before its next one."""
    for n in range(puts):
        bid.before_put(n)
        clock.sleep(seconds / max(1, puts))
    bid.before_put(puts)
    return bid


def test_a_turn_is_announced_after_so_many_lost_puts_and_no_earlier(time: TestClock) -> None:
    registers = in_memory()
    for puts, seconds in ((AFTER - 1, 10 * PATIENCE_S), (10 * AFTER, 0.9 * PATIENCE_S)):
        assert not lost(process(registers).request("short"), puts, seconds).announced and registers.read(CELL) is None
    before = time.monotonic_s()
    bid = lost(process(registers).request("long"))
    assert bid.announced and in_cell(registers).holder == "long"
    assert time.monotonic_s() >= before + PATIENCE_S + LOOK_S, "all have looked before it goes on"
    bid.end()
    assert in_cell(registers) == Turn(None, 1, 0.0)


def test_others_wait_until_the_turn_is_over(time: TestClock) -> None:
    registers = in_memory()
    other = process(registers)
    other.request("b").before_put(0)
    _, bid = announced(registers)
    before = time.monotonic_s()
    time.on_sleep = [lambda: None, lambda: None, bid.end]
    other.request("c").before_put(0)
    assert in_cell(registers).holder is None and 0 < time.monotonic_s() - before < 1


def test_looking_costs_one_read_a_second_and_nothing_for_who_writes_once(time: TestClock) -> None:
    counted = Counted(in_memory())
    once = process(counted)
    once.request("a").before_put(0)
    assert counted.reads == 0
    steady = process(counted)
    for n in range(100):  # 10 puts a second, for 10 seconds
        steady.request(str(n)).before_put(0)
        time.sleep(0.1)
    assert counted.reads == 9
    process(counted).request("b").before_put(1)
    assert counted.reads == 10, "who has lost looks at once"


def test_a_dead_holder_costs_a_process_one_term_and_no_more(time: TestClock) -> None:
    registers = in_memory()
    announced(registers)  # and nothing is heard of it again
    term_s = in_cell(registers).term_s
    assert LOOK_S < term_s <= LONGEST_TERM_S
    other, before = process(registers), time.monotonic_s()
    other.request("b").before_put(1)
    assert term_s <= time.monotonic_s() - before < term_s + 0.5
    before = time.monotonic_s()
    for n in range(20):
        other.request(str(n)).before_put(1)
    assert time.monotonic_s() == before
    bid = lost(other.request("c"))
    assert bid.announced and in_cell(registers) == Turn("c", 2, in_cell(registers).term_s), "the cell is nobody's for ever"


def test_a_turn_whose_term_is_over_is_ended_with_the_commit(time: TestClock) -> None:
    """A round took longer than the term, and the put after it won: a process that only now reads of the turn does not wait (s3 220,003,345 of the simulation)."""
    registers = in_memory()
    _, bid = announced(registers)
    time.sleep(2 * in_cell(registers).term_s)
    bid.before_put(AFTER + 1)
    assert not bid.announced
    bid.end()
    before = time.monotonic_s()
    process(registers).request("b").before_put(1)
    assert in_cell(registers) == Turn(None, 1, 0.0) and time.monotonic_s() == before


def test_of_two_that_lost_one_has_the_turn_and_the_other_honours_it(time: TestClock) -> None:
    registers = in_memory()
    _, first = announced(registers)
    time.on_sleep = [lambda: None, lambda: None, lambda: None, first.end]
    second = lost(process(registers).request("second"))
    assert second.announced and in_cell(registers).holder == "second" and in_cell(registers).epoch == 2


def test_a_turn_that_was_too_short_is_announced_anew_and_for_longer(time: TestClock) -> None:
    registers = in_memory()
    _, bid = announced(registers)
    first = in_cell(registers)
    time.sleep(first.term_s + 5)  # the round took longer than was asked for
    for puts in range(AFTER + 1, 2 * AFTER + 2):
        bid.before_put(puts)
        time.sleep(PATIENCE_S)
    again = in_cell(registers)
    assert again.epoch == 2 and first.term_s < again.term_s <= LONGEST_TERM_S


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"\xff", b'{"holder": "x"}', b'{"holder": "x", "epoch": "a", "term_s": 1}', b'{"holder": "x", "epoch": 1, "term_s": null}']
)
def test_a_cell_with_something_else_in_it_is_nobodys_turn(value: bytes, time: TestClock) -> None:
    registers = in_memory()
    registers.create(CELL, value)
    process(registers).request("a").before_put(1)
    assert time.monotonic_s() == 0
    announced(registers)


def test_no_turn_is_believed_to_last_for_ever(time: TestClock) -> None:
    registers = in_memory()
    registers.create(CELL, b'{"holder": "x", "epoch": 1, "term_s": 1e9}')
    process(registers).request("a").before_put(1)
    assert time.monotonic_s() <= LONGEST_TERM_S + 0.5


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_provider_does_a_writer_goes_on(seed: int, time: TestClock) -> None:
    registers = Unreliable(in_memory(), seed, chance=0.35)
    parties = [process(registers) for _ in range(3)]
    for n in range(30):
        before = time.monotonic_s()
        bid = lost(parties[n % 3].request(str(n)), n % 5)
        bid.end()
        assert time.monotonic_s() - before <= LONGEST_TERM_S + LOOK_S + PATIENCE_S + 1
    assert registers.faults > 0


# ---- real transactions, each party a process of its own, on one clock ------------------------------

SCHEMA = schema_string([("k", "long", True), ("v", "long", True)])
MERGE = script("MERGE USING (k, v: (1, 100), (2, 100)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *")
SHORT_WRITERS, PUT_S, PAUSE_S, REBASE_S, PLAY_S = 4, 0.02, 0.1, 0.5, 20.0


@dataclass
class Takes(Observer):
    """How long phases take."""

    seconds: dict[str, float]

    def phase(self, name: str, txn: object) -> None:
        if s := self.seconds.get(name):
            clock.sleep(s)


def among_short_writers(turns: bool) -> Receipt:
    """A MERGE whose rebase takes 0.5 s, among 4 processes that each commit about 8 times a second until it is done, or for 20 s."""
    store = MemoryStore()
    InMemory(store=store).create(SCHEMA, (), {"delta.enableDeletionVectors": "true"})
    InMemory(store=store).run(Append(((1, 0), (2, 0))))
    options, receipts = Options(turns=turns), list[Receipt]()

    def long() -> None:
        with use_observer(Takes({"staged": 2.0, "before_rebase": REBASE_S, "before_put": PUT_S})):
            receipts.append(run(InMemory(store=store).table, MERGE, options))

    def short(n: int) -> Callable[[], None]:
        def write() -> None:
            world = InMemory(store=store)
            with use_observer(Takes({"before_put": PUT_S})):
                while not receipts and clock.monotonic_s() < PLAY_S:
                    run(world.table, script("UPDATE SET v = v + 1 WHERE k = 1"), options)
                    clock.sleep(PAUSE_S * (1 + n / 10))

        return write

    stage = Stage()
    with clock.use(stage):
        stage.play(long, *map(short, range(SHORT_WRITERS)))
    updates = sum(c.info is not None and c.info.operation == "UPDATE" for c in InMemory(store=store).state.log.history())
    assert {r["k"]: r["v"] for r in InMemory(store=store).rows()} == {1: 100 + updates, 2: 100}, "nothing is lost and nothing doubled"
    return receipts[0]


def test_a_long_writer_commits_within_its_bound() -> None:
    """AFTER lost puts, its turn, and one more for each put that was on its way when the turn was seen."""
    receipt = among_short_writers(turns=True)
    assert AFTER < receipt.attempts <= AFTER + 1 + SHORT_WRITERS


def test_without_turns_it_does_not() -> None:
    """The same play, turns off: it loses for as long as the short writers go on."""
    assert among_short_writers(turns=False).attempts > 2 * (AFTER + 1 + SHORT_WRITERS)
