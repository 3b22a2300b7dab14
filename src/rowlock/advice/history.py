"""The history of a table: its transactions, their overlaps, and the cost of conflicts.  The input of `advice`.

A history consists of runs: commits by any engine, and failed attempts.  All of it is as
recorded by writers; missing and invalid fields are ignored, and nothing here raises.  A history decides no commit (I7).
Pure; `advice.read_history` reads one from a store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Outcome = Literal["committed", "conflict", "refused", "unknown", "abandoned"]
"""How a run ended: committed; conflict: a policy raised; refused: the statement fails at the head, such as a second match in
MERGE; unknown: it could not be determined whether the put landed; abandoned: the user's code in the block raised."""
FAILED: tuple[Outcome, ...] = ("conflict", "refused", "unknown", "abandoned")

FILE_BYTES = 1 << 30
"""The size that OPTIMIZE gives a file, unless delta.targetFileSize sets another."""
MAX_OVERLAPPING = 200
"""The most overlapping commits that are examined for each run; the newest ones are representative."""
_APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO", "ADD", "RESTORE")
_CHANGES = ("UPDATE", "DELETE", "MERGE", "TRANSACTION", "OPTIMIZE", "RESTORE", "TRUNCATE", "REORG", "COMPACT")
_CHANGED_ROW_METRICS = ("numUpdatedRows", "numDeletedRows", "numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted")
_DELTA_RS_METRICS = {"num_updated_rows": "numUpdatedRows", "num_deleted_rows": "numDeletedRows", "num_target_rows_updated": "numTargetRowsUpdated",
             "num_target_rows_deleted": "numTargetRowsDeleted", "num_target_rows_inserted": "numTargetRowsInserted", "num_copied_rows": "numCopiedRows",
             "num_target_rows_copied": "numTargetRowsCopied", "execution_time_ms": "executionTimeMs"}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Writer:
    """The writer that a commit records; empty or None where it records none.

    application   the name of the application or program; of a commit by another engine its job, user, or the engine itself
    host          the machine's name
    process       the process's id on that machine
    """

    application: str = ""
    host: str = ""
    process: int | None = None

    @property
    def where(self) -> str:
        """Host and process as one text, such as `etl-3, process 4711`."""
        return ", ".join(part for part in (self.host, "" if self.process is None else f"process {self.process}") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetWinner:
    """A winner that conflicted with a run; `rule` is the violated rule (see `conflict.value`), empty if the conflict was repaired."""

    version: int
    operation: str = "?"
    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows_gone: int = 0
    rows_born: int = 0
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverwrittenRows:
    """Rows of an earlier commit that a later lockless one changed as well; `outcome` as in `conflict.value.SupersededRow`."""

    version: int
    outcome: str
    rows: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """A summary of the file actions of one commit.

    removed, added     paths; `complete` is False if only the first ones are listed
    partitions         the partitions of these files, as `column=value/...`
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
    """One finished transaction: a commit or a failed attempt.

    version        the version that it committed; None for a failed attempt
    ended_at       the version before it; for a failed attempt, the head at which it failed
    read_version   the version on which it staged its work; None if its engine does not record it
    appends        whether it only added rows, so that it needs no lock
    moves          whether it only moved rows, as OPTIMIZE does: it conflicts with no other run, and waits for no lease under `writes`
    seconds        by phase (lock, plan, stage, wait, rebase, write, put) from Rowlock; {"all": s} from other engines, if recorded
    group_size     number of transactions in the version (appends that queue are committed as a group)
    began_ms       when it began, by its writer's clock, in milliseconds since the epoch; None if unknown.  `at_ms` is when it ended
    rerun_of       txnIds of earlier failed tries of the same work; `thrown_*` is the work lost with them
    """

    version: int | None
    ended_at: int
    operation: str
    outcome: Outcome = "committed"
    txn_id: str | None = None
    at_ms: int | None = None
    began_ms: int | None = None
    writer: Writer = Writer()
    user_metadata: str = ""
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
    met: tuple[MetWinner, ...] = ()
    overwrote: tuple[OverwrittenRows, ...] = ()
    rerun_of: tuple[str, ...] = ()
    group_size: int = 1
    thrown_rows: int = 0
    thrown_bytes: int = 0
    thrown_seconds: float = 0.0
    rows_changed: int = 0
    rows_copied: int = 0
    touched: FileChanges = FileChanges()
    predicate: str = ""
    error: str = ""
    policy: str = ""

    @property
    def changes(self) -> bool:
        """Whether it would wait for a lease under the lock `writes`."""
        return not (self.appends or self.moves or self.definition)

    @property
    def failed(self) -> bool:
        """Whether it ended without a commit."""
        return self.outcome != "committed"

    @property
    def by_rowlock(self) -> bool:
        """Whether Rowlock ran it, rather than another engine."""
        return self.engine.lower().startswith("rowlock")

    @property
    def service_s(self) -> float | None:
        """Seconds that it takes without interference, excluding the put; None if unknown."""
        if "all" in self.seconds:
            return self.seconds["all"]
        if not self.seconds:
            return None
        return self.seconds.get("plan", 0.0) + self.seconds.get("stage", 0.0) + self.seconds.get("write", 0.0) / max(1, self.attempts)

    @property
    def trip_s(self) -> float | None:
        """Seconds of one lost put; None if none was lost (a commit's own put is not yet in the record it carries)."""
        puts = self.attempts - (not self.failed)
        return self.seconds["put"] / puts if puts > 0 and "put" in self.seconds else None

    @property
    def repair_s(self) -> float:
        """Seconds spent on rebases, and on the files and puts of lost rounds."""
        files = self.seconds.get("write", 0.0) * (self.attempts - 1) / max(1, self.attempts)
        return self.seconds.get("rebase", 0.0) + files + self.seconds.get("put", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The file layout of a table's newest version.

    keys          the columns by which it could be clustered, by the table's names
    clustered_by  those by which it is clustered
    size_bytes    of all its files; `target_bytes`: the size that OPTIMIZE gives a file
    """

    keys: tuple[tuple[str, ...], ...] = ()
    clustered_by: tuple[tuple[str, ...], ...] = ()
    size_bytes: int = 0
    target_bytes: int = FILE_BYTES


@dataclass(frozen=True)
class History:
    """The runs of one table, oldest first: commits and failed attempts in one sequence.

    partition_of   the partition of each file in the history, by path
    whole          whether the history begins with the table's first version
    unrecorded     number of failed attempts that came too fast to be recorded
    newest_attempt key of the newest record of a failed attempt, to continue the history from
    """

    table: str
    runs: Sequence[Run] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    partition_of: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    unrecorded: int = 0
    newest_attempt: str = ""
    layout: Layout = Layout()

    @cached_property
    def commits(self) -> tuple[Run, ...]:
        """The runs that committed, sorted by version."""
        return tuple(sorted((r for r in self.runs if r.version is not None), key=lambda r: r.version or 0))

    @cached_property
    def failed(self) -> tuple[Run, ...]:
        """The failed attempts, oldest first."""
        return tuple(r for r in self.runs if r.version is None)

    @cached_property
    def by_version(self) -> Mapping[int, Run]:
        """The commits by version."""
        return {r.version: r for r in self.commits if r.version is not None}

    def overlapping(self, run: Run) -> list[Run]:
        """The commits that landed between a run's read version and its end, newest first; at most MAX_OVERLAPPING."""
        if run.read_version is None:
            return []
        last = run.ended_at if run.version is None else run.version - 1
        first = max(run.read_version + 1, last - MAX_OVERLAPPING + 1)
        return [commit for v in range(last, first - 1, -1) if (commit := self.by_version.get(v)) is not None]

    def partitions(self, run: Run) -> frozenset[str]:
        """The partitions that a run touched; empty if unknown."""
        met = {self.partition_of[f] for m in run.met for f in m.files if f in self.partition_of}
        return run.touched.partitions | frozenset(met) if run.touched.complete else frozenset()


def run_of_commit(version: int, info: Any, touched: FileChanges = FileChanges(), *, modified_ms: int | None = None) -> Run:
    """The run of a commit, from its commitInfo (any JSON value, or None) and its file actions."""
    info = _mapping(info)
    ours = _mapping(info.get("rowlock"))
    parameters, metrics = _mapping(info.get("operationParameters")), {_DELTA_RS_METRICS.get(k, k): v for k, v in _mapping(info.get("operationMetrics")).items()}
    operation = _text(info.get("operation")) or "?"
    read_version = _count(info.get("readVersion"), None)
    stated = [read_version, _count(ours.get("read_version"), None)]
    begun = min((v for v in stated if v is not None and v < version), default=None)
    at_ms = _count(info.get("inCommitTimestamp"), None) or _count(info.get("timestamp"), None) or modified_ms
    seconds = _seconds(ours.get("seconds")) or _execution(metrics)
    definition = touched.changes_definition or not (touched.num_removed or touched.num_added or operation.upper().startswith((*_APPENDS, *_CHANGES)))
    return Run(
        version=version,
        ended_at=version - 1,
        operation=operation,
        txn_id=_text(info.get("txnId")),
        at_ms=at_ms,
        began_ms=_began_ms(ours, at_ms, seconds),
        writer=writer_of(info),
        user_metadata=_text(info.get("userMetadata")) or "",
        engine=_engine(info),
        read_version=begun,
        appends=_only_appends(info, operation, parameters, touched),
        moves=bool(touched.num_removed or touched.num_added) and not touched.changes_data and not touched.changes_definition,
        definition=definition,
        rows_changed=sum(_count(metrics.get(name), 0) or 0 for name in _CHANGED_ROW_METRICS),
        rows_copied=(_count(metrics.get("numCopiedRows"), 0) or 0) + (_count(metrics.get("numTargetRowsCopied"), 0) or 0),
        seconds=seconds,
        touched=touched,
        predicate=_predicate(parameters),
        group_size=len(members) if isinstance(members := ours.get("members"), list) and members else 1,
        **_account(ours),
    )


def run_of_attempt(raw: Any) -> Run | None:
    """The run of a failed attempt, from its record (any JSON value); None if it is not such a record."""
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
    read_version, at_ms = _count(raw.get("read_version"), None), _count(raw.get("at_ms"), None)
    seconds = _seconds(_mapping(raw.get("account")).get("seconds"))
    return Run(
        version=None,
        ended_at=max(_count(raw.get("head_version"), 0) or 0, read_version or 0),
        operation=_text(raw.get("operation")) or "?",
        outcome=outcome,
        txn_id=_text(raw.get("txn_id")),
        at_ms=at_ms,
        began_ms=_began_ms(raw, at_ms, seconds),
        writer=_writer(raw) or Writer(_text(raw.get("engine")) or ""),
        user_metadata=_text(raw.get("user_metadata")) or "",
        engine=_text(raw.get("engine")) or "?",
        read_version=read_version,
        appends=raw.get("appends") is True,
        moves=raw.get("moves") is True,
        definition=raw.get("definition") is True,
        seconds=seconds,
        predicate=_predicate(_mapping(raw.get("parameters"))),
        error=_text(raw.get("error")) or "",
        policy=_text(raw.get("on_conflict")) or "",
        **account,
    )


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The runs sorted by version; a failed attempt comes after the version at which it failed."""
    return tuple(sorted(runs, key=lambda r: (r.ended_at + (r.version is None), r.version is None, r.at_ms or 0)))


def _account(ours: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run that come from Rowlock's own record in commitInfo."""
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


def _met(raw: Mapping[str, Any]) -> MetWinner | None:
    version = _count(raw.get("version"), None)
    if version is None:
        return None
    rows_gone, rows_born = _count(raw.get("rows_gone"), 0) or 0, _count(raw.get("rows_born"), 0) or 0
    return MetWinner(
        version=version, operation=_text(raw.get("operation")) or "?", files=_texts(raw.get("files")), columns=_texts(raw.get("columns")),
        rows_gone=rows_gone, rows_born=rows_born, rule=_text(raw.get("rule")) or "",
    )  # fmt: skip


def _overwrote(rows: Iterable[Any]) -> tuple[OverwrittenRows, ...]:
    """The overwritten rows, grouped by winner and outcome."""
    grouped: dict[tuple[int, str], tuple[int, set[str]]] = {}
    for row in map(_mapping, rows):
        version = _count(row.get("version"), None)
        if version is not None:
            count, columns = grouped.get((version, _text(row.get("outcome")) or "?"), (0, set()))
            grouped[version, _text(row.get("outcome")) or "?"] = count + 1, columns | set(_texts(row.get("columns")))
    return tuple(OverwrittenRows(version=v, outcome=outcome, rows=n, columns=tuple(sorted(columns))) for (v, outcome), (n, columns) in sorted(grouped.items()))


def _only_appends(info: Mapping[str, Any], operation: str, parameters: Mapping[str, Any], touched: FileChanges) -> bool:
    if touched.num_removed or touched.changes_definition:
        return False
    if info.get("isBlindAppend") is True:
        return True
    mode = (_text(parameters.get("mode")) or _text(parameters.get("outputMode")) or "").lower()
    return "isBlindAppend" not in info and operation.upper() in _APPENDS and mode == "append"


def _engine(info: Mapping[str, Any]) -> str:
    for name in ("engineInfo", "clientVersion"):
        if engine := _text(info.get(name)):
            return engine
    return "?"


def _writer(record: Mapping[str, Any]) -> Writer | None:
    """The writer that Rowlock's own record names; None if it names none."""
    named = _mapping(record.get("writer"))
    writer = Writer(_text(named.get("application")) or "", _text(named.get("host")) or "", _count(named.get("process"), None))
    return writer if writer != Writer() else None


def writer_of(info: Mapping[str, Any]) -> Writer:
    """Who wrote a commit, by its commitInfo."""
    return _writer(_mapping(info.get("rowlock"))) or _other_writer(info)


def _other_writer(info: Mapping[str, Any]) -> Writer:
    """The writer as other engines name it: a job, a notebook, a user, or the engine alone."""
    job, notebook = _mapping(info.get("job")), _mapping(info.get("notebook"))
    named = (_text(v) for v in (job.get("jobName"), job.get("jobId"), notebook.get("notebookId"), info.get("userName")))
    return Writer(next((n for n in named if n), _engine(info)), _text(info.get("clusterId")) or "")


def _began_ms(record: Mapping[str, Any], at_ms: int | None, seconds: Mapping[str, float]) -> int | None:
    """When a run began: as recorded, else its end less its recorded seconds."""
    if at_ms is None:
        return None
    recorded = _count(record.get("began_ms"), None)
    if recorded is not None and recorded <= at_ms:
        return recorded
    return max(0, at_ms - round(1000 * sum(seconds.values()))) if seconds else None


def _execution(metrics: Mapping[str, Any]) -> dict[str, float]:
    ms = _count(metrics.get("executionTimeMs"), None)
    return {} if ms is None else {"all": ms / 1000}


def _predicate(parameters: Mapping[str, Any]) -> str:
    for name in ("predicate", "mergePredicate", "statement"):
        if text := _text(parameters.get(name)):
            return text[:2000]
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
    """The value if it is a sensible number of seconds, else 0."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e9 else 0.0


def _count(value: Any, default: int | None) -> int | None:
    """The value as a whole number of at least 0, if it is one (as a number, or as text in operationMetrics); else `default`."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e18:
        return int(value)
    return default
