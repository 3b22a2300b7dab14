"""Advice on a table's settings, computed from its history, with reasons and figures.

`rowlock.lock=auto` follows `lock_for`; `advise` explains the same choice to users, and gives further advice.  The
advised lock is the one with the lowest expected cost (see `costs`):

    none       the work lost to other writers, counted twice
    partition  what conflicts with appends and compactions still cost, plus waiting for writers of the same partition
    writes     the same, plus waiting for every other change

With growing losses the choice only ever moves down this list.  The lock `table` is never advised: it makes appends
wait, which lose nothing.  The current lock is replaced only by one that is cheaper by a margin; and since a lock hides
the conflicts that it prevents, it remains for as long as writers queue for it.  Advice decides no commit (I7).  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rowlock.advice.costs import Costs, Pair, costs, hot_files, hot_partitions, pairs
from rowlock.advice.history import History, Run
from rowlock.advice.keys import advised_keys, hot_keys
from rowlock.conflict.value import REPAIRABLE
from rowlock.display import count, duration
from rowlock.protocol.properties import KNOBS
from rowlock.protocol.schema import column_name, quote

Lock = Literal["none", "writes", "table", "partition"]

ENOUGH = 20
"""With fewer changing commits and failed tries than this, no lock is advised."""
MARGIN = 0.7
"""Another lock is advised only if it costs less than this share of the current one's cost."""
WORTH_IT = 0.05
"""Losses below this share of a statement's own time are ignored."""
HOT = 0.2
"""A file or partition counts as hot if it has at least this share of all conflicts."""
QUEUE = 0.1
"""Waiting below this share of a statement's own time does not count as a queue."""
_COPIED_PER_CHANGED = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for the advice: a topic (a property or a keyword), a sentence for people, and its figures by name."""

    topic: str
    text: str
    figures: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """The advised settings of a table.

    lock         the lock with the lowest expected cost
    on_conflict  another policy that would lose less; None if the current one is fine
    granularity  another granularity that would lose less; None if the current one is fine
    settings     these as table properties, as far as they differ from the current ones; ready for setProperties
    options      other settings that would help but need a decision (support by other readers, a new layout)
    reasons      the reasons with their figures, the most important first
    thin         what is unknown for lack of evidence; empty if there is enough
    statements   SQL that would help, but rewrites files: clustering by the columns that conditions name
    """

    lock: Lock
    on_conflict: str | None
    granularity: str | None
    settings: Mapping[str, str]
    options: Mapping[str, str]
    reasons: tuple[Reason, ...]
    thin: str
    costs: Costs
    statements: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The advice as plain values, for `--json`."""
        return asdict(self) | {"expected_s": self.costs.expected()}


def lock_for(history: History, *, current: str | None = None) -> Lock:
    """The lock with the lowest expected cost.  `current`: the lock in force, by default the one that the newest commits used.

    The current lock remains if there is too little evidence, or if writers queue for it.
    """
    measured = costs(history)
    return _cheapest_lock(measured, _lock_in_use(history, measured) if current is None else _as_lock(current))


def _lock_in_use(history: History, measured: Costs) -> Lock:
    """The lock that most of the newest changes used, according to their commitInfo."""
    newest = [r for r in history.commits if r.changes and r.by_rowlock][-ENOUGH:]
    if 2 * sum("lock" in r.seconds for r in newest) <= len(newest):
        return "none"
    return "writes" if measured.partition_s is None or measured.partition_s >= measured.wait_s else "partition"


def _as_lock(current: str | None) -> Lock:
    return "writes" if current in ("writes", "table") else "partition" if current == "partition" else "none"


def _cheapest_lock(measured: Costs, current: Lock) -> Lock:
    if measured.changes + measured.failed < ENOUGH:
        return current
    service = measured.service_s or 0.0
    if current != "none" and measured.queued_s > QUEUE * service:
        return current
    floor = WORTH_IT * service * (MARGIN if current != "none" else 1.0)
    if measured.lost_s <= floor:
        return "none"
    expected = measured.expected()
    expected[current] = MARGIN * expected.get(current, expected["writes"])
    scopes: tuple[Lock, ...] = ("none", "partition", "writes")
    return min((s for s in scopes if s in expected), key=lambda s: expected[s])


def advise(history: History) -> Advice:
    """The advised settings and the reasons for them.  Never raises, whatever the history contains."""
    measured, ranked = costs(history), pairs(history)
    named = history.properties.get("rowlock.lock", "none")
    current = _lock_in_use(history, measured) if named == "auto" else _as_lock(named)
    policy, granularity = _policy_reason(history), _granularity_reason(history)
    lock = _cheapest_lock(measured if policy is None else _under_repair(measured, policy), current)
    has = named if named in KNOBS["rowlock.lock"] else "none"
    wanted = {"rowlock.lock": lock if named != "auto" and lock != has else None, "rowlock.onConflict": "repair" if policy else None}
    wanted["rowlock.granularity"] = "row" if granularity else None
    settings = {name: value for name, value in wanted.items() if value is not None}
    options = list(_options(history, measured))
    clustering, statements = _clustering_reason(history)
    reasons = [
        _lock_reason(measured, lock, current, ranked),
        *(r for r in (policy, granularity) if r is not None),
        *_conflict_reasons(history, ranked),
        *_overwritten_reasons(history),
        *_other_engine_reasons(history),
        *(r for _, _, r in options),
        *([clustering] if clustering else []),
    ]
    return Advice(
        lock=lock,
        on_conflict=settings.get("rowlock.onConflict"),
        granularity=settings.get("rowlock.granularity"),
        settings=settings,
        options={name: value for name, value, _ in options if name},
        reasons=tuple(reasons),
        thin=_missing_evidence(history, measured),
        costs=measured,
        statements=statements,
    )


def set_properties(settings: Mapping[str, str], table: str) -> str:
    """What sets these on a table: a statement of SQL, and beneath it a line of Python."""
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
    sql = f"ALTER TABLE delta.{quote(table)} SET TBLPROPERTIES ({listed})\n"
    return sql + "t.setProperties({" + ", ".join(f'"{name}": "{value}"' for name, value in settings.items()) + "})"


def _lock_reason(measured: Costs, lock: Lock, current: Lock, ranked: list[Pair]) -> Reason:
    figures: dict[str, float | int | str] = {name: getattr(measured, name) for name in ("changes", "appends", "failed", "rounds")}
    figures |= {f"expected_{scope}_s": round(seconds, 4) for scope, seconds in measured.expected().items()}
    figures |= {name: round(getattr(measured, name), 4) for name in ("lost_s", "wait_s", "queued_s")} | {"beside": round(measured.beside, 2)}
    return Reason("lock", _lock_text(measured, lock, current, ranked), figures)


def _lock_text(measured: Costs, lock: Lock, current: Lock, ranked: list[Pair]) -> str:
    """Why this lock; empty where there is too little evidence."""
    if not measured.changes and not measured.failed:
        appends = f"No commit changed a row ({count(measured.appends, 'append')}): appends never conflict, and need no lock."
        return appends if measured.appends else "No commit changed a row yet."
    if measured.changes + measured.failed < ENOUGH:
        return ""
    service, lost, wait = measured.service_s or 0.0, duration(measured.lost_s), duration(measured.wait_s)
    if lock == "none" and measured.lost_s <= WORTH_IT * service:
        return (
            f"A change takes {duration(service)}, and loses {lost} of work to commits of others: too little for a lock. Waiting for one would take {wait} each."
        )
    if lock != "none" and lock == current and measured.queued_s > QUEUE * service:
        return f"Writers queue for the lock, {duration(measured.queued_s)} each: it remains, for it hides the conflicts that it prevents."
    vain = f"On average a change loses {lost} of work to commits of others: {duration(measured.repair_s)} in repairs, {duration(measured.thrown_s)} in tries thrown away"
    counted = "Lost work counts twice against waiting, since it also keeps machines busy."
    if lock == "none":
        return f"{vain}. With a lock it would wait {wait} for the {measured.beside:.1f} changes at the same time. {counted}"
    if lock == "partition":
        partition = duration(measured.partition_s or 0)
        return f"{vain}. With a lock it would wait {partition} for writers of the same partition, {wait} for all writers. {counted}"
    worst = next((p for p in ranked if p.met), None)
    pair = f" Most was lost by {worst.loser} to {worst.winner}: {worst.met} of the {worst.overlaps} times that they ran at once." if worst else ""
    return f"{vain}. With a lock it would wait {wait}. {counted}{pair}"


def _policy_reason(history: History) -> Reason | None:
    """The reason to set `repair`, if tries were thrown away because of conflicts that a repair resolves; else None."""
    wasted = [r for r in history.failed if r.outcome == "conflict" and r.policy in ("fail", "rerun") and r.met and r.met[-1].rule in REPAIRABLE]
    present = history.properties.get("rowlock.onConflict", "repair")
    if not wasted or present not in ("fail", "rerun"):
        return None
    seconds, rows = sum(r.thrown_seconds for r in wasted), sum(r.thrown_rows for r in wasted)
    repairs = [r.repair_s for r in history.commits if r.rounds and r.rows_rebased]
    figures: dict[str, float | int | str] = {"to": "repair", "from": present, "tries": len(wasted), "seconds": round(seconds, 3), "rows": rows}
    price = "how long one takes on this table is not known yet: ask again after some commits"
    if repairs:
        figures["repair_s"] = each = sum(repairs) / len(repairs)
        price = f"{count(len(repairs), 'repair')} here took {duration(each)} each"
    text = f"{count(len(wasted), 'try', 'tries')} under {present} threw away {duration(seconds)} and {count(rows, 'row')}; a repair redoes only what the other commit changed ({price})."
    return Reason("rowlock.onConflict", text, figures)


def _under_repair(measured: Costs, policy: Reason) -> Costs:
    """The costs if each failed try had been repaired instead; unchanged if no repair was measured on this table."""
    price = policy.figures.get("repair_s")
    if not isinstance(price, float):
        return measured
    repaired = float(policy.figures["tries"]) * price / max(1, measured.changes)
    return replace(measured, thrown_s=max(0.0, measured.thrown_s - float(policy.figures["seconds"]) / max(1, measured.changes)) + repaired)


def _granularity_reason(history: History) -> Reason | None:
    by_file = _failed_by_file(history)
    if not by_file or history.properties.get("rowlock.granularity") != "file":
        return None
    text = f"{count(len(by_file), 'try', 'tries')} failed because a file was shared; by row only the same rows conflict."
    return Reason("rowlock.granularity", text, {"tries": len(by_file), "to": "row"})


def _failed_by_file(history: History) -> list[Run]:
    return [r for r in history.failed if r.met and r.met[-1].rule in ("added files", "removed files", "removed by both")]


def _conflict_reasons(history: History, ranked: list[Pair]) -> Iterator[Reason]:
    met = [p for p in ranked if p.met]
    if met:
        total, over = sum(p.met for p in ranked), sum(p.overlaps for p in ranked)
        what = "files" if history.properties.get("rowlock.granularity") == "file" else "rows"
        text = f"{over:,} times another commit landed while a change was under way, and {total:,} of them touched the same {what}: "
        text += "; ".join(f"{p.loser} beside {p.winner} {p.met:,} of {p.overlaps:,} ({100 * p.rate:.0f} %)" for p in met[:3]) + "."
        yield Reason("conflicts", text, {"met": total, "overlaps": over})
    places = hot_partitions(history) or hot_files(history)
    if places and places[0].meetings > HOT * sum(h.meetings for h in places):
        total, top = sum(h.meetings for h in places), places[0]
        kind = "partition" if hot_partitions(history) else "file"
        text = f"{total:,} conflicts are spread over {count(len(places), kind)}; {top.meetings:,} of them are in {top.name}."
        yield Reason("hot", text, {"places": len(places), "top": top.name, "meetings": top.meetings, "of": total})
    keys = hot_keys(history, 1)
    if keys:
        k = keys[0]
        named = ", ".join(f"{v} ({n} times)" for v, n in k.values[:3])
        span = "" if k.low is None or k.high is None else f", from {k.low:g} to {k.high:g}"
        text = f"Statements in conflict select rows by {k.column}{span}{', most often ' if named else ''}{named}."
        yield Reason("keys", text, {"column": k.column, "runs": k.runs})


def _overwritten_reasons(history: History) -> Iterator[Reason]:
    rows = sum(o.rows for r in history.commits for o in r.overwrote if o.outcome != "dropped")
    if rows:
        commits = sum(bool(r.overwrote) for r in history.commits)
        text = f"{count(commits, 'lockless commit')} overwrote what others had set in {count(rows, 'row')}; where each of these must count, rowlock.onConflict=repair keeps them all."
        yield Reason("overwritten", text, {"rows": rows, "commits": commits})


def _other_engine_reasons(history: History) -> Iterator[Reason]:
    """Reasons about commits of other engines, and about what these do not record."""
    theirs = [r for r in history.commits if not r.by_rowlock]
    if not theirs:
        return
    overlapped = sum(bool(history.overlapping(r)) for r in theirs)
    text = f"{count(len(theirs), 'commit')} of {len(history.commits):,} are by other engines, {overlapped:,} of them while another landed. Their failed tries leave no trace, so what they lost is not in these figures; rowlock.* settings hold for writers through Rowlock."
    yield Reason("other engines", text, {"commits": len(theirs), "overlapped": overlapped})
    silent = sum(r.read_version is None for r in theirs if r.changes)
    if silent:
        yield Reason("other engines", f"{count(silent, 'change')} of theirs do not record their read version.", {"silent": silent})


def _options(history: History, measured: Costs) -> Iterator[tuple[str, str, Reason]]:
    changed, copied = (sum(getattr(r, name) for r in history.commits) for name in ("rows_changed", "rows_copied"))
    if copied > _COPIED_PER_CHANGED * max(1, changed) and history.properties.get("delta.enableDeletionVectors", "").lower() != "true":
        text = f"{copied:,} rows were copied to change {changed:,}: deletion vectors mark rows instead. Readers must know them (Delta 2.3 and later)."
        yield "delta.enableDeletionVectors", "true", Reason("deletion vectors", text, {"copied": copied, "changed": changed})
    compacted = [r for r in history.runs if any(m.operation.upper().startswith(("OPTIMIZE", "COMPACT")) for m in r.met)]
    if len(compacted) >= 3 and history.properties.get("delta.enableRowTracking", "").lower() != "true":
        text = (
            f"{count(len(compacted), 'run')} met a compaction; rows that keep their ids are followed to where it put them. delta-rs does not write such tables."
        )
        yield "delta.enableRowTracking", "true", Reason("row tracking", text, {"runs": len(compacted)})
    lost_appends = sum(r.attempts - 1 for r in history.commits if r.appends)
    appends = max(1, measured.appends)
    if lost_appends > appends / 2:
        text = f"Appends lost {lost_appends:,} rounds in {measured.appends:,} commits to the race for the next version; writers that find a queue commit as a group by themselves."
        yield "", "", Reason("group commit", text, {"rounds": lost_appends, "appends": measured.appends})
    keys, by_file = hot_keys(history, 1), _failed_by_file(history)
    if len(by_file) >= ENOUGH and keys and len(keys[0].values) > 1 and not history.partition_columns:
        text = f"Statements that met over files name values of {keys[0].column}: clustered by it, writers of different values would touch different files."
        yield "", "", Reason("layout", text, {"column": keys[0].column, "tries": len(by_file)})


def _clustering_reason(history: History) -> tuple[Reason | None, tuple[str, ...]]:
    """The reason to cluster the table by other columns than now, and the statements that do so; a reason alone if they would not help."""
    advised, layout = advised_keys(history), history.layout
    if not advised.keys:
        return None, ()
    parts = [f"{column_name(c)} in {advised.named[c]:,}" + (f" ({advised.joined[c]:,} joins)" if advised.joined.get(c) else "") for c in advised.keys]
    text = f"Of {count(advised.statements, 'condition')} in statements, so many name a column: {'; '.join(parts)}. Clustered by these columns, a statement reads fewer files."
    keys, table = ", ".join(map(column_name, advised.keys)), f"delta.{quote(history.table)}"
    figures: dict[str, float | int | str] = {"statements": advised.statements, "keys": keys, "size_bytes": layout.size_bytes}
    if set(advised.keys) == set(layout.clustered_by):
        return Reason("clustering", f"{text} It is clustered by them.", figures), ()
    if layout.size_bytes < 2 * layout.target_bytes:
        return Reason("clustering", f"{text} It is too early for that: all rows fit into one or two files of delta.targetFileSize.", figures), ()
    if history.partition_columns:
        text += " A partitioned table cannot be clustered: Z-order it instead."
        return Reason("clustering", text, figures), (f"OPTIMIZE {table} ZORDER BY ({keys})",)
    return Reason("clustering", text, figures), (f"ALTER TABLE {table} CLUSTER BY ({keys})", f"OPTIMIZE {table} FULL")


def _missing_evidence(history: History, measured: Costs) -> str:
    seen = measured.changes + measured.failed
    parts = []
    if not history.commits:
        parts.append("no commits")
    elif seen and seen < ENOUGH:
        parts.append(f"{count(seen, 'change')}: too few for advice ({ENOUGH} are needed)")
    elif seen and measured.service_s is None:
        parts.append("no commit records its duration: the cost of waiting is unknown")
    if history.unrecorded:
        parts.append(f"{count(history.unrecorded, 'failed try', 'failed tries')} came too fast to be recorded: the losses are higher than shown")
    return "; ".join(parts)
