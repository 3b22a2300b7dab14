"""What concurrency has cost according to a history, and what waiting for leases would have cost: the figures behind `advice`.

Lost    seconds of wasted work: rebases, files and puts of lost rounds, failed tries.  Each second counts twice
        (WORK_WEIGHT): the writer waited and its machines were busy, while waiting for a lease keeps no machine busy.
Waited  with a lease, of two overlapping runs the one that began later would have waited for the other: for every
        commit that landed during a run, the service time of whichever of the two began first.

Both are per changing commit (appends and compactions wait for no lease).  Beside them: the conflicts by pair and place, commits and failures over time, and
the commits that lockless commits overwrote.  Nothing here raises or decides a commit (I7).  Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

from rowlock.advice.history import History, Run

WORK_WEIGHT = 2.0
_LEASE_TRIPS = 2
"""Round trips to the store that a lease costs its holder: acquiring and releasing it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """How runs of one operation (`loser`) fared while commits of another (`winner`) landed; also of one writer beside another.

    overlaps   how often a winner landed during a run of the loser
    met        how often that was a conflict: the loser was repaired, run again, or failed
    failed     how many of these conflicts ended the loser's try
    rows       rows that winners removed from, or added to, what the losers read
    """

    loser: str
    winner: str
    overlaps: int = 0
    met: int = 0
    failed: int = 0
    rows: int = 0

    @property
    def rate(self) -> float:
        """The share of overlaps that were conflicts, from 0 to 1."""
        return self.met / self.overlaps if self.overlaps else 0.0


def pairs(history: History, by: Callable[[Run], str] = attrgetter("operation")) -> list[Pair]:
    """All pairs of operations (or of the names that `by` gives to runs) that overlapped, those with the most conflicts first."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for run in history.runs:
        passed = {w.version: by(w) for w in history.overlapping(run)}
        for m in run.met:
            winner = history.by_version.get(m.version) or Run(version=m.version, ended_at=m.version - 1, operation=m.operation)
            name = passed.setdefault(m.version, by(winner))
            counts[by(run), name].update(met=1, failed=int(bool(m.rule) and run.failed), rows=m.rows_gone + m.rows_born)
        for name in passed.values():
            counts[by(run), name]["overlaps"] += 1
    found = (Pair(*key, n["overlaps"], n["met"], n["failed"], n["rows"]) for key, n in counts.items())
    return sorted(found, key=lambda p: (-p.met, -p.overlaps, p.loser, p.winner))


@dataclass(frozen=True, slots=True)
class Grid:
    """The conflicts by pair: `cells[loser][winner]`, None if the two never ran at the same time; the number of omitted names."""

    losers: list[str]
    winners: list[str]
    cells: list[list[Pair | None]]
    left_out: int


def grid(all_pairs: Sequence[Pair], most: int) -> Grid:
    """The pairs as a grid of the names with the most conflicts, at most `most` on each side."""
    sides: list[list[str]] = []
    for name in ("loser", "winner"):
        weight: Counter[str] = Counter()
        for p in all_pairs:
            weight[getattr(p, name)] += 1000 * p.met + p.overlaps
        sides.append(sorted(weight, key=lambda name, weight=weight: (-weight[name], name)))  # type: ignore[misc]
    (losers, winners), cells = (side[:most] for side in sides), {(p.loser, p.winner): p for p in all_pairs}
    left_out = len({*sides[0], *sides[1]}) - len({*losers, *winners})
    return Grid(losers, winners, [[cells.get((a, b)) for b in winners] for a in losers], left_out)


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A file, partition or column with conflicts, and their number (`meetings`)."""

    name: str
    meetings: int
    operations: tuple[str, ...] = ()


def hot_files(history: History) -> list[Hotspot]:
    """The data files with conflicts, the most frequent first."""
    return _ranked((f, run.operation) for run in history.runs for m in run.met for f in m.files)


def hot_partitions(history: History) -> list[Hotspot]:
    """The partitions with conflicts, the most frequent first; empty for an unpartitioned table."""
    conflicts = ((p, run.operation) for run in history.runs for m in run.met for p in {history.partition_of.get(f, "") for f in m.files} if p)
    return _ranked(conflicts)


def hot_columns(history: History) -> list[Hotspot]:
    """The columns that two writers set in the same row, the most frequent first; known under policy `fail` by row, and lockless."""
    met = ((c, run.operation) for run in history.runs for m in run.met for c in m.columns)
    overwrote = ((c, run.operation) for run in history.runs for o in run.overwrote for c in o.columns)
    return _ranked([*met, *overwrote])


def _ranked(conflicts: Iterable[tuple[str, str]]) -> list[Hotspot]:
    count: Counter[str] = Counter()
    operations: dict[str, set[str]] = defaultdict(set)
    for name, operation in conflicts:
        count[name] += 1
        operations[name].add(operation)
    return [Hotspot(name, n, tuple(sorted(operations[name]))) for name, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds are per changing commit, on average, unless the name says total.

    changes, appends       commits that would wait for a lease under `writes`, and those that would not
    service_s              duration of a change without interference; None if no run records it
    lost_s                 wasted work (not weighted): `repair_s` in rebases and lost rounds, `thrown_s` in failed tries
    wait_s, partition_s    expected waiting with the lock `writes`, with `partition`; None if partitions do not separate writers
    by_others              share of the losses due to commits that never wait (appends, compactions), which a lock would not save
    beside                 other changes that landed during a change
    queued_s               recorded waiting for leases, beyond what acquiring a free one costs
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
        """Seconds of wasted work per changing commit."""
        return self.repair_s + self.thrown_s

    def expected(self) -> dict[str, float]:
        """The expected cost of each lock per changing commit, in seconds: weighted lost work plus waiting."""
        lost = WORK_WEIGHT * self.lost_s
        out = {"none": lost, "writes": self.by_others * lost + self.wait_s}
        if self.partition_s is not None:
            out["partition"] = self.by_others * lost + self.partition_s
        return out


def costs(history: History) -> Costs:
    """The costs of a history's changes, of all engines as far as they record them."""
    changes = [r for r in history.commits if r.changes]
    tries = [*changes, *(r for r in history.failed if r.changes)]
    n = max(1, len(changes))
    known = [s for r in changes if (s := r.service_s) is not None]
    thrown = thrown_away(history)
    lost = {id(r): r.own_loss_s if r.failed else r.repair_s + thrown.get(r.txn_id or "", 0.0) for r in tries}
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


def conflicts_by_file(history: History) -> list[Run]:
    """The commits that changed a data file which another commit removed or wrote after their read version.

    Each would have been a conflict by Delta's rules, which judge by file.  No fewer than these: a file that was added within a statement's read predicate is one as
    well, and the log does not record every read predicate.
    """

    def conflicts(run: Run) -> bool:
        mine = set(run.touched.removed)
        return any(not mine.isdisjoint((*w.touched.removed, *w.touched.added)) for w in history.overlapping(run))

    return [run for run in history.commits if conflicts(run)]


def thrown_away(history: History) -> Mapping[str, float]:
    """Seconds of failed tries by the txnId of the commit that reports them; tries with a record of their own are not counted."""
    recorded = {r.txn_id for r in history.failed if r.txn_id}
    out = {}
    for run in history.commits:
        if run.rerun_of and run.txn_id:
            missing = sum(t not in recorded for t in run.rerun_of)
            out[run.txn_id] = run.thrown_seconds * missing / len(run.rerun_of)
    return out


def _waiting(history: History, tries: Sequence[Run], n: int, usual_s: float) -> tuple[float, float | None, float]:
    """(waiting with the lock `writes`, with `partition` or None, other changes during one), averaged over `n` commits."""
    whole = apart = 0.0
    beside = disjoint = 0
    lease = _LEASE_TRIPS * median([s for r in tries if (s := r.trip_s) is not None] or [0.0])
    partitioned = bool(history.partition_columns)
    for run in tries:
        mine = history.partitions(run) if partitioned else frozenset()
        for other in history.overlapping(run):
            if not other.changes:
                continue
            seconds = _earlier_service_s(run, other, usual_s)
            whole, beside = whole + seconds, beside + 1
            theirs = history.partitions(other) if partitioned else frozenset()
            if not mine or not theirs or mine & theirs:
                apart += seconds
            else:
                disjoint += 1
    useful = partitioned and (disjoint > 0 or len({p for r in tries for p in history.partitions(r)}) > 1)
    return whole / n + lease, apart / n + lease if useful else None, beside / n


def _earlier_service_s(run: Run, other: Run, usual_s: float) -> float:
    mine, theirs = (usual_s if s is None else s for s in (run.service_s, other.service_s))
    if other.read_version is None or run.read_version is None or other.read_version == run.read_version:
        return (mine + theirs) / 2
    return mine if other.read_version > run.read_version else theirs


def _queued_s(changes: Sequence[Run]) -> float:
    """The average recorded wait for a lease, less the shortest one, which is what a free lease costs."""
    waits = [r.seconds["lock"] for r in changes if "lock" in r.seconds]
    return sum(waits) / len(waits) - min(waits) if waits else 0.0


def _share_of_others(history: History, tries: Sequence[Run], lost: Mapping[int, float]) -> float:
    """The share of the lost seconds that is due to commits that wait for no lease."""
    total = sum(lost.values())
    if total <= 0:
        return 0.0
    to_others = 0.0
    for run in tries:
        winners = [w for m in run.met if (w := history.by_version.get(m.version)) is not None] or history.overlapping(run)
        if winners and lost[id(run)]:
            to_others += lost[id(run)] * sum(not w.changes for w in winners) / len(winners)
    return min(1.0, to_others / total)


_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)


@dataclass(frozen=True, slots=True)
class Span:
    """Counts for the time span of `seconds` from `at_ms`: commits, rebased commits, lost rounds, failed tries, seconds of lost work."""

    at_ms: int
    seconds: int
    commits: int
    rebased: int
    rounds: int
    failed: int
    lost_s: float


def timeline(history: History, spans: int = 16) -> list[Span]:
    """At most `spans` time spans of equal, round length, oldest first, without empty ones.  Runs without a time are left out."""
    timed = [r for r in history.runs if r.at_ms is not None]
    if not timed:
        return []
    first, last = min(r.at_ms or 0 for r in timed), max(r.at_ms or 0 for r in timed)
    seconds = next((s for s in _SPANS_S if last // 1000 // s - first // 1000 // s < spans), 0)
    seconds = seconds or _SPANS_S[-1] * (1 + (last - first) // 1000 // _SPANS_S[-1])
    by_span: dict[int, list[Run]] = defaultdict(list)
    for run in timed:
        by_span[(run.at_ms or 0) // 1000 // seconds].append(run)
    return [_span(n * seconds * 1000, seconds, runs) for n, runs in sorted(by_span.items())]


def _span(at_ms: int, seconds: int, runs: list[Run]) -> Span:
    commits, failed = [r for r in runs if not r.failed], [r for r in runs if r.failed]
    lost = sum(r.repair_s for r in commits) + sum(r.own_loss_s for r in failed)
    return Span(at_ms, seconds, len(commits), sum(r.rounds > 0 for r in commits), sum(r.rounds for r in commits), len(failed), lost)


@dataclass(frozen=True, slots=True)
class Overwriting:
    """Rows that a later lockless commit and an earlier commit both changed.

    `outcome` is `cells` or `row` if the later commit's change is in the table, `dropped` if the earlier one's is.
    """

    earlier: int
    earlier_operation: str
    later: int
    later_operation: str
    outcome: str
    rows: int
    columns: tuple[str, ...]


def overwritings(history: History) -> list[Overwriting]:
    """All overwritings in a history, newest first."""
    operations = {version: run.operation for version, run in history.by_version.items()}
    return [
        Overwriting(o.version, operations.get(o.version, "?"), run.version or 0, run.operation, o.outcome, o.rows, o.columns)
        for run in reversed(history.commits)
        for o in reversed(run.overwrote)
    ]
