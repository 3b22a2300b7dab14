"""Judges a schedule by what the store has held and what programs got back; shares no code with what it judges but the parsers of the formats.

Every version is read out of the raw log and compared with serial execution of the same statements in log order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

from rowlock.conflict.delta import live_slice
from rowlock.exceptions import ConcurrentTransactionException, CorruptLog, DeltaConcurrentModificationException, MetadataChangedException, UnsupportedFeature
from rowlock.protocol.actions import Commit
from rowlock.protocol.names import commit_key
from rowlock.protocol.properties import TableProperties
from rowlock.transaction.transaction import Table
from rowlock_simulation.accounts import followed_too_many, misexplained, misnamed, misrecorded, misreported, ran_in_vain, refused_in_vain
from rowlock_simulation.actions import numbered, summed
from rowlock_simulation.altered import Defined, changed_otherwise, changes_all, refused_without_reason
from rowlock_simulation.calm import disturbed, locked_otherwise, posted_too_early, taken_too_early
from rowlock_simulation.cleaned import badly_cleaned
from rowlock_simulation.definition import Definition
from rowlock_simulation.described import misdescribed, unasked
from rowlock_simulation.feed import Bag, Feed, VersionRows, cut
from rowlock_simulation.foreign import FUTURE
from rowlock_simulation.history import History
from rowlock_simulation.lockless import NumberedTable
from rowlock_simulation.memory.sql.script import Append
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Plan
from rowlock_simulation.policies import overlooked, passes_over_rows, raises, unfounded
from rowlock_simulation.raw import Raw, RowIds, commits_of, rows_of, text_of
from rowlock_simulation.responses import Folded, counted, files_counted, miscounted, without_reason
from rowlock_simulation.retention import wrongly_deleted
from rowlock_simulation.roles import COLUMNS, LOCKLESS, REMADE, SHARED
from rowlock_simulation.serial import State

RESERVES = "RESERVE IDENTITY"
_SEVERAL = ("property", "drop feature", "number")
"""Actions that may be several commits, of which the last is acknowledged."""


def judge(plan: Plan, history: History, outcomes: Sequence[Outcome], table: Table) -> list[str]:
    """What the schedule broke, as sentences; empty if nothing."""
    return verdict_of(plan, history, outcomes, table).violations


def verdict_of(
    plan: Plan, history: History, outcomes: Sequence[Outcome], table: Table, *, sources: Sequence[Verdict] = (), gone: Set[str] = frozenset()
) -> Verdict:
    """The checks of one table, all done.  For a clone `sources` are those of the tables that it may be a clone of, and `gone` the files that were deleted anywhere."""
    if not history.commits or history.overtaken:
        verdict = Verdict(plan, history, commits_of(history), outcomes)
        verdict.violations += history.violations
        verdict.check_strays()
        return verdict  # the table was dropped, and the actor that was to make another died, or a checkpoint of the old one came into the new one
    with suppress(UnsupportedFeature, *[CorruptLog] * bool(history.table)):  # a hole below what a writer of the table before has put; see `overtaken`
        table.refresh()  # a commit that was claimed by a process which then ended is put in its place by the first reader
    commits = commits_of(history)
    verdict = Verdict(plan, history, commits, outcomes, sources, gone)
    verdict.violations += history.violations
    verdict.check_versions()
    verdict.check_deletions()
    if not verdict.overtaken:
        verdict.check_outcomes()
        verdict.check_readers()
        if verdict.closed_at is not None:
            verdict.check_is_closed(table)
        elif not verdict.violations and verdict.bags:
            _check_head(verdict, table)
            verdict.check_streams(table)
            verdict.violations += badly_cleaned(table, verdict.folded) if plan.night_s else []
    return verdict


class Verdict:
    """The checks, and what they have found."""

    def __init__(
        self,
        plan: Plan,
        history: History,
        commits: Sequence[Commit],
        outcomes: Sequence[Outcome],
        sources: Sequence[Verdict] = (),
        gone: Set[str] = frozenset(),
    ) -> None:
        self._plan, self._history, self._commits, self._outcomes = plan, history, commits, outcomes
        self._sources, self.gone, self.states = sources, gone, list[State]()
        self._of_txn = {txn_id: o for o in outcomes for txn_id in o.txn_ids}
        self.bags: list[Bag] = []
        self.shown: list[VersionRows] = []
        """What each version shows to streams."""
        self.columns: list[tuple[str, ...]] = []
        self._defined: list[Defined] = []
        self._stored_as: list[list[tuple[str, str]]] = []
        """The columns with the names that files have for them, in the last two versions."""
        self._ids = RowIds()
        self._definition = Definition()
        self._feed: Feed | None = None
        self.folded = Folded()
        self.closed_at: int | None = None
        """The version from which on nobody here can read the table."""
        self.overtaken = False
        """Whether a commit to the table before landed in the log of this one, unseen by its writer: no writer can prevent that, and no more is judged."""
        self.violations: list[str] = []

    @property
    def by_day(self) -> bool:
        """Whether everything happens within a day, so that no removed file may be forgotten."""
        return self._plan.night_s == 0

    def check_deletions(self) -> None:
        """No file was deleted that a version within the retention needs (I10)."""
        if not self.overtaken and not self._history.table:
            self.violations += wrongly_deleted(TableProperties(self._plan.properties), self._history, self._commits)
            self.overtaken = self._history.overtaken

    def check_versions(self) -> None:
        """Every version is what serial execution in log order gives (I3, I5), and money is conserved."""
        raw, serial = Raw(self._history), NumberedTable((*COLUMNS, *self._plan.generated), generated=self._plan.generated)
        states = self.states
        for number, commit in enumerate(self._commits):
            if self._is_stray(commit):
                self.overtaken = True
                return
            if commit.version != number:
                self.violations.append(f"version {number} is missing from the log, and version {commit.version} is there")
                return
            self.violations += [*raw.apply(commit), *self._definition.apply(commit)]
            if not self._definition.tracks_rows:
                self._ids = RowIds(forgotten_at=number)
            self.folded.apply(commit)
            self._feed = raw.feed(commit) if commit.cdc or self._definition.has_feed else None
            self.shown.append(VersionRows(raw.bag(), raw.bag_of(raw.came), any(r.data_change for r in commit.removes), self._feed))
            self._serve(serial, states, commit)
            states.append(serial.state())
            if self.closed_at is not None:
                self.violations.append(f"I9: version {number} follows version {self.closed_at}, which nobody here can read")
            elif FUTURE in (self.folded.definition(number)[1].reader_features or ()):
                self.closed_at = number
            self._defined.append(Defined(*self.folded.definition(number), states[-1][0]))
            self._check_definition(commit)
            self.bags.append(self.shown[-1].rows)
            self.columns.append(tuple(raw.stored_as))
            self._stored_as = [*self._stored_as[-1:], list(raw.stored_as.items())]
            self._check_feed(number)
            if self._definition.tracks_rows:
                self.violations += self._ids.wrong(number, raw.ids())
            wanted = rows_of(serial.rows, serial.columns)
            if self.columns[-1] != serial.columns:
                self.violations.append(f"I3: version {number} has the columns {self.columns[-1]}; by the log so far they are {serial.columns}")
                return
            if dict.__ne__(self.bags[-1], wanted):  # Counter's own compares them element by element in Python
                doing = ", ".join(self._of_txn[t].name for t in sorted(commit.txn_ids) if t in self._of_txn)
                self.violations.append(
                    f"I3: version {number} ({doing}) is not what serial execution gives: it has {text_of(self.bags[-1] - wanted)} and lacks {text_of(wanted - self.bags[-1])}"
                )
                return
            money = sum(v * n for (k, v, *_), n in self.bags[-1].items() if k < self._plan.accounts)
            if number >= 1 and self._plan.theme not in (LOCKLESS, REMADE) and not self._sources and money != 100 * self._plan.accounts:
                self.violations.append(f"money: the accounts hold {money} in version {number}")

    def check_strays(self) -> None:
        """Nobody is told of a commit that it is in a table which was made after its transaction began."""
        for commit in self._commits:
            self._is_stray(commit)

    def _is_stray(self, commit: Commit) -> bool:
        """Whether it is of a transaction that began on the table before this one.

        It must not be acknowledged as committed, but where it had been a version of that table already, and was put again by who finished it for its writer,
        or follows a checkpoint, a definition or a commit of that table.
        """
        strays = [o for t in commit.txn_ids if (o := self._of_txn.get(t)) is not None and o.begun_on.get(t, self._history.table) < self._history.table]
        was_there = self._history.commits[commit_key(commit.version)] in self._history.commits_before
        if not was_there and (self._history.revived_at is None or commit.version <= self._history.revived_at):
            self.violations += [
                f"{o.name} began on a table that was dropped, and was acknowledged as version {commit.version} of another"
                for o in strays
                if o.status == "committed"
            ]
        return bool(strays)

    def _check_definition(self, commit: Commit) -> None:
        """A commit changes the definition as its action was asked, and in nothing else."""
        done = [o.action for t in commit.txn_ids if (o := self._of_txn.get(t)) is not None]
        if commit.version and commit.info is not None and len(done) == len(commit.txn_ids) == 1:
            wrong = changed_otherwise(done[0], str(commit.info.operation), *self._defined[-2:])
            self.violations += [f"definition: in version {commit.version} {wrong}"] if wrong else []
            self.violations += [f"commitInfo of version {commit.version} ({done[0]}): {text}" for text in misdescribed(commit, done[0], self._defined[-2])]
            o = self._of_txn[next(iter(commit.txn_ids))]
            self.violations += [f"commitInfo of version {commit.version} ({o.name}): {text}" for text in misnamed(commit, o)]
            if (vain := ran_in_vain(commit, o, self._defined, self._commits)) is not None:
                self.violations.append(f"{o.name} was run again over the versions {vain}, in which nothing changed that it goes by")

    def _check_feed(self, version: int) -> None:
        """The change data feed of a version is what it differs in from the one before."""
        if self._feed is None or version == 0:
            return
        fed, (before, after) = self._feed.net(), self.bags[-2:]
        if self._stored_as[0] != self._stored_as[1]:  # a RESTORE of the definition as well
            before, after, fed = (cut(bag) for bag in (before, after, fed))
        real = Counter(after)
        real.subtract(before)
        if {row: n for row, n in fed.items() if n} != {row: n for row, n in real.items() if n}:
            fed.subtract(real)
            self.violations.append(
                f"feed: the change data feed of version {version} is not what it changed: {text_of(+fed)} too much, {text_of(-fed)} too little"
            )

    def _serve(self, serial: NumberedTable, states: Sequence[State], commit: Commit) -> None:
        for txn_id in sorted(commit.txn_ids):
            outcome = self._of_txn.get(txn_id)
            if outcome is None:
                made_again = commit.version == 0 and self._history.table  # by a process that may have ended
                if not commit.aborted and not made_again:
                    self.violations.append(f"version {commit.version} is of transaction {txn_id}, which no actor began")
            elif outcome.action.kind == "restore":
                assert outcome.done.restored is not None
                if self._definition.lost_ids_since(outcome.done.restored) or outcome.done.restored < self._ids.forgotten_at:
                    self._ids.forget_rows(commit.version)
                serial.bring_back(states[outcome.done.restored])
            elif outcome.action.kind == "clone":
                assert outcome.done.restored is not None
                self._ids.forget_rows(commit.version)
                serial.bring_back(self._sources[outcome.action.source].states[outcome.done.restored])
            elif outcome.action.kind == "number":
                if commit.info is None or commit.info.operation != RESERVES:
                    serial.run(numbered(outcome.action, outcome.done.reserved[-1]))
            elif outcome.action.kind == "replace":
                self._ids.forget_rows(commit.version)
                serial.columns, serial.not_null = outcome.action.columns, frozenset()
                if outcome.action.anew:
                    serial.checks, serial.defaults = (), {}
                serial.run(*outcome.action.scripts)
            elif outcome.action.kind == "alter":
                serial.alter(*outcome.action.alter)
            elif outcome.action.grows and outcome.action.grows not in serial.columns:
                serial.alter("add", outcome.action.grows)
                serial.run(*outcome.action.scripts)
            elif outcome.action.is_lockless:
                serial.run_lockless(outcome.action.scripts, states[outcome.read_at[txn_id]][0])
            elif outcome.action.sums is not None:
                self._check_level(states, commit.version, outcome, outcome.action.sums)
                serial.run(summed(states[outcome.done.bases[0]][0], outcome.action.sums))
            else:
                self._check_metrics(serial, commit, outcome)
                self._check_policy(states, commit, outcome, txn_id)
                serial.run(*outcome.action.scripts)

    def _check_policy(self, states: Sequence[State], commit: Commit, outcome: Outcome, txn_id: str) -> None:
        """A statement passes over nothing that its policy is to notice, and its rows followed others only as far as there were some."""
        if not outcome.action.scripts or (read := outcome.read_at.get(txn_id)) is None:
            return
        action, version = outcome.action, commit.version
        between = [(self.columns[v], self.shown[v].came, self.shown[v].changes) for v in range(read + 1, version)] if raises(action) else []
        over = raises(action) and overlooked(action, states[read], states[-1], self._plan.generated)
        if over or any(passes_over_rows(action, columns, came, removes=removes) for columns, came, removes in between):
            self.violations.append(f"policy: version {version} ({outcome.name}) passes over what changed since version {read}")
        if followed_too_many(outcome, commit, self._commits[read + 1 : version], states[read:], self._plan.generated):
            self.violations.append(f"receipt of {outcome.name}: more rows followed a compaction than it touches")

    def _check_level(self, states: Sequence[State], version: int, outcome: Outcome, sums: tuple[str, int, int, int]) -> None:
        """What was read is what the level of isolation promises at this place in the log."""
        read, last = outcome.done.bases[0], version - 1
        match outcome.action.options["isolation"]:
            case "snapshot":
                targets = [next((row for row in rows if row["k"] == sums[2]), None) for rows, *_ in states[read:]]
                right = all(target == targets[0] for target in targets)
            case level:
                while level == "write_serializable" and last > read and self._brings_rows_alone(last):
                    last -= 1
                right = summed(states[read][0], sums) in [summed(rows, sums) for rows, *_ in states[last:]]
        if not right:
            self.violations.append(f"isolation: version {version} ({outcome.name}, {outcome.action.options['isolation']}) has read version {read}")

    def _brings_rows_alone(self, version: int) -> bool:
        """Whether a version is of blind appends alone."""
        done = [self._of_txn[t].action for t in self._commits[version].txn_ids if t in self._of_txn]
        return all(action.scripts and all(isinstance(s, Append) for s in action.scripts) for action in done)

    def _check_metrics(self, serial: NumberedTable, commit: Commit, outcome: Outcome) -> None:
        """The metrics of a commit of one statement count the rows that it changed at its place in the log."""
        if outcome.action.kind == "statements" and len(outcome.action.scripts) == len(commit.txn_ids) == 1:
            with_vectors = self._defined[-1].is_on("delta.enableDeletionVectors")
            wrong = miscounted(commit, counted(serial, outcome.action.scripts[0], copies=not with_vectors) | files_counted(commit, outcome.action.scripts[0]))
            if wrong:
                self.violations.append(f"metrics of version {commit.version} ({outcome.name}): {wrong}")
            if self._feed is not None and (wrong := self._feed.differs_from(serial.touched(outcome.action.scripts[0]), serial.columns)):
                self.violations.append(f"feed: version {commit.version} ({outcome.name}) says that {wrong}")

    def check_outcomes(self) -> None:
        """What was acknowledged is there once; what was reported as failed is nowhere (I2); steps of applications are done once."""
        versions: dict[str, list[int]] = {}
        by_version = {commit.version: commit for commit in self._commits}
        for commit in self._commits:
            for txn_id in commit.txn_ids:
                versions.setdefault(txn_id, []).append(commit.version)
        self.violations += [f"I2: transaction {t} of {self._named(t)} is in versions {at}" for t, at in versions.items() if len(at) > 1]
        for o in self._outcomes:
            at = [v for t in o.txn_ids for v in versions.get(t, ())]
            if o.on_table < self._history.table and o.status != "broke":
                continue  # what became of it went with the table, or was judged as a version of this one
            if o.status == "broke" or (isinstance(o.error, CorruptLog) and not self._reads_what_expired(o)):
                self.violations.append(f"{o.name} met an error that is no part of the API: {type(o.error).__name__}: {o.error}")
            if o.status == "committed" and (sorted(at)[-1:] if o.action.kind in _SEVERAL else at) != [o.done.committed]:
                self.violations.append(f"I2: {o.name} was acknowledged as version {o.done.committed}, and is in {at or 'none'}")
            if o.status in ("failed", "nothing") and at and o.action.kind not in _SEVERAL:
                self.violations.append(f"I2: {o.name} ended as {o.status} ({o.detail}), and is in version {at}")
            if o.action.wrong and o.status in ("committed", "nothing"):
                self.violations.append(f"{o.name} was carried out, which no version allows: {o.action}")
            if o.status == "failed" and not o.action.wrong and without_reason(self._plan, o):
                self.violations.append(f"{o.name} failed without a reason: {o.detail}")
            if not o.action.wrong and self._history.lost_from is None:  # else it may have met what was not durable yet
                self._check_reasons(o)
                self._check_accounts(o, by_version)
            if self._fails_by_others(o):
                self.violations.append(f"{o.name} failed by what others did, under a policy that keeps on: {o.detail}")
            if len(at) > 1 and o.action.kind not in _SEVERAL:
                self.violations.append(f"I2: {o.name} is in versions {at}")
        self.violations += unasked(self._history, self._defined) if not self._history.table else []
        self.violations += misrecorded(self._history, self._outcomes, versions)
        self.violations += [*disturbed(self._plan, self._history, self._outcomes, self._commits, self._defined), *taken_too_early(self._history)]
        self.violations += posted_too_early(self._plan, self._history, self._outcomes)
        self._check_steps()
        self._check_numbers()

    def _check_reasons(self, o: Outcome) -> None:
        """An action that was refused, or found nothing to do, met a version of which that is true."""
        if o.status == "nothing" and changes_all(o.action, self._met(o)):
            self.violations.append(f"{o.name} found nothing to do: {o.action}")
        if o.status == "failed" and refused_without_reason(o.action, o.error, self._met(o)):
            self.violations.append(f"{o.name} was refused for what is not so: {o.detail}")
        if o.status == "failed" and raises(o.action) and o.read_at and unfounded(o.action, o.error, *self._read_and_met(o), self._plan.generated):
            self.violations.append(f"{o.name} failed by what others did to other rows: {o.detail}")

    def _check_accounts(self, o: Outcome, commits: Mapping[int, Commit]) -> None:
        """What an action tells of itself and of others, by its receipt or its error, is so."""
        self.violations += [f"receipt of {o.name}: {text}" for text in misreported(o, commits)]
        self.violations += [f"I7: {o.name} {text}" for text in [locked_otherwise(o)] if text is not None]
        self.violations += [f"error of {o.name}: {text}" for text in misexplained(o, commits, self.states)]
        if o.read_at and refused_in_vain(o, self._defined, self._versions_from(list(o.read_at.values())[-1] + 1, o)):
            self.violations.append(f"{o.name} was refused for a definition that did not change: {o.detail}")

    def _met(self, o: Outcome) -> Sequence[Defined]:
        """The versions that an action may have met, by what had been acknowledged when it began and what was there when it ended."""
        known = max((p.done.committed or 0 for p in self._outcomes if p.ended_at <= o.began_at and p.on_table == o.on_table), default=0)
        return [self._defined[version] for version in self._versions_from(known, o)]

    def _read_and_met(self, o: Outcome) -> tuple[State, Sequence[State]]:
        """What the last try has read, and every version after it that there was when it ended."""
        read = list(o.read_at.values())[-1]
        return self.states[read], [self.states[version] for version in self._versions_from(read + 1, o)]

    def _versions_from(self, first: int, o: Outcome) -> Sequence[int]:
        """The versions from `first` on that there were when an action ended."""
        return [v for v in range(first, len(self._defined)) if self._history.committed_us.get(commit_key(v), 0) <= o.until_us]

    def _check_numbers(self) -> None:
        """No number of an identity column is given to two, whatever became of their rows."""
        given = Counter(row[-1] for o in self._outcomes if o.action.kind == "number" for first in o.done.reserved for row in numbered(o.action, first).rows)
        self.violations += [f"identity: {number} was given {times} times" for number, times in given.items() if times > 1]

    def _reads_what_expired(self, o: Outcome) -> bool:
        """Whether an older version was read whose files a VACUUM may delete, for a night is longer than the retention, by a reader or by a writer who slept, or a clone whose source has done so."""
        if isinstance(o.error, CorruptLog) and o.error.file in self.gone:
            return True
        return (o.action.kind == "travel" or o.action.sleeps_s > 0) and self._plan.night_s > 0 and "is not there" in str(o.error)

    def _fails_by_others(self, o: Outcome) -> bool:
        """Whether a statement that is to be rebased was refused for a conflict; a log that was cleaned up beneath a paused writer is one."""
        excused = MetadataChangedException if o.action.app is None or o.action.app[0] != SHARED else (MetadataChangedException, ConcurrentTransactionException)
        by_others = isinstance(o.error, DeltaConcurrentModificationException) and not isinstance(o.error, excused)
        return (
            by_others and o.action.kind in ("statements", "number") and o.action.options.get("on_conflict", "lockless") == "lockless" and not self._plan.night_s
        )

    def _named(self, txn_id: str) -> str:
        return self._of_txn[txn_id].name if txn_id in self._of_txn else "no actor"

    def _check_steps(self) -> None:
        steps = Counter((t.app_id, t.version) for commit in self._commits for t in commit.txns)
        self.violations += [f"I2: step {step} was committed {n} times" for step, n in steps.items() if n > 1]
        self.violations += [f"I2: version {c.version} has two steps of one application" for c in self._commits if len({t.app_id for t in c.txns}) < len(c.txns)]
        for o in self._outcomes:
            own = o.action.step if o.on_table == self._history.table and o.status in ("committed", "nothing") else None
            if own is not None and not any(app == own.app_id and version >= own.version for app, version in steps):
                self.violations.append(f"I2: {o.name} took step {o.action.app} for done, and it is not in the log")

    def check_streams(self, table: Table) -> None:
        """Every query has read each row once, over all its restarts."""
        queries = {o.actor: o.done.query for o in self._outcomes if o.done.query is not None}
        if queries and self._history.lost_from is None:  # else one may have read what was not durable yet
            from rowlock_simulation import streams  # which imports pyspark

            self.violations += [text for actor, query in queries.items() for text in streams.wrong_rows(actor, query, self.shown, table)]

    def check_is_closed(self, table: Table) -> None:
        """Nobody has read the table since it has a feature that is not known here (I9)."""
        assert self.closed_at is not None
        with suppress(UnsupportedFeature):
            self.violations.append(f"I9: version {table.refresh().version} was read, and nobody here can read version {self.closed_at}")
        self.violations += [f"I9: reader {o.name} read version {o.done.version}" for o in self._outcomes if (o.done.version or 0) >= self.closed_at]

    def check_readers(self) -> None:
        """Every reader saw one whole version."""
        for o in self._outcomes:
            if o.on_table < self._history.table or o.done.rows is None or o.done.version is None or o.done.version >= len(self.bags):
                continue
            if self._history.lost_from is not None and commit_key(o.done.version) >= self._history.lost_from:
                continue  # it was read before it was durable, and is another version now
            acknowledged = max((p.done.committed or 0 for p in self._outcomes if p.ended_at <= o.began_at and p.on_table == o.on_table), default=0)
            if o.action.kind == "read" and o.done.version < acknowledged:
                self.violations.append(f"reader {o.name} read version {o.done.version} after version {acknowledged} had been acknowledged")
            if o.done.snapshot is not None:
                self.violations += [f"reader {o.name}: {text}" for text in self.folded.differences(o.done.snapshot)]
            if o.done.asked not in (None, o.done.version):
                self.violations.append(f"reader {o.name} asked for the time of version {o.done.asked}, and was shown version {o.done.version}")
            self.violations += [f"reader {o.name} was shown another history of version {c.version}" for c in o.done.history if not self._is_in_log(c)]
            if rows_of(o.done.rows, self.columns[o.done.version]) != self.bags[o.done.version]:
                self.violations.append(f"reader {o.name} saw other rows in version {o.done.version} than it has")

    def _is_in_log(self, shown: Commit) -> bool:
        """Whether a commit of the history is the one that the log has; one that was not durable when it was read may be gone."""
        lost = self._history.lost_from is not None and commit_key(shown.version) >= self._history.lost_from
        return (
            lost or (shown.info is not None and shown.txn_id is None) or shown.info == next((c.info for c in self._commits if c.version == shown.version), None)
        )


def _check_head(verdict: Verdict, table: Table) -> None:
    """The newest version, read by the code under test from checkpoints and all, is that of the raw log."""
    head = table.refresh()
    rows: list[Mapping[str, Any]] = []
    files = list(head.files.adds())
    if any(f.path in verdict.gone or (f.deletion_vector is not None and f.deletion_vector.path in verdict.gone) for f in files):
        return  # a clone's, in the folder of its source
    for file in files:
        rows += table.statement_engine.sample([live_slice(file, table.state.vectors.of)], None, snapshot=head)
    if head.version != len(verdict.bags) - 1:
        verdict.violations.append(f"the newest version reads as {head.version}; the log has {len(verdict.bags) - 1}")
    elif rows_of(rows, verdict.columns[-1]) != verdict.bags[-1]:
        verdict.violations.append("the newest version, read anew, has other rows than the raw log")
    else:
        verdict.violations += [f"read anew: {text}" for text in verdict.folded.differences(head)]
        verdict.violations += verdict.folded.tombstones(table.state.log.tombstones(head), all_of_them=verdict.by_day)
