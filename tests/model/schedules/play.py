"""Plays a schedule on a world and judges what came of it.

One thread walks all sessions: a session that is stopped at a phase plays the lines up to its own
next one from inside of its observer.  Judged are each session's end, the final rows against serial
execution in log order, and every commit's file actions (I3, I4, I5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import orjson

from model.schedules.schedule import Action, AddCheck, AddColumn, AddFeature, DropColumn, Restore, Schedule, SetProperty, Step
from rowlock import clock
from rowlock.boundary.engine import Engine
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import CommitInfo, Protocol as Protocol_
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.storage.store import Committed
from rowlock.transaction.definition import alteration, creation
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState
from rowlock_simulation.memory.sql.script import Append, Script
from rowlock_simulation.serial import SerialTable, bag


class World(Protocol):
    """A table on some engine."""

    state: SharedState

    @property
    def engine(self) -> Engine: ...

    def create(self, schema_string: str, partition: tuple[str, ...], properties: dict[str, str]) -> None: ...

    def run(self, script: Script) -> Receipt:
        """Runs one statement from begin to commit, under the observer in force."""
        ...

    def restore(self, version: int) -> Receipt:
        """Brings a version back, under the observer in force."""
        ...

    def rows(self) -> list[dict[str, Any]]: ...


def schema_string(columns: Iterable[tuple[str, str, bool]]) -> str:
    """The log's JSON for (name, type, nullable) columns."""
    fields = [{"name": n, "type": {"int": "integer"}.get(t, t), "nullable": nullable, "metadata": {}} for n, t, nullable in columns]
    return orjson.dumps({"type": "struct", "fields": fields}).decode()


class _Stop(Observer):
    """Stops one session at the phases that its lines name."""

    def __init__(self, play: Play, session: str) -> None:
        self._play, self._session = play, session
        self.waiting: str | None = "staged"

    def phase(self, name: str, txn: Any) -> None:
        if name != self.waiting:
            return
        self.waiting = None
        self._play.play(until=self._session)
        step = self._play.next_step()
        if step is not None and step.session == self._session and step.verb == "reaches":
            self._play.take()
            self.waiting = str(step.what)


class Play:
    """One schedule on one world. `strict`: sessions must end exactly as the schedule says, figures included."""

    def __init__(self, schedule: Schedule, world: World, *, strict: bool = True) -> None:
        self._schedule, self._world, self._strict = schedule, world, strict
        self._cursor = 0
        self._done: dict[int, Action] = {}

    def run(self) -> None:
        s = self._schedule
        self._world.create(schema_string(s.columns), s.partition, s.properties)
        for script in [*map(Append, s.files), *s.before]:
            self._record(self._world.run(script), script)
        self.play(until=None)
        assert self.next_step() is None, f"line {self.next_step()} was never reached"
        audit(self._world.state.log)
        self._compare()

    def next_step(self) -> Step | None:
        return self._schedule.steps[self._cursor] if self._cursor < len(self._schedule.steps) else None

    def take(self) -> Step:
        self._cursor += 1
        return self._schedule.steps[self._cursor - 1]

    def play(self, until: str | None) -> None:
        """Plays lines up to the next one of the session `until`."""
        while (step := self.next_step()) is not None and step.session != until:
            self.take()
            if step.verb == "commits":
                receipt = self._do(step.what)
                assert receipt.version is not None, f"line {step.line}: {step.session} changed nothing"
                self._record(receipt, step.what)
            else:
                assert step.verb == "begins", f"line {step.line}: {step.session} has not begun, or waits for another session that it holds up"
                self._session(step)

    def _session(self, begins: Step) -> None:
        stop = _Stop(self, begins.session)
        receipt, error = None, None
        try:
            with use_observer(stop):
                receipt = self._world.restore(begins.what.version) if isinstance(begins.what, Restore) else self._do(begins.what)
        except AssertionError:
            raise
        except Exception as e:
            error = e
        ends = self.next_step()
        assert ends is not None and (ends.session, ends.verb) == (begins.session, "ends"), (
            f"line {begins.line}: ended early ({error!r}, {receipt}), before {ends}"
        )
        self.take()
        assert stop.waiting is None or error, f"line {ends.line}: phase {stop.waiting!r} was never reached"
        self._judge(ends, receipt, error)
        if receipt is not None:
            self._record(receipt, begins.what)

    def _judge(self, ends: Step, receipt: Receipt | None, error: Exception | None) -> None:
        outcome, *figures = str(ends.what).split()
        if error is not None:
            if type(error).__name__ != outcome:
                raise AssertionError(f"line {ends.line}: {outcome} was expected") from error
            return
        assert receipt is not None
        found = (
            "nothing"
            if receipt.version is None
            else "ok"
            if outcome == "ok" and not (receipt.rows_rebased or receipt.rows_dropped)
            else "rebase"
            if receipt.rounds
            else "ok"
        )
        if not self._strict:
            assert outcome in ("ok", "rebase", "nothing"), f"line {ends.line}: {outcome} was expected, {found} came"
            return
        assert found == outcome, f"line {ends.line}: {outcome} was expected, {found} came: {receipt}"
        for figure in figures:
            name, _, value = figure.partition("=")
            assert getattr(receipt, name) == int(value), f"line {ends.line}: {figure} was expected: {receipt}"

    def _do(self, action: Any) -> Receipt:
        state = self._world.state
        match action:
            case SetProperty(name, value):
                return creation.set_properties(state, {name: value})
            case AddColumn():
                return alteration.add_columns(
                    state, self._world.engine, [StructField(action.name, PrimitiveType({"int": "integer"}.get(action.type, action.type)))]
                )
            case DropColumn(name):
                return alteration.drop_columns(state, self._world.engine, [(name,)])
            case AddCheck(name, expression):
                return alteration.add_constraint(state, self._world.engine, name, expression)
            case AddFeature(name):
                return _put(state, "UPGRADE PROTOCOL", lambda head: {"protocol": with_feature(head.protocol, name)})
            case Restore(version):
                old = state.log.at(version)
                return _put(state, "RESTORE", lambda head: restored(old, head))
            case script:
                return self._world.run(script)

    def _record(self, receipt: Receipt, action: Any) -> None:
        if receipt.version is not None:
            assert receipt.version not in self._done
            self._done[receipt.version] = action

    def _compare(self) -> None:
        """The final rows against the statements run one after another in the order of the log."""
        assert bag(self._world.rows()) == bag(self.serial(range(1, max(self._done) + 1)))

    def serial(self, versions: Iterable[int]) -> list[dict[str, Any]]:
        """The rows after the actions of these commits, one after another."""
        table = SerialTable(self._schedule.names, self._schedule.not_null)
        states = [table.state()]
        for version in versions:
            match self._done[version]:
                case SetProperty() | AddFeature():
                    pass
                case DropColumn(name):
                    table.columns = tuple(c for c in table.columns if c != name)
                    table.rows = [{c: row[c] for c in table.columns} for row in table.rows]
                case AddCheck(_, expression):
                    table.checks += (expression,)
                case AddColumn(name, _):
                    table.columns += (name,)
                    table.rows = [{**row, name: None} for row in table.rows]
                case Restore(to):
                    table.bring_back(states[to])
                case script:
                    table.run(script)
            states.append(table.state())
        return table.rows


def with_feature(protocol: Protocol_, name: str) -> Protocol_:
    """The protocol with one writer feature more."""
    features = protocol.writer_features or frozenset({"appendOnly", "invariants"})
    needed = {"domainMetadata"} if name == "rowTracking" else set()  # where the ids that were given are counted
    return replace(protocol, min_writer_version=7, writer_features=features | {name} | needed)


def restored(old: Snapshot, head: Snapshot) -> dict[str, Any]:
    """The file actions that bring a table back: a vector may shrink in them."""
    before, now = {f.path: f for f in old.files.adds()}, {f.path: f for f in head.files.adds()}
    at = clock.now_ms()
    return {
        "removes": [f.removed(deletion_timestamp_ms=at, data_change=True) for p, f in now.items() if p not in before or before[p].key != f.key],
        "adds": [f for p, f in before.items() if p not in now or now[p].key != f.key],
        "metadata": old.metadata if old.metadata != head.metadata else None,
    }


def _put(state: SharedState, operation: str, actions: Any) -> Receipt:
    """A commit made by hand, as another engine would make it."""
    head = state.refresh()
    txn_id = clock.new_id()
    info = CommitInfo({"timestamp": clock.now_ms(), "operation": operation, "operationParameters": {}, "txnId": txn_id})
    assert isinstance(state.log.put(head.version + 1, serialize_commit(info, **actions(head))), Committed)
    return Receipt(version=head.version + 1, read_version=head.version, txn_id=txn_id, operation=operation)


def audit(log: TableLog) -> None:
    """Every commit: one add and one remove of a path at most, and a remove names what lives (I4, I5)."""
    live: dict[str, str | None] = {}
    for commit in log.commits(-1, log.latest().version):
        removes, adds = [r.key for r in commit.removes], [a.key for a in commit.adds]
        assert len({p for p, _ in removes}) == len(removes), f"version {commit.version} removes a path twice"
        assert len({p for p, _ in adds}) == len(adds), f"version {commit.version} adds a path twice"
        assert not set(removes) & set(adds), f"version {commit.version} removes and adds one logical file"
        for path, vector in removes:
            assert path in live and live[path] == vector, f"version {commit.version} removes {path} with {vector}, {live.get(path, 'nothing')} lives"
            del live[path]
        for path, vector in adds:
            assert path not in live, f"version {commit.version} adds {path}, which lives"
            live[path] = vector
