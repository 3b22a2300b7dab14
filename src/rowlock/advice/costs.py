"""What concurrency cost by a history, and what waiting in line would have: the figures behind `advice`.

Lost    seconds of work done in vain: rebases, files and puts of lost rounds, tries that were thrown away.  Each counts
        twice (WORK_WEIGHT): its writer waited, and its machines were busy, while who waits in line keeps none busy.
Waited  under a lease, of two runs that overlapped the one that began later would have waited for the other:
        for every commit that landed while a run was under way, the service time of whichever began first.

Both are per changing commit (appends and compactions wait for no lease).  Nothing here raises, and nothing decides a commit (I7).  Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rowlock.advice.history import History, Run

WORK_WEIGHT = 2.0
_LEASE_TRIPS = 2
"""Round trips to the store that a lease costs who takes it: taking it, and giving it back."""


@dataclass(frozen=True, slots=True)
class Pair:
    """How runs of one operation fared beside commits of another.

    overlaps   how often a winner landed while a loser was under way
    met        how often it mattered to the loser: it was repaired, run again, or failed
    failed     of these, those that ended the loser's try
    rows       that the winner took from or brought to the loser
    """

    loser: str
    winner: str
    overlaps: int = 0
    met: int = 0
    failed: int = 0
    rows: int = 0

    @property
    def rate(self) -> float:
        return self.met / self.overlaps if self.overlaps else 0.0


def pairs(history: History) -> list[Pair]:
    """All pairs of operations that ran beside each other, those with the most conflicts first."""
    overlaps: Counter[tuple[str, str]] = Counter()
    met: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    rows: Counter[tuple[str, str]] = Counter()
    for run in history.runs:
        passed = {w.version: w.operation for w in history.passed(run)}
        for m in run.met:
            winner = history.by_version.get(m.version)
            passed.setdefault(m.version, m.operation if winner is None else winner.operation)
            key = run.operation, passed[m.version]
            met[key] += 1
            failed[key] += bool(m.rule) and run.failed
            rows[key] += m.rows_gone + m.rows_born
        for operation in passed.values():
            overlaps[run.operation, operation] += 1
    return sorted((Pair(*key, n, met[key], failed[key], rows[key]) for key, n in overlaps.items()), key=lambda p: (-p.met, -p.overlaps, p.loser, p.winner))


@dataclass(frozen=True, slots=True)
class Hot:
    """Something that conflicts share: how many runs met others over it."""

    name: str
    meetings: int
    operations: tuple[str, ...] = ()


def hot_files(history: History) -> list[Hot]:
    """Data files over which runs met, the most disputed first."""
    return _hot((f, run.operation) for run in history.runs for m in run.met for f in m.files)


def hot_partitions(history: History) -> list[Hot]:
    """The same by partition; empty for a table without."""
    found = ((p, run.operation) for run in history.runs for m in run.met for p in {history.partition_of.get(f, "") for f in m.files} if p)
    return _hot(found)


def hot_columns(history: History) -> list[Hot]:
    """Columns that two writers set in one row, as far as it was looked at (policy `fail` by row, and lockless)."""
    met = ((c, run.operation) for run in history.runs for m in run.met for c in m.columns)
    overwrote = ((c, run.operation) for run in history.runs for o in run.overwrote for c in o.columns)
    return _hot([*met, *overwrote])


def _hot(found: Iterable[tuple[str, str]]) -> list[Hot]:
    count: Counter[str] = Counter()
    operations: dict[str, set[str]] = defaultdict(set)
    for name, operation in found:
        count[name] += 1
        operations[name].add(operation)
    return [Hot(name, n, tuple(sorted(operations[name]))) for name, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds are per changing commit, on average, unless the name says total.

    changes, appends       commits that would wait for a lease of scope `writes`, and those that would not
    service_s              what a change takes when nobody is in its way; None where no run says
    lost_s                 work done in vain (not weighted): `repair_s` in rebases and lost rounds, `thrown_s` in tries that failed
    wait_s, partition_s    expected waiting under a lease of the table's writes, of a partition; None where partitions do not tell writers apart
    by_others              share of what was lost to commits that wait for no lease of `writes` (appends, compactions): it would not save that
    beside                 other changes that landed while one was under way
    queued_s               waited for a lease, beyond what taking one costs, as recorded
    """

    changes: int
    appends: int
    service_s: float | None
    repair_s: float = 0.0
    thrown_s: float = 0.0
    wait_s: float = 0.0
    partition_s: float | None = None
    by_others: float = 0.0
    beside: float = 0.0
    queued_s: float = 0.0
    rounds: int = 0
    failed: int = 0
    rows_rebased: int = 0
    bytes_rebased: int = 0
    thrown_rows: int = 0

    @property
    def lost_s(self) -> float:
        return self.repair_s + self.thrown_s

    @property
    def weighted_lost_s(self) -> float:
        return WORK_WEIGHT * self.lost_s

    def expected(self) -> dict[str, float]:
        """What each choice of a lock costs a commit: the work that it still loses, weighted, and the waiting."""
        lost = self.weighted_lost_s
        out = {"none": lost, "writes": self.by_others * lost + self.wait_s}
        if self.partition_s is not None:
            out["partition"] = self.by_others * lost + self.partition_s
        return out


def costs(history: History) -> Costs:
    """The costs of a history's changes, by all engines as far as they tell."""
    changes = [r for r in history.commits if r.changes]
    tries = [*changes, *(r for r in history.failed if r.changes)]
    n = max(1, len(changes))
    known = [s for r in changes if (s := r.service_s) is not None]
    thrown = thrown_away(history)
    lost = {id(r): _own_loss(r) if r.failed else r.repair_s + thrown.get(r.txn_id or "", 0.0) for r in tries}
    wait_s, partition_s, beside = _waiting(history, tries, n, median(known) if known else 0.0)
    return Costs(
        changes=len(changes),
        appends=sum(r.appends for r in history.commits),
        service_s=sum(known) / len(known) if known else None,
        repair_s=sum(r.repair_s for r in changes) / n,
        thrown_s=(sum(lost.values()) - sum(r.repair_s for r in changes)) / n,
        wait_s=wait_s,
        partition_s=partition_s,
        by_others=_share_of_others(history, tries, lost),
        beside=beside,
        queued_s=_queued_s(changes),
        rounds=sum(r.rounds for r in changes),
        failed=sum(1 for r in tries if r.failed and r.outcome != "abandoned"),
        rows_rebased=sum(r.rows_rebased for r in changes),
        bytes_rebased=sum(r.bytes_rebased for r in changes),
        thrown_rows=sum(r.thrown_rows for r in history.failed if r.changes and r.outcome != "abandoned"),
    )


def thrown_away(history: History) -> Mapping[str, float]:
    """Seconds of failed tries, by the txnId of the commit that carries their sum; tries with an account of their own are not in it."""
    recorded = {r.txn_id for r in history.failed if r.txn_id}
    out = {}
    for run in history.commits:
        if run.rerun_of and run.txn_id:
            missing = sum(t not in recorded for t in run.rerun_of)
            out[run.txn_id] = run.thrown_seconds * missing / len(run.rerun_of)
    return out


def _own_loss(run: Run) -> float:
    """What a failed attempt had done; a block that its own code gave up is nobody's conflict."""
    return 0.0 if run.outcome == "abandoned" else run.thrown_seconds


def _waiting(history: History, tries: Sequence[Run], n: int, usual_s: float) -> tuple[float, float | None, float]:
    """(under a lease of writes, of a partition, other changes beside one), on average over `n` commits."""
    whole = apart = 0.0
    beside = told_apart = 0
    lease = _LEASE_TRIPS * _trip_s(tries)
    partitioned = bool(history.partition_columns)
    for run in tries:
        mine = history.partitions(run) if partitioned else frozenset()
        for other in history.passed(run):
            if not other.changes:
                continue
            seconds = _first_to_begin_s(run, other, usual_s)
            whole, beside = whole + seconds, beside + 1
            theirs = history.partitions(other) if partitioned else frozenset()
            if not mine or not theirs or mine & theirs:
                apart += seconds
            else:
                told_apart += 1
    useful = partitioned and (told_apart > 0 or len({p for r in tries for p in history.partitions(r)}) > 1)
    return whole / n + lease, apart / n + lease if useful else None, beside / n


def _first_to_begin_s(run: Run, other: Run, usual_s: float) -> float:
    mine, theirs = (usual_s if s is None else s for s in (run.service_s, other.service_s))
    if other.read_version is None or run.read_version is None or other.read_version == run.read_version:
        return (mine + theirs) / 2
    return mine if other.read_version > run.read_version else theirs


def _queued_s(changes: Sequence[Run]) -> float:
    """The shortest wait of all is what a free lease costs."""
    waits = [r.seconds["lock"] for r in changes if "lock" in r.seconds]
    return sum(waits) / len(waits) - min(waits) if waits else 0.0


def _trip_s(tries: Sequence[Run]) -> float:
    puts = [s for r in tries if (s := r.trip_s) is not None]
    return median(puts) if puts else 0.0


def _share_of_others(history: History, tries: Sequence[Run], lost: Mapping[int, float]) -> float:
    """Of the seconds lost, the share that meetings with commits stand for that wait for no lease."""
    total = sum(lost.values())
    if total <= 0:
        return 0.0
    to_others = 0.0
    for run in tries:
        winners = [w for m in run.met if (w := history.by_version.get(m.version)) is not None] or history.passed(run)
        if winners and lost[id(run)]:
            to_others += lost[id(run)] * sum(not w.changes for w in winners) / len(winners)
    return min(1.0, to_others / total)
