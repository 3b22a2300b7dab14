"""What actors do: each action is what a user's program does through the public layers, on the engine in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rowlock import clock
from rowlock.api.row_writes import widened_metadata
from rowlock.boundary.engine import Statement, TableRead
from rowlock.conflict.delta import live_slice
from rowlock.exceptions import DeltaConcurrentModificationException, VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.restore import restore
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol.actions import AddFile, Commit, SetTransaction
from rowlock.protocol.column_values import identity_columns
from rowlock.protocol.feature_removal import DELETION_VECTORS
from rowlock.protocol.schema import PrimitiveType, StructField, StructType, schema_json
from rowlock.protocol.schema_edit import Position
from rowlock.transaction.definition import alteration, creation, replacement, table_features
from rowlock.transaction.definition.identity import Numbers
from rowlock.transaction.group_commit.group import queue_of
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.multi_table import MultiTableReceipt
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.state.shared import snapshot_of
from rowlock.transaction.transaction import RERUNS, StagingTransaction, Table, Transaction, run_again, runs_again
from rowlock.transaction.two_phase.prepare import Wait
from rowlock_simulation import foreign
from rowlock_simulation.memory.columns import planned
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import Append, Optimize, Overwrite, Script, Update, render
from rowlock_simulation.memory.statements import operation, parameters, run, statements_of
from rowlock_simulation.scheduler import START_MS, Scheduler

Kind = Literal[
    "statements",
    "foreign",
    "read and write",
    "restore",
    "number",
    "property",
    "drop feature",
    "replace",
    "clone",
    "alter",
    "checkpoint",
    "vacuum",
    "read",
    "travel",
    "stream",
    "together",
    "read together",
    "travel together",
    "recreate",
]
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an actor.

    scripts  what it does to the rows, in serial execution; for `replace` an overwrite with the new rows; for `number` an append of rows whose w is a
             number that is reserved for each; for `read and write` what it comes to, for the program writes what it has computed
    app      the step of an application that it is: after an unknown end it is done again
    feature  for `drop feature`: its name; `truncates` where what older versions hold of it goes first
    columns  for `replace`: those that there are from then on; `partitioned` by these; `anew` where the properties go, too, as with CREATE OR REPLACE TABLE
    early    for `read and write`: it reads before its transaction begins
    both     for `travel`: it names a version and a time at once
    alter    a change of the columns or the constraints: its verb, and the names that it takes
    grows    the column that it adds to the table in the same commit, where the table has none of this name
    posts    an append that is handed to other processes as if they had been in each other's way just now
    back     for `restore`, `travel`, `travel together` and `clone`: how many versions before the newest; `by_time` where a version is asked for by its time
    source   for `clone`: which table is cloned, into the place `table`
    replaces for `clone`: an empty table that is there is replaced
    batches  for `stream`: how many batches it reads at most, under these options
    pause_s  what passes before it
    table    which of several tables it is on
    parts    for `together`: what it does in each of several tables
    sums     for `read and write` in place of scripts: it sets w of a row to the sum of a column over all rows from a key on, and a mark of its own (column, key, row, mark)
    copies   for `together`: it reads the sum of the counters of one table, and sets this row of another to it and a mark of its own
    wrong    it asks for what no version of the table allows, and must be refused
    sleeps_s how long it sleeps between what it has staged and its commit, once
    unaware  it is done by an engine that knows nothing of transactions over several tables
    wait     for `together`: until when its owner waits
    """

    number: int
    kind: Kind
    scripts: tuple[Script, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    app: tuple[str, int] | None = None
    grows: str = ""
    posts: bool = False
    back: int = 0
    source: int = 0
    replaces: bool = False
    by_time: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    feature: str = ""
    truncates: bool = False
    columns: tuple[str, ...] = ()
    partitioned: tuple[str, ...] = ()
    anew: bool = False
    early: bool = False
    both: bool = False
    alter: tuple[str, ...] = ()
    batches: int = 0
    pause_s: float = 0.0
    table: int = 0
    parts: tuple[tuple[int, tuple[Script, ...]], ...] = ()
    sums: tuple[str, int, int, int] | None = None
    copies: tuple[int, int, int, int] | None = None
    wrong: bool = False
    sleeps_s: float = 0.0
    unaware: bool = False
    wait: Wait = "everywhere"

    @property
    def step(self) -> SetTransaction | None:
        """The step of an application that it is."""
        return None if self.app is None else SetTransaction(*self.app)

    @property
    def is_lockless(self) -> bool:
        """Whether it goes by the rules of `lockless`; a compaction changes no row."""
        return self.options.get("on_conflict") == "lockless"

    def __str__(self) -> str:
        what = (
            " | ".join(f"t{n}: {'; '.join(map(render, scripts))}" for n, scripts in self.parts)
            or "; ".join(map(render, self.scripts))
            or " ".join(self.alter)
            or self.feature
            or (str(dict(self.properties)) if self.properties else f"{self.back} back" if self.back else "")
        )
        app = (f" as step {self.app[1]} of {self.app[0]}" if self.app else "") + " by a post" * self.posts + f" with the column {self.grows}" * bool(self.grows)
        where = f" of t{self.source}{' in place of what is there' * self.replaces}" * (self.kind == "clone") + f" in t{self.table}" * bool(self.table)
        if self.copies is not None:
            where += " the sum of t{} into t{}, row {}, marked {}".format(*self.copies)
        if self.sums is not None:
            where += " the sum of {} from {} on into row {}, marked {}".format(*self.sums)
        return f"{self.kind} {what}{app}{where}{' unaware' * self.unaware}{' which is wrong' * self.wrong}{f' after {self.sleeps_s:g} s' if self.sleeps_s else ''} {dict(self.options) or ''}".strip()


@dataclass
class Done:
    """What an action came to, beside its error: the receipt of a commit, the version that was read and its rows."""

    receipt: Receipt | None = None
    version: int | None = None
    rows: Rows | None = None
    snapshot: Snapshot | None = None
    asked: int | None = None
    """The version whose time it asked for."""
    history: Sequence[Commit] = ()
    restored: int | None = None
    """The version that was brought back, or cloned."""
    reserved: list[int] = field(default_factory=list)
    """The first of the numbers that were reserved, of each try."""
    foreign: tuple[str, int | None] | None = None
    """What another engine did: its transaction, and the version that it became."""
    together: MultiTableReceipt | None = None
    reads: dict[int, Done] = field(default_factory=dict)
    """What was read of each of several tables."""
    query: Any = None
    """The query (`streams.Query`) that a stream belongs to."""
    bases: dict[int, int] = field(default_factory=dict)
    """Of each table the version that the last try has read."""
    reader: Transaction | None = None
    """Of `copies`: the transaction's part in the table that it reads."""

    @property
    def committed(self) -> int | None:
        """The version that was acknowledged."""
        if self.together is not None:
            return next(iter(self.together.versions.values()), None)
        return self.receipt.version if self.receipt is not None else self.foreign[1] if self.foreign is not None else None


def perform(action: Action, table: Table, scheduler: Scheduler, done: Done) -> None:
    """Carries out an action, and fills `done` as it goes on.  Raises what the code under test raises."""
    match action.kind:
        case "statements":
            done.receipt = _statements(action, table)
        case "foreign":
            txn_id = str(clock.new_id())
            done.foreign = txn_id, None
            upgrades = "upgrades" in action.options
            done.foreign = txn_id, foreign.upgrade(table, txn_id) if upgrades else foreign.commit(table, action.scripts[0], txn_id, **action.options)
        case "number":
            done.receipt = _number(action, table, done)
        case "read and write":
            done.receipt = _read_and_write(action, table, scheduler, done)
        case "restore":
            _restore(action, table, done)
        case "property":
            done.receipt = table_features.set_properties(table.state, table.statement_engine, action.properties)
        case "drop feature":
            done.receipt = table_features.drop_feature(table.state, action.feature, lambda feature: _clear(table, feature), truncate_history=action.truncates)
        case "replace":
            done.receipt = _replace(action, table)
        case "alter":
            done.receipt = _alter(table, *action.alter)
        case "checkpoint" if "as_json" in action.options:
            foreign.write_checkpoint(table)
        case "checkpoint":
            head = table.refresh()  # first: where the table was made again, its log is another
            table.state.log.write_checkpoint(head)
        case "vacuum":
            table.refresh()  # as the API does: what an open transaction over several tables has staged is live then, or garbage
            vacuum(table.state.log)
        case "read":
            read(table, snapshot_of(table.state), scheduler, done)
        case "travel":
            _travel(action, table, scheduler, done)


def _run(
    table: Table,
    begin: Callable[[Reruns], Transaction],
    carry_out: Callable[[StagingTransaction], Receipt],
    again: Callable[[Transaction, DeltaConcurrentModificationException], bool],
) -> Receipt:
    """One transaction in the lease line of the table, and the same again after a conflict for which `again` says so."""
    with LeaseLine(table.state) as line:
        return run_again(lambda reruns: StagingTransaction(line, begin, reruns), carry_out, lambda staging: staging.txn, most=RERUNS, again=again)


def _statements(action: Action, table: Table) -> Receipt:
    options = Options(**action.options)
    if action.posts:
        queue_of(table.state).contended()

    def begin(reruns: Reruns) -> Transaction:
        head = table.refresh()
        grown = widened_metadata(head, StructType((StructField(action.grows, PrimitiveType("long")),))) if action.grows else None
        return table.begin(options, snapshot=head, metadata=grown, app=action.step, reruns=reruns)

    sleeps = [action.sleeps_s] if action.sleeps_s else []

    def carry_out(staging: StagingTransaction) -> Receipt:
        for script in action.scripts:
            staging.stage(lambda base, script=script: (statements_of(planned(script, base), base), {}))  # type: ignore[misc]
        if sleeps:
            clock.sleep(sleeps.pop())
        return staging.txn.commit(operation(action.scripts[0]), parameters(action.scripts[0]))

    return _run(table, begin, carry_out, runs_again)


def numbered(action: Action, first: int) -> Append:
    """The rows of an action with numbers from `first` on."""
    (script,) = action.scripts
    assert isinstance(script, Append)
    return Append(tuple((*row[:-1], first + n) for n, row in enumerate(script.rows)))


def _number(action: Action, table: Table, done: Done) -> Receipt:
    """Appends rows whose numbers are reserved by a commit before."""

    def plan(base: Snapshot) -> tuple[Sequence[Statement], dict[str, Any]]:
        Numbers(table.state, ()).take(1)  # as every write asks, of a table without such columns, too
        done.reserved.append(Numbers(table.state, identity_columns(base.schema)).take(len(numbered(action, 0).rows))["w"])
        return statements_of(planned(numbered(action, done.reserved[-1]), base), base), {}

    def carry_out(staging: StagingTransaction) -> Receipt:
        staging.stage(plan)
        return staging.txn.commit("WRITE", {"mode": "Append"})

    return _run(table, lambda reruns: table.begin(Options(**action.options), reruns=reruns), carry_out, runs_again)


def _clear(table: Table, feature: str) -> None:
    """Writes the files anew that have deletion vectors."""
    if feature == DELETION_VECTORS:
        run(table, Optimize())


def _replace(action: Action, table: Table) -> Receipt:
    """New rows in place of all, under new columns and, where the action is to make all anew, new properties."""
    (script,) = action.scripts
    assert isinstance(script, Overwrite)
    schema = StructType(tuple(StructField(c, PrimitiveType("long"), c != "k") for c in action.columns))
    rows = [dict(zip(action.columns, row, strict=True)) for row in script.rows]

    def write(draft: Snapshot, head: Snapshot) -> tuple[list[AddFile], tuple[int, ...]]:
        assert isinstance(table.statement_engine, MemoryEngine)
        return [add for add, _ in table.statement_engine.files.write(rows, draft)], ()

    if action.anew:
        metadata = creation.new_metadata(schema_json(schema), action.partitioned, action.properties, table=table.path)
        return replacement.replace_table(table.state, metadata, write=write, properties=action.properties, app=action.step)
    return replacement.overwrite_schema(table.state, schema, action.partitioned, write, app=action.step)


def _alter(table: Table, verb: str, *names: str) -> Receipt:
    state, engine = table.state, table.statement_engine
    match verb:
        case "add" | "add strict":
            return alteration.add_columns(state, engine, [StructField(names[0], PrimitiveType("long"), nullable=verb == "add")])
        case "rename":
            return alteration.rename_column(state, engine, names[:1], names[1])
        case "drop" | "drop all":
            return alteration.drop_columns(state, engine, [(name,) for name in names])
        case "add constraint":
            return alteration.add_constraint(state, engine, *names)
        case "set not null" | "drop not null":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names, nullable=verb == "drop not null")])
        case "set default":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names[:1], default=names[1])])
        case "drop default":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names, drops_default=True)])
        case "comment":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names[:1], comment=names[1])])
        case "comment twice":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names, comment="a"), alteration.ColumnEdit(names, comment="b")])
        case "replace columns":
            return alteration.replace_columns(state, engine, StructType(tuple(StructField(name, PrimitiveType("long")) for name in names)))
        case "move":
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names, position=Position("w"))])
        case "cluster":
            return creation.cluster_by(state, [(name,) for name in names])
        case "unset":
            return creation.unset_properties(state, names)
        case "feature":
            return table_features.add_feature(state, *names)
        case "versions":
            return table_features.raise_versions(state, *map(int, names))
        case "widen" | "narrow":
            type_ = PrimitiveType("long" if verb == "widen" else "integer")
            return alteration.edit_columns(state, engine, [alteration.ColumnEdit(names, like=StructField(names[0], type_))])
        case _:
            return alteration.drop_constraint(state, engine, names[0])


def summed(rows: Iterable[Mapping[str, Any]], sums: tuple[str, int, int, int]) -> Update:
    """What an action with `sums` comes to on these rows."""
    column, first, target, mark = sums
    return Update((("w", str(mark + sum(row[column] or 0 for row in rows if row["k"] >= first))),), f"k = {target}")


def _read_and_write(action: Action, table: Table, scheduler: Scheduler, done: Done) -> Receipt:
    """Reads the table as a whole, computes the new values, and writes them as constants: what was read must still hold when it commits."""
    from rowlock_simulation.serial import SerialTable

    options, seen = Options(**action.options), Done()

    def begin(reruns: Reruns) -> Transaction:
        if action.early:
            read(table, table.refresh(), scheduler, seen)
            scheduler.pause(2 * scheduler.random.random())
        return table.begin(options, reruns=reruns)

    def carry_out(staging: StagingTransaction) -> Receipt:
        staging.will_read()
        txn = staging.txn
        txn.note_read(TableRead(seen.version) if action.early and seen.version is not None else None)
        if not action.early:
            read(table, txn.base, scheduler, seen)
        assert seen.rows is not None and seen.version is not None
        done.bases = {0: seen.version}
        serial = SerialTable(txn.base.schema.names, rows=seen.rows)
        serial.run(*(action.scripts if action.sums is None else [summed(seen.rows, action.sums)]))
        before = {row["k"]: row for row in seen.rows}
        for row in serial.rows:
            if row != before[row["k"]]:
                constants = tuple((c, str(row[c])) for c in row if row[c] != before[row["k"]][c])
                txn.execute(*statements_of(planned(Update(constants, f"k = {row['k']}"), txn.base), txn.base))
        return txn.commit("UPDATE", {})

    return _run(table, begin, carry_out, lambda *_: True)


def _restore(action: Action, table: Table, done: Done) -> None:
    newest = table.refresh().version
    if newest < 2:
        return
    done.restored = max(1, newest - action.back)
    if done.restored < newest:
        target = table.state.log.at(done.restored)
        done.receipt = restore(table, target, {"version": done.restored}, options=Options(**action.options))


def read(table: Table, snapshot: Snapshot, scheduler: Scheduler, done: Done) -> None:
    """Reads a version file by file; others commit, compact and vacuum meanwhile."""
    rows: Rows = []
    for file in snapshot.files.adds():
        rows += table.statement_engine.sample([live_slice(file, table.state.vectors.of)], None, snapshot=snapshot)
        scheduler.pause(scheduler.random.random() * 0.05)
    done.version, done.rows, done.snapshot = snapshot.version, rows, snapshot


def _travel(action: Action, table: Table, scheduler: Scheduler, done: Done) -> None:
    """Reads an older version: by its number, or by the time at which the log says that it was committed, with the history that leads to it."""
    log, newest = table.state.log, table.refresh().version
    version = max(0, newest - action.back)
    if action.both or not action.by_time:
        return read(table, snapshot_of(table.state, version, START_MS if action.both else None), scheduler, done)
    times = log.commit_times()
    if version not in dict(times):
        return  # it was cleaned up meanwhile
    done.history = log.history(limit=1 + action.back)
    try:
        found = log.at_timestamp(dict(times)[version])
    except VersionNotFound:
        if log.commit_times()[: len(times)] == times:
            raise
        return  # times of files counted when it was asked, and times in commits count now
    done.asked = version if log.commit_times()[: len(times)] == times else None
    read(table, found, scheduler, done)
