"""Judges a schedule over several tables: one order of all transactions must explain every version of every table, and what readers saw.

A transaction has a place in the log of each of its tables: that of the version that prepared it there, or of its own version in the home and under a
common arbiter.  A transaction that follows it in one table follows it in all.  What an engine that knows nothing of this commits while a table is prepared
comes after the transaction, and a row that it changed stays as it left it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from rowlock.exceptions import CorruptLog, DeltaConcurrentModificationException, InvalidInput
from rowlock.maintenance.settle import settle_by_hand
from rowlock.protocol.actions import Commit
from rowlock.protocol.prepared import closed_in, open_version, prepared_by, prepared_in
from rowlock.protocol.properties import TableProperties
from rowlock.transaction.two_phase.close import open_in
from rowlock_simulation.accounts import misreported
from rowlock_simulation.definition import Definition
from rowlock_simulation.feed import Bag
from rowlock_simulation.history import History
from rowlock_simulation.memory.sql.script import Delete, Merge, Optimize, Script, Update
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Plan
from rowlock_simulation.raw import Raw, RowIds, commits_of, rows_of, text_of
from rowlock_simulation.retention import wrongly_deleted
from rowlock_simulation.roles import COLUMNS
from rowlock_simulation.together import copied
from rowlock_simulation.together_replay import Log, Replayed
from rowlock_simulation.world import VISITOR, Handles


@dataclass(eq=False)
class _Node:
    """Something that has a place in the one order: a transaction, or a reader of several tables (`outcome.done.reads`)."""

    outcome: Outcome
    txn_id: str
    at: dict[int, int] = field(default_factory=dict)
    """Its place in the log of each table that it writes, or prepared to read."""
    seen: dict[int, int] = field(default_factory=dict)
    """The version of each table that it read, and that is not in `at`."""
    before: set[_Node] = field(default_factory=set)
    """Those that must come before it."""

    def writes(self, table: int) -> bool:
        """Whether it changes rows there."""
        return any(n == table for n, _ in _scripts(self.outcome)) or (self.outcome.action.copies or (-1, -1))[1] == table


def _scripts(outcome: Outcome) -> list[tuple[int, Sequence[Script]]]:
    action = outcome.action
    return list(action.parts) if action.kind == "together" else [(action.table, action.scripts)]


def judge(plan: Plan, histories: Sequence[History], outcomes: Sequence[Outcome], handles: Handles, met: Set[str] = frozenset()) -> list[str]:
    """What the schedule broke, as sentences; empty if nothing.  `met`: the actors that met a fault."""
    verdict = _Verdict(plan, histories, outcomes, handles, met)
    for check in (verdict.check_logs, verdict.check_decisions, verdict.check_outcomes, verdict.check_readers, verdict.check_order):
        check()
        if verdict.violations:
            break
    return verdict.violations


class _Verdict:
    def __init__(self, plan: Plan, histories: Sequence[History], outcomes: Sequence[Outcome], handles: Handles, met: Set[str]) -> None:
        self._plan, self._histories, self._outcomes, self._handles = plan, histories, outcomes, handles
        self._visitors = {a.name for a in plan.actors if a.process == VISITOR or a.name in met}
        """Who may only read, and who met a fault: a reader whose put fails takes what is decided as one who may only read."""
        self._of_txn = {t: o for o in outcomes for t in o.txn_ids}
        self.violations: list[str] = []
        for n in range(len(plan.tables)):  # a reader settles what is open, and may put a marker into another table
            self._settle(n)
        self._heads = [handles.table(n).refresh() for n in range(len(plan.tables))]
        self._logs = [Log(n, handles.table(n).state.store.root, commits_of(h)) for n, h in enumerate(histories)]
        self._places: dict[str, list[tuple[int, int]]] = {}
        """The tables and versions that each transaction is in."""
        for log in self._logs:
            for commit in log.commits:
                for txn_id in commit.txn_ids:
                    self._places.setdefault(txn_id, []).append((log.number, commit.version))

    def _settle(self, number: int) -> None:
        """Settles what is open in a table; by hand where the log that decides was cleaned up, as an operator who knows what it had."""
        state = self._handles.table(number).state
        try:
            state.refresh()
        except DeltaConcurrentModificationException as e:
            if not self._plan.night_s or "its log was cleaned up since then" not in str(e):
                raise
            prepared = open_in(state, state.look())
            assert prepared is not None
            decided = any(prepared.txn_id in c.txn_ids for history in self._histories for c in commits_of(history) if prepared_by(c))
            settle_by_hand(state, prepared.txn_id, "committed" if decided else "aborted")

    # ---- each log by itself -----------------------------------------------------------------------

    def check_logs(self) -> None:
        """Each log is whole, its actions fit (I4), its rows keep their ids (I6), and its newest version reads as the raw log says."""
        for log, history in zip(self._logs, self._histories, strict=True):
            raw, definition, ids = Raw(history), Definition(), RowIds()
            wrong = list(history.violations)
            for number, commit in enumerate(log.commits):
                if commit.version != number:
                    wrong.append(f"version {number} is missing from the log")
                    break
                wrong += [*raw.apply(commit), *definition.apply(commit)]
                log.folded.apply(commit)
                log.bags.append(raw.bag())
                wrong += ids.wrong(number, raw.ids())
            head = self._heads[log.number]
            if self._plan.night_s:
                wrong += wrongly_deleted(TableProperties(self._plan.tables[log.number].properties), history, log.commits)
            if not wrong:
                wrong += log.folded.differences(head)
                if head.version != len(log.commits) - 1:
                    wrong.append(f"the newest version reads as {head.version}; the log has {len(log.commits) - 1}")
                if open_version(head.txns, head.metadata.id) is not None:
                    wrong.append("a transaction is still open after somebody came by")
            self.violations += [f"t{log.number}: {text}" for text in wrong]

    # ---- what was prepared, decided and closed ----------------------------------------------------

    def check_decisions(self) -> None:
        """What was decided is closed with its data, once, and what was given up is in no table; no writer that knows of it passes what is open."""
        for log in self._logs:
            self._read_closes(log)
        for log in self._logs:
            for commit in log.commits:
                log.given_up |= set(commit.aborted)
                for place, prepared in prepared_by(commit):
                    other = next(x for x in self._logs if x.root == place)
                    if other.prepared.get(commit.txn_id or "", (None,))[0] != prepared:
                        self._report(
                            f"t{log.number} decided {self._named(commit.txn_id)} in version {commit.version}; version {prepared} of t{other.number} is not closed with it"
                        )
                if (passed := log.window(commit.version)) is not None and log.prepared[passed][0] < commit.version:
                    self._check_passer(log, commit, passed)
        decided = {t for log in self._logs for t in log.prepared}
        homes = Counter(c.txn_id for log in self._logs for c in log.commits if prepared_by(c))
        self.violations += [f"{self._named(t)} was rolled forward, and decided {homes[t]} times" for t in sorted(decided) if homes[t] != 1]
        gone = {t for log in self._logs for t in log.given_up}
        for log in self._logs:
            for commit in log.commits:
                if (p := prepared_in(commit)) is not None and p.txn_id in gone and p.txn_id in decided and not self._word_is_commit(p.txn_id):
                    self._report(f"{self._named(p.txn_id)} was given up, and is committed")

    def _word_is_commit(self, txn_id: str) -> bool:
        """Whether the first word about a transaction in a log is its commit."""
        for log in self._logs:
            for commit in log.commits:
                if txn_id in commit.aborted:
                    return False
                if prepared_by(commit) and txn_id in commit.txn_ids:
                    return True
        return False

    def _read_closes(self, log: Log) -> None:
        open_ = None
        for commit in log.commits:
            if (prepared := prepared_in(commit)) is not None:
                if open_ is not None:
                    self._report(f"t{log.number}: version {commit.version} prepares where version {open_.version} is open")
                open_ = prepared
            elif (txn_id := closed_in(commit)) is not None:
                if open_ is None or open_.txn_id != txn_id:
                    self._report(f"t{log.number}: version {commit.version} closes what is not open")
                    continue
                marker = _record(commit)["closed"]
                has_data = txn_id in commit.txn_ids
                is_written = open_.staged is not None or open_.post is not None
                if marker["decided"] is not None:
                    log.prepared[txn_id] = open_.version, commit.version
                tables = [{"table": open_.home.table, "id": open_.home.id, "version": marker["decided"]}] * (marker["decided"] != "by hand")
                if has_data and _record(commit).get("tables") != tables:
                    self._report(f"t{log.number}: version {commit.version} is recorded as decided in {_record(commit).get('tables')}, and was in {tables}")
                if has_data != (is_written and marker["decided"] is not None):
                    self._report(f"t{log.number}: version {commit.version} closes {self._named(txn_id)} with{'' if has_data else 'out'} data")
                open_ = None

    def _check_passer(self, log: Log, commit: Commit, txn_id: str) -> None:
        knowing = [o.name for t in commit.txn_ids if (o := self._of_txn.get(t)) is not None and not o.action.unaware]
        if knowing and len(knowing) == len(commit.txn_ids):
            self._report(f"t{log.number}: version {commit.version} ({', '.join(knowing)}) passes {self._named(txn_id)}, which is open there")

    # ---- what programs got back -------------------------------------------------------------------

    def check_outcomes(self) -> None:
        """What was acknowledged is in all of its tables, once; what was reported as failed is nowhere (I2), and nothing is there by half (I1)."""
        by_version = [{c.version: c for c in log.commits} for log in self._logs]
        for o in self._outcomes:
            at = sorted(place for t in o.txn_ids for place in self._places.get(t, ()))
            expired = self._plan.night_s > 0 and o.action.kind.startswith("travel") and "is not there" in str(o.error)
            if o.status == "broke" or (isinstance(o.error, CorruptLog) and not expired):
                self._report(f"{o.name} met an error that is no part of the API: {type(o.error).__name__}: {o.error}")
            if o.status in ("failed", "nothing") and at:
                self._report(f"I2: {o.name} ended as {o.status} ({o.detail}), and is in {at}")
            if type(o.error) is InvalidInput and not o.action.wrong:
                self._report(f"{o.name} failed without a reason: {o.detail}")
            if o.action.wrong and o.status in ("committed", "nothing"):
                self._report(f"{o.name} was carried out, which no tables allow: {o.action}")
            if o.action.kind == "together":
                self._check_together(o, at)
            elif o.status == "committed" and at != [(o.action.table, o.done.committed)]:
                self._report(f"I2: {o.name} was acknowledged as version {o.done.committed} of t{o.action.table}, and is in {at or 'none'}")
            elif len(at) > 1:
                self._report(f"I2: {o.name} is in {at}")
            self.violations += [f"receipt of {o.name}: {text}" for text in misreported(o, by_version[o.action.table])]
        self._check_steps()

    def _check_together(self, o: Outcome, at: Sequence[tuple[int, int]]) -> None:
        wanted = sorted(n for n in range(len(self._logs)) if _Node(o, "").writes(n))
        seldom = {n for n, scripts in _scripts(o) if all(isinstance(s, Delete) or (isinstance(s, Merge) and not s.of("matched")) for s in scripts)}
        if at and not set(wanted) - seldom <= {n for n, _ in at} <= set(wanted):  # who deletes, or inserts what is not there, may find nothing
            self._report(f"I1: {o.name} is in {at}, and writes to the tables {wanted}")
        if o.status == "committed" and o.done.together is not None:
            acknowledged, pending = o.done.together.versions, o.done.together.pending
            there = {self._logs[n].root: v for n, v in at}
            if not at or {r: v for r, v in there.items() if r in acknowledged} != acknowledged or set(there) - set(acknowledged) - set(pending):
                self._report(f"I2: {o.name} was acknowledged as the versions {acknowledged}, pending {pending}, and is in {at or 'none'}")
            undisturbed = o.action.wait == "everywhere" and o.actor not in self._visitors and all(t.store == "dynamodb" for t in self._plan.tables)
            if pending and undisturbed:
                self._report(f"{o.name} met no fault, and was told that {pending} are pending")
            if "committed together" not in (shown := repr(o.done.together)) or not all(f"committed as version {v}" in shown for v in acknowledged.values()):
                self._report(f"the text of the receipt of {o.name} is {shown}")

    def _check_steps(self) -> None:
        for log in self._logs:
            steps = Counter((t.app_id, t.version) for c in log.commits if prepared_in(c) is None for t in c.txns if not t.app_id.startswith("rowlock."))
            self.violations += [f"I2: step {step} was committed {n} times in t{log.number}" for step, n in steps.items() if n > 1]
            for o in self._outcomes:
                done = o.action.app is not None and o.status in ("committed", "nothing") and _Node(o, "").writes(log.number)
                if done and o.action.app is not None and not steps[o.action.app]:
                    self._report(f"I2: {o.name} took step {o.action.app} for done, and it is not in the log of t{log.number}")

    # ---- readers ----------------------------------------------------------------------------------

    def check_readers(self) -> None:
        """Every reader saw whole versions, none older than what had been acknowledged when it began, and nothing that was still open."""
        self._place_visitors()
        for o in self._outcomes:
            reads = o.done.reads or ({o.action.table: o.done} if o.done.rows is not None else {})
            for n, seen in reads.items():
                log, history = self._logs[n], self._histories[n]
                if seen.rows is None or seen.version is None or seen.version >= len(log.bags) or history.lost_from is not None:
                    continue
                if rows_of(seen.rows, COLUMNS) != log.bags[seen.version]:
                    self._report(f"reader {o.name} saw other rows in version {seen.version} of t{n} than it has")
                travels = o.action.kind.startswith("travel")
                if not travels and (late := self._missed(o, log, seen.version)):
                    self._report(f"reader {o.name} read version {seen.version} of t{n} after {late} had been acknowledged")
                if not travels and not o.action.unaware and o.actor not in self._visitors and (txn_id := log.window(seen.version)) is not None:
                    self._report(f"reader {o.name} read version {seen.version} of t{n}, where {self._named(txn_id)} is open")

    def _place_visitors(self) -> None:
        """Who may only read has laid what was decided over the version before: it saw the next one, where that closes the transaction."""
        for o in self._outcomes:
            for n, seen in (o.done.reads or {o.action.table: o.done}).items() if o.actor in self._visitors else ():
                if seen.version is not None and seen.snapshot is not None and (txn_id := self._logs[n].window(seen.version)) is not None:
                    closing = self._logs[n].prepared[txn_id][1]
                    if open_version(seen.snapshot.txns, seen.snapshot.metadata.id) is None:
                        seen.version = closing if closing == seen.version + 1 else None

    def _missed(self, reader: Outcome, log: Log, version: int) -> str:
        earlier = [o for o in self._outcomes if o.status == "committed" and o.ended_at <= reader.began_at]
        if reader.actor in self._visitors:  # what another engine commits after what is not decided is not shown
            earlier = [o for o in earlier if not o.action.unaware]
        return ", ".join(o.name for o in earlier if any(n == log.number and v > version for t in o.txn_ids for n, v in self._places.get(t, ())))

    # ---- one order for all ------------------------------------------------------------------------

    def check_order(self) -> None:
        """One order of all transactions and readers of several tables gives every version, and the money is always there."""
        nodes = self._nodes()
        for log in self._logs:
            _join(log, nodes)
        ordered = list(_sorted(nodes))
        if len(ordered) < len(nodes):
            rest = [n for n in nodes if n not in ordered]
            self._report(
                "no serial order: "
                + "; ".join(f"{n.outcome.name} at {n.at or n.seen} after {sorted(m.outcome.name for m in n.before if m in rest)}" for n in rest[:8])
            )
            return
        serial = [Replayed(log) for log in self._logs]
        for node in ordered:
            scripts = dict(_scripts(node.outcome))
            if node.outcome.action.copies is not None:
                target, script = copied(node.outcome.action, serial[node.outcome.action.copies[0]].table.rows)
                scripts[target] = (*scripts.get(target, ()), script)
            for n, version in node.at.items():
                serial[n].take(node.txn_id, version, scripts.get(n, ()), restored=node.outcome.done.restored)
        for log, replayed in zip(self._logs, serial, strict=True):
            self._compare(log, replayed.bags())
        self._check_money(nodes)
        self._check_torn(nodes)

    def _compare(self, log: Log, wanted: Sequence[Bag]) -> None:
        for number, (bag, rows) in enumerate(zip(log.bags, wanted, strict=True)):
            if bag != rows:
                doing = ", ".join(self._named(t) for t in log.commits[number].txn_ids)
                self._report(f"I3: version {number} of t{log.number} ({doing}) has {text_of(bag - rows)} and lacks {text_of(rows - bag)}")
                return

    def _check_money(self, nodes: Sequence[_Node]) -> None:
        """The sum of all accounts, unless other transactions than those over several tables have changed them."""
        actions = [o.action for o in self._outcomes]
        if any(a.kind == "restore" or (a.unaware and any(isinstance(script, Update) for script in a.scripts)) for a in actions):
            return
        for node in nodes:
            lost = any(at >= len(self._logs[t].bags) for t, at in node.seen.items())  # what was read was not durable, and is gone
            if node.outcome.action.kind == "read together" and len(node.seen) == len(self._logs) and not lost:
                money = sum(v * n for t, at in node.seen.items() for (k, v, *_), n in self._logs[t].bags[at].items() if k < self._plan.accounts)
                if money != 100 * self._plan.accounts * len(self._logs):
                    self._report(f"money: {node.outcome.name} saw {money} in the versions {node.seen}")

    def _check_torn(self, nodes: Sequence[_Node]) -> None:
        """Who reads several tables at a time sees of each transaction over several of them all, or nothing."""
        for o in self._outcomes:
            seen = self._seen_by(o) if o.action.kind == "travel together" else {}
            for node in nodes:
                shown = {
                    v <= seen[n]
                    for n, at in node.at.items()
                    for v in [self._logs[n].prepared.get(node.txn_id, (0, at))[1]]
                    if n in seen and node.writes(n) and node.txn_id in self._logs[n].commits[v].txn_ids  # else others had done its work, and it shows nothing
                }
                if len(shown) > 1:
                    self._report(f"{o.name} saw the versions {seen}, which have {node.outcome.name} by half")

    def _nodes(self) -> list[_Node]:
        found: dict[str, _Node] = {}
        for log in self._logs:
            for commit in log.commits:
                for txn_id in sorted(commit.txn_ids):
                    outcome = self._of_txn.get(txn_id)
                    if outcome is None:
                        if not commit.aborted and prepared_in(commit) is None and closed_in(commit) is None:
                            self._report(f"version {commit.version} of t{log.number} is of transaction {txn_id}, which no actor began")
                    elif outcome.action.kind in ("statements", "together", "restore") and not _only_moves(outcome):
                        node = found.setdefault(txn_id, _Node(outcome, txn_id))
                        node.at[log.number] = log.prepared.get(txn_id, (commit.version,))[0]
        for log in self._logs:
            for txn_id, (p, _) in log.prepared.items():
                if txn_id in found:
                    found[txn_id].at[log.number] = p
        for node in found.values():
            source = (node.outcome.action.copies or (None,))[0]
            if source is not None and source not in node.at:
                node.seen[source] = self._held_at(self._logs[source], node.outcome)
        readers = [_Node(o, "", seen=self._seen_by(o)) for o in self._outcomes if o.done.reads and o.action.kind == "read together"]
        return [*found.values(), *readers]

    def _seen_by(self, outcome: Outcome) -> dict[int, int]:
        """The version of each table that an action has read, but for those that were not durable yet, and went with the machine's power since."""
        reads = outcome.done.reads.items()
        return {n: d.version for n, d in reads if d.version is not None and not self._histories[n].is_gone(d.version, outcome.began_us)}

    def _held_at(self, log: Log, outcome: Outcome) -> int:
        """The version at which what a transaction has read of a table still holds: the one that it read, or a later one that the read was carried over to."""
        read, reader = outcome.done.bases[log.number], outcome.done.reader
        held = reader.base.version if reader is not None else read
        if held < len(log.bags) and log.bags[held] != log.bags[read]:
            self._report(f"{outcome.name} has read version {read} of t{log.number}, which was carried over to {held}, where there are other rows")
        return held

    def _named(self, txn_id: str | None) -> str:
        return self._of_txn[txn_id].name if txn_id in self._of_txn else "no actor"

    def _report(self, text: str) -> None:
        self.violations.append(text)


def _record(commit: Commit) -> Mapping[str, Any]:
    return (commit.info.rowlock if commit.info is not None else None) or {}


def _only_moves(outcome: Outcome) -> bool:
    return bool(outcome.action.scripts) and all(isinstance(s, Optimize) for s in outcome.action.scripts)


def _join(log: Log, nodes: Sequence[_Node]) -> None:
    """Says who comes after whom by one log."""
    n = log.number
    writers = sorted((x for x in nodes if n in x.at and x.writes(n)), key=lambda x: x.at[n])
    for one, other in itertools.pairwise(writers):
        other.before.add(one)
    for reader in nodes:
        if n in reader.at and not reader.writes(n):
            for writer in writers:
                if writer is not reader:
                    _after(reader, writer, seen=writer.at[n] < reader.at[n])
        elif n in reader.seen:
            for writer in writers:
                if writer is not reader:
                    _after(reader, writer, seen=log.prepared.get(writer.txn_id, (0, writer.at[n]))[1] <= reader.seen[n])


def _after(reader: _Node, writer: _Node, *, seen: bool) -> None:
    if seen:
        reader.before.add(writer)
    else:
        writer.before.add(reader)


def _sorted(nodes: Sequence[_Node]) -> Iterator[_Node]:
    """The nodes in an order in which each comes after those before it, as far as there is one."""
    left, done = list(nodes), set[_Node]()
    while ready := [x for x in left if x.before <= done]:
        yield from ready
        done.update(ready)
        left = [x for x in left if x not in done]
