"""What a table's log says of who ran when, beside whom, and what that cost: the material of `advice`.

A history is made of runs: commits, by any engine, and attempts that failed.  Everything in it is a claim
that somebody wrote down; a field that is missing or makes no sense is left out, and nothing here raises.
It decides no commit (I7).  Pure; `advice.read_history` reads one from a store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Outcome = Literal["committed", "conflict", "refused", "unknown", "abandoned"]
"""committed; conflict: raised by a policy; refused: the run at the head raises, such as a second match; unknown: nobody could
find out whether the put landed; abandoned: its block raised something of the user's."""
FAILED: tuple[Outcome, ...] = ("conflict", "refused", "unknown", "abandoned")

MAX_PASSED = 200
"""Winners that are looked at for each run: who read a hundred versions ago has met them all the same."""
_APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO", "ADD", "RESTORE")
_CHANGES = ("UPDATE", "DELETE", "MERGE", "TRANSACTION", "OPTIMIZE", "RESTORE", "TRUNCATE", "REORG", "COMPACT")
_SAID_TO_CHANGE = ("numUpdatedRows", "numDeletedRows", "numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted")
_DELTA_RS = {"num_updated_rows": "numUpdatedRows", "num_deleted_rows": "numDeletedRows", "num_target_rows_updated": "numTargetRowsUpdated",
             "num_target_rows_deleted": "numTargetRowsDeleted", "num_target_rows_inserted": "numTargetRowsInserted", "num_copied_rows": "numCopiedRows",
             "num_target_rows_copied": "numTargetRowsCopied", "execution_time_ms": "executionTimeMs"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A winner that a run had to deal with; `rule` says which one made an error of it, and is empty where it was repaired."""

    version: int
    operation: str = "?"
    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows_gone: int = 0
    rows_born: int = 0
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrote:
    """Rows of an earlier commit in which a later, lockless one met it; `outcome` as in `conflict.value.SupersededRow`."""

    version: int
    outcome: str
    rows: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The file actions of one commit, as far as they were looked at.

    removed, added     paths; `complete` is False where only the first of them were looked at
    partitions         of these files, as `column=value/...`
    """

    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    partitions: frozenset[str] = frozenset()
    num_removed: int = 0
    num_added: int = 0
    changes_data: bool = True
    changes_definition: bool = False
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One transaction that came to its end, one way or the other.

    version        that it committed; of a failed attempt None, and `ended_at` the head that it met
    read_version   that it staged its work on; None where its engine does not say
    appends        it only added rows from elsewhere: it needs no lock
    moves          it only put rows elsewhere, as OPTIMIZE does: nobody fails by it, and it waits for no lease of scope `writes`
    seconds        by phase (lock, plan, stage, wait, rebase, write, put) from Rowlock; {"all": s} from others, where they say
    group_size     transactions that the version holds: appends share one where they queue
    rerun_of       txnIds of failed tries of the same work before it; `thrown_*` is what they had done
    """

    version: int | None
    ended_at: int
    operation: str
    outcome: Outcome = "committed"
    txn_id: str | None = None
    at_ms: int | None = None
    engine: str = "?"
    read_version: int | None = None
    appends: bool = False
    moves: bool = False
    definition: bool = False
    attempts: int = 1
    rounds: int = 0
    rows_rebased: int = 0
    bytes_rebased: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    met: tuple[Met, ...] = ()
    overwrote: tuple[Overwrote, ...] = ()
    rerun_of: tuple[str, ...] = ()
    group_size: int = 1
    thrown_rows: int = 0
    thrown_bytes: int = 0
    thrown_seconds: float = 0.0
    rows_changed: int = 0
    rows_copied: int = 0
    touched: Touched = Touched()
    predicate: str = ""
    error: str = ""
    policy: str = ""

    @property
    def changes(self) -> bool:
        """Whether it would wait for a lease of the scope `writes`."""
        return not (self.appends or self.moves or self.definition)

    @property
    def failed(self) -> bool:
        return self.outcome != "committed"

    @property
    def by_rowlock(self) -> bool:
        return self.engine.lower().startswith("rowlock")

    @property
    def service_s(self) -> float | None:
        """Seconds that it takes when nobody is in its way, without the put; None where that is not known."""
        if "all" in self.seconds:
            return self.seconds["all"]
        if not self.seconds:
            return None
        return self.seconds.get("plan", 0.0) + self.seconds.get("stage", 0.0) + self.seconds.get("write", 0.0) / max(1, self.attempts)

    @property
    def trip_s(self) -> float | None:
        """Seconds of a put, where one was lost: the put that landed is not in the account that it carried."""
        puts = self.attempts - (not self.failed)
        return self.seconds["put"] / puts if puts > 0 and "put" in self.seconds else None

    @property
    def repair_s(self) -> float:
        """Seconds that went into rebases, and into the files and puts of lost rounds."""
        files = self.seconds.get("write", 0.0) * (self.attempts - 1) / max(1, self.attempts)
        return self.seconds.get("rebase", 0.0) + files + self.seconds.get("put", 0.0)


@dataclass(frozen=True)
class History:
    """The runs of one table, oldest first, commits and failed attempts in one line.

    partition_of   the partition of a path, for files that the commits name
    whole          whether it goes back to the table's first version
    unrecorded     failed attempts that their writers had no time to record
    newest_attempt the key of the newest failed attempt's account, for whoever carries the history on
    """

    table: str
    runs: Sequence[Run] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    partition_of: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    unrecorded: int = 0
    newest_attempt: str = ""

    @cached_property
    def commits(self) -> tuple[Run, ...]:
        return tuple(sorted((r for r in self.runs if r.version is not None), key=lambda r: r.version or 0))

    @cached_property
    def failed(self) -> tuple[Run, ...]:
        return tuple(r for r in self.runs if r.version is None)

    @cached_property
    def by_version(self) -> Mapping[int, Run]:
        return {r.version: r for r in self.commits if r.version is not None}

    def passed(self, run: Run) -> list[Run]:
        """The commits that landed between what a run read and its end, newest first; at most MAX_PASSED."""
        if run.read_version is None:
            return []
        last = run.ended_at if run.version is None else run.version - 1
        first = max(run.read_version + 1, last - MAX_PASSED + 1)
        return [found for v in range(last, first - 1, -1) if (found := self.by_version.get(v)) is not None]

    def partitions(self, run: Run) -> frozenset[str]:
        """The partitions that a run touched; empty where that is not known."""
        met = {self.partition_of[f] for m in run.met for f in m.files if f in self.partition_of}
        return run.touched.partitions | frozenset(met) if run.touched.complete else frozenset()


def run_of_commit(version: int, info: Any, touched: Touched = Touched(), *, modified_ms: int | None = None) -> Run:
    """A commit as its commitInfo tells it (any JSON value, None where it has none)."""
    info = _mapping(info)
    ours = _mapping(info.get("rowlock"))
    parameters, metrics = _mapping(info.get("operationParameters")), {_DELTA_RS.get(k, k): v for k, v in _mapping(info.get("operationMetrics")).items()}
    operation = _text(info.get("operation")) or "?"
    read_version = _count(info.get("readVersion"), None)
    stated = [read_version, _count(ours.get("read_version"), None)]
    begun = min((v for v in stated if v is not None and v < version), default=None)
    definition = touched.changes_definition or not (touched.num_removed or touched.num_added or operation.upper().startswith((*_APPENDS, *_CHANGES)))
    return Run(
        version=version,
        ended_at=version - 1,
        operation=operation,
        txn_id=_text(info.get("txnId")),
        at_ms=_count(info.get("inCommitTimestamp"), None) or _count(info.get("timestamp"), None) or modified_ms,
        engine=_engine(info),
        read_version=begun,
        appends=_only_appends(info, operation, parameters, touched),
        moves=bool(touched.num_removed or touched.num_added) and not touched.changes_data and not touched.changes_definition,
        definition=definition,
        rows_changed=sum(_count(metrics.get(name), 0) or 0 for name in _SAID_TO_CHANGE),
        rows_copied=(_count(metrics.get("numCopiedRows"), 0) or 0) + (_count(metrics.get("numTargetRowsCopied"), 0) or 0),
        seconds=_seconds(ours.get("seconds")) or _execution(metrics),
        touched=touched,
        predicate=_predicate(parameters),
        group_size=len(members) if isinstance(members := ours.get("members"), list) and members else 1,
        **_account(ours),
    )


def run_of_attempt(raw: Any) -> Run | None:
    """A failed attempt out of its record; None where it is none."""
    raw = _mapping(raw)
    outcome = raw.get("outcome")
    if outcome not in FAILED:
        return None
    work = _mapping(raw.get("staged"))
    account = _account(_mapping(raw.get("account")))
    account |= {
        "thrown_rows": _count(work.get("rows"), 0),
        "thrown_bytes": _count(work.get("size_bytes"), 0),
        "thrown_seconds": _number(work.get("seconds")),
        "rerun_of": (),
    }
    read_version = _count(raw.get("read_version"), None)
    return Run(
        version=None,
        ended_at=max(_count(raw.get("head_version"), 0) or 0, read_version or 0),
        operation=_text(raw.get("operation")) or "?",
        outcome=outcome,
        txn_id=_text(raw.get("txn_id")),
        at_ms=_count(raw.get("at_ms"), None),
        engine=_text(raw.get("engine")) or "?",
        read_version=read_version,
        appends=raw.get("appends") is True,
        moves=raw.get("moves") is True,
        definition=raw.get("definition") is True,
        seconds=_seconds(_mapping(raw.get("account")).get("seconds")),
        predicate=_predicate(_mapping(raw.get("parameters"))),
        error=_text(raw.get("error")) or "",
        policy=_text(raw.get("on_conflict")) or "",
        **account,
    )


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """By the place in the log; a failed attempt stands after the head that it met."""
    return tuple(sorted(runs, key=lambda r: (r.ended_at + (r.version is None), r.version is None, r.at_ms or 0)))


def _account(ours: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run that Rowlock's own record gives."""
    thrown = _mapping(ours.get("thrown_away"))
    return {
        "attempts": max(1, _count(ours.get("attempts"), 1) or 1),
        "rounds": _count(ours.get("rounds"), 0) or 0,
        "rows_rebased": _count(ours.get("rows_rebased"), 0) or 0,
        "bytes_rebased": _count(ours.get("bytes_rebased"), 0) or 0,
        "met": tuple(m for c in _list(ours.get("conflicts")) if (m := _met(_mapping(c))) is not None),
        "overwrote": _overwrote(_list(ours.get("overwritten"))),
        "rerun_of": tuple(t for t in _list(ours.get("rerun_of")) if isinstance(t, str)),
        "thrown_rows": _count(thrown.get("rows"), 0) or 0,
        "thrown_bytes": _count(thrown.get("size_bytes"), 0) or 0,
        "thrown_seconds": _number(thrown.get("seconds")),
    }


def _met(raw: Mapping[str, Any]) -> Met | None:
    version = _count(raw.get("version"), None)
    if version is None:
        return None
    rows_gone, rows_born = _count(raw.get("rows_gone"), 0) or 0, _count(raw.get("rows_born"), 0) or 0
    return Met(
        version=version, operation=_text(raw.get("operation")) or "?", files=_texts(raw.get("files")), columns=_texts(raw.get("columns")),
        rows_gone=rows_gone, rows_born=rows_born, rule=_text(raw.get("rule")) or "",
    )  # fmt: skip


def _overwrote(rows: Iterable[Any]) -> tuple[Overwrote, ...]:
    """Rows by winner and outcome."""
    found: dict[tuple[int, str], tuple[int, set[str]]] = {}
    for row in map(_mapping, rows):
        version = _count(row.get("version"), None)
        if version is not None:
            count, columns = found.get((version, _text(row.get("outcome")) or "?"), (0, set()))
            found[version, _text(row.get("outcome")) or "?"] = count + 1, columns | set(_texts(row.get("columns")))
    return tuple(Overwrote(version=v, outcome=outcome, rows=n, columns=tuple(sorted(columns))) for (v, outcome), (n, columns) in sorted(found.items()))


def _only_appends(info: Mapping[str, Any], operation: str, parameters: Mapping[str, Any], touched: Touched) -> bool:
    if touched.num_removed or touched.changes_definition:
        return False
    if info.get("isBlindAppend") is True:
        return True
    mode = (_text(parameters.get("mode")) or _text(parameters.get("outputMode")) or "").lower()
    return "isBlindAppend" not in info and operation.upper() in _APPENDS and mode == "append"


def _engine(info: Mapping[str, Any]) -> str:
    for name in ("engineInfo", "clientVersion"):
        if found := _text(info.get(name)):
            return found
    return "?"


def _execution(metrics: Mapping[str, Any]) -> dict[str, float]:
    ms = _count(metrics.get("executionTimeMs"), None)
    return {} if ms is None else {"all": ms / 1000}


def _predicate(parameters: Mapping[str, Any]) -> str:
    for name in ("predicate", "mergePredicate", "statement"):
        if found := _text(parameters.get(name)):
            return found[:2000]
    return ""


def _seconds(value: Any) -> dict[str, float]:
    return {str(k): _number(v) for k, v in _mapping(value).items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in _list(value) if isinstance(v, str))


def _number(value: Any) -> float:
    """A number of seconds that makes sense, else 0."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e9 else 0.0


def _count(value: Any, default: int | None) -> int | None:
    """A whole number of at least 0, as a number or (operationMetrics) as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e18:
        return int(value)
    return default
