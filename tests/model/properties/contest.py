"""Runs a random history on a world and compares it with serial execution in log order (I3, I4, I5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from model.properties import identities
from model.properties.histories import COLUMNS, History
from model.schedules.play import audit, schema_string
from rowlock.exceptions import ConstraintViolated, RowlockError
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import Append, Optimize, Script
from rowlock_simulation.serial import bag


class Serial(Protocol):
    """A table that runs transactions one after another."""

    def run(self, *scripts: Script) -> None: ...

    @property
    def rows(self) -> Sequence[dict[str, Any]]: ...


class _Rounds(Observer):
    """Lets the winners of each round commit: the first once the whole program is staged, the others before its puts.

    (What a statement raises while it is staged is the serial outcome at the version that was read, so no winner may come before.)
    """

    def __init__(self, rounds: Sequence[Sequence[Script]], commit: Callable[[Script], None], steps: int) -> None:
        self._rounds, self._commit, self._steps = list(rounds), commit, steps

    def phase(self, name: str, txn: Any) -> None:
        if name == "staged":
            self._steps -= 1
            if self._steps:
                return
        if name in ("staged", "before_put") and self._rounds and (name == "staged") != self._begun:
            for script in self._rounds.pop(0):
                self._commit(script)
            self._begun = True

    _begun = False


class Contest:
    """One history on one world. `run_program` runs the transaction's program to its commit.

    `properties`: more properties of the table; `steps`: in how many steps the program is staged;
    `tracked`: the table tracks its rows, and who they are is checked after every commit (I6).
    """

    def __init__(
        self,
        history: History,
        world: Any,
        serial: Serial,
        run_program: Callable[[Sequence[Script]], Receipt],
        properties: Mapping[str, str] | None = None,
        steps: int = 1,
        tracked: bool = False,
    ) -> None:
        self._steps = steps
        self._tracked = tracked
        self._properties = {**(identities.TRACKED if tracked else {}), **(properties or {})}
        self._history, self._world, self._serial, self._run_program = history, world, serial, run_program

    def run(self) -> Receipt | None:
        """The transaction's receipt; None where it raised, as the serial run did."""
        h = self._history
        columns = [(c, "long", c not in h.not_null) for c in COLUMNS]
        properties = {"delta.enableDeletionVectors": "true" if h.vectors else "false", **self._properties}
        self._world.create(schema_string(columns), ("p",) if h.partitioned else (), properties)
        for script in [*map(Append, h.files), *h.before]:
            self._commit(script)
        receipt = self._transaction()
        audit(self._world.state.log)
        assert bag(self._world.rows()) == bag(self._serial.rows), "the rows differ from serial execution"
        return receipt

    def _commit(self, script: Script) -> None:
        """A transaction that nobody disturbs: it must raise, or not, as the serial one."""
        with use_observer(Observer()):
            receipts: list[Receipt] = []
            raised = _error(lambda: receipts.append(self._world.run(script)))
        self._check_identities(receipts, [script])
        expected = _error(lambda: self._serial.run(script))
        assert (raised is None) == (expected is None), f"{script}: {raised!r} came, serial execution gives {expected!r}"

    def _transaction(self) -> Receipt | None:
        receipts: list[Receipt] = []
        rounds = _Rounds(self._history.rounds, self._commit, self._steps)
        with use_observer(rounds):
            raised = _error(lambda: receipts.append(self._run_program(self._history.program)))
        self._check_identities(receipts, self._history.program)
        before = bag(self._serial.rows)
        if receipts and receipts[0].version is None and receipts[0].rounds == 0:
            return receipts[0]  # it met nothing at the version that it read, and is serial there
        expected = _error(lambda: self._serial.run(*self._history.program))
        # of several errors that a run could raise, which one comes first is nobody's promise; that one comes is
        assert (raised is None) == (expected is None), f"{raised!r} came, serial execution gives {expected!r}"
        if receipts and receipts[0].version is None:
            assert bag(self._serial.rows) == before, "nothing was committed, serial execution changes rows"
        return receipts[0] if receipts else None

    def _check_identities(self, receipts: Sequence[Receipt], scripts: Sequence[Script]) -> None:
        if self._tracked and receipts and (version := receipts[0].version) is not None:
            before, after = self._world.identified(version - 1), self._world.identified(version)
            identities.check(COLUMNS, before, after, scripts)
            if self._properties.get("delta.enableChangeDataFeed") == "true":
                identities.check_feed(COLUMNS, before[1], after, self._world.feed(version), not isinstance(scripts[0], Optimize))


def _error(work: Callable[[], Any]) -> Exception | None:
    """What the work raises of the errors that a statement may meet; others are faults and go on."""
    try:
        work()
    except ConstraintViolated as e:
        return e
    except RowlockError as e:
        raise AssertionError(f"an error that serial execution has not: {e!r}") from e
    return None
