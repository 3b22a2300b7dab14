"""The history of a table: its transactions, their overlaps, and the cost of conflicts.  The input of `advice`.

A history consists of runs: commits by any engine, and failed attempts.  All of it is as
recorded by writers; missing and invalid fields are ignored, and nothing here raises.  A history decides no commit (I7).
Pure; `advice.read_history` reads one from a store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rowlock.advice.writers import Fields, Writer, engine_of, own_writer, writer_of
from rowlock.protocol.properties import TableProperties

Outcome = Literal["committed", "conflict", "refused", "unknown", "abandoned"]
"""How a run ended: committed; conflict: a policy raised; refused: the statement fails at the head, such as a second match in
MERGE; unknown: it could not be determined whether the put landed; abandoned: the user's code in the block raised."""
FAILED: tuple[Outcome, ...] = ("conflict", "refused", "unknown", "abandoned")

MAX_OVERLAPPING = 200
"""The most overlapping commits that are examined for each run; the newest ones are representative."""
_APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO", "ADD", "RESTORE")
_CHANGES = ("UPDATE", "DELETE", "MERGE", "TRANSACTION", "OPTIMIZE", "RESTORE", "TRUNCATE", "REORG", "COMPACT")
_CHANGED_ROWS = (
    ("numUpdatedRows", "num_updated_rows"), ("numDeletedRows", "num_deleted_rows"), ("numTargetRowsUpdated", "num_target_rows_updated"),
    ("numTargetRowsDeleted", "num_target_rows_deleted"), ("numTargetRowsInserted", "num_target_rows_inserted"),
)  # fmt: skip
_COPIED_ROWS = (("numCopiedRows", "num_copied_rows"), ("numTargetRowsCopied", "num_target_rows_copied"))
"""Metrics of rows, each by its name in Delta and by delta-rs' own."""


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
    writer: Writer = field(default_factory=Writer)
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

    @property
    def own_loss_s(self) -> float:
        """Seconds that a failed attempt lost; 0 if the user's own code abandoned it, which is not a conflict."""
        return 0.0 if self.outcome == "abandoned" else self.thrown_seconds


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
    target_bytes: int = TableProperties().target_file_bytes


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
    writer, info = writer_of(info), Fields(info)
    ours, parameters, metrics = info.fields("rowlock"), info.fields("operationParameters"), info.fields("operationMetrics")
    operation = info.text("operation") or "?"
    stated = [v for fields, name in ((info, "readVersion"), (ours, "read_version")) if (v := fields.count(name)) is not None and v < version]
    at_ms = info.count("inCommitTimestamp") or info.count("timestamp") or modified_ms
    took_ms = metrics.count("executionTimeMs", "execution_time_ms")
    seconds = ours.seconds() or ({} if took_ms is None else {"all": took_ms / 1000})
    members = ours.value("members")
    return Run(
        version=version,
        ended_at=version - 1,
        operation=operation,
        txn_id=info.text("txnId") or None,
        at_ms=at_ms,
        began_ms=_began_ms(ours, at_ms, seconds),
        writer=writer,
        user_metadata=info.text("userMetadata"),
        engine=engine_of(info),
        read_version=min(stated, default=None),
        appends=_only_appends(info, operation, parameters, touched),
        moves=bool(touched.num_removed or touched.num_added) and not touched.changes_data and not touched.changes_definition,
        definition=touched.changes_definition or not (touched.num_removed or touched.num_added or operation.upper().startswith((*_APPENDS, *_CHANGES))),
        rows_changed=sum(metrics.count(*names) or 0 for names in _CHANGED_ROWS),
        rows_copied=sum(metrics.count(*names) or 0 for names in _COPIED_ROWS),
        seconds=seconds,
        touched=touched,
        predicate=_predicate(parameters),
        group_size=len(members) if isinstance(members, list) and members else 1,
        rerun_of=tuple(t for t in ours.list("rerun_of") if isinstance(t, str)),
        **_account(ours, ours.fields("thrown_away")),
    )


def run_of_attempt(raw: Any) -> Run | None:
    """The run of a failed attempt, from its record (any JSON value); None if it is not such a record."""
    raw = Fields(raw)
    outcome = raw.value("outcome")
    if outcome not in FAILED:
        return None
    account, read_version, at_ms = raw.fields("account"), raw.count("read_version"), raw.count("at_ms")
    seconds = account.seconds()
    return Run(
        version=None,
        ended_at=max(raw.count("head_version") or 0, read_version or 0),
        operation=raw.text("operation") or "?",
        outcome=outcome,
        txn_id=raw.text("txn_id") or None,
        at_ms=at_ms,
        began_ms=_began_ms(raw, at_ms, seconds),
        writer=own_writer(raw) or Writer(raw.text("engine")),
        user_metadata=raw.text("user_metadata"),
        engine=raw.text("engine") or "?",
        read_version=read_version,
        appends=raw.value("appends") is True,
        moves=raw.value("moves") is True,
        definition=raw.value("definition") is True,
        seconds=seconds,
        predicate=_predicate(raw.fields("parameters")),
        error=raw.text("error"),
        policy=raw.text("on_conflict"),
        **_account(account, raw.fields("staged")),
    )


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The runs sorted by version; a failed attempt comes after the version at which it failed."""
    return tuple(sorted(runs, key=lambda r: (r.ended_at + (r.version is None), r.version is None, r.at_ms or 0)))


def _account(account: Fields, thrown: Fields) -> dict[str, Any]:
    """The fields of a run that come from Rowlock's own record, and from that of the work that was lost."""
    return {
        "attempts": max(1, account.count("attempts") or 1),
        "rounds": account.count("rounds") or 0,
        "rows_rebased": account.count("rows_rebased") or 0,
        "bytes_rebased": account.count("bytes_rebased") or 0,
        "met": tuple(_met(c, version) for c in map(Fields, account.list("conflicts")) if (version := c.count("version")) is not None),
        "overwrote": _overwrote(map(Fields, account.list("overwritten"))),
        "thrown_rows": thrown.count("rows") or 0,
        "thrown_bytes": thrown.count("size_bytes") or 0,
        "thrown_seconds": thrown.number("seconds"),
    }


def _met(conflict: Fields, version: int) -> MetWinner:
    return MetWinner(
        version=version, operation=conflict.text("operation") or "?", files=conflict.texts("files"), columns=conflict.texts("columns"),
        rows_gone=conflict.count("rows_gone") or 0, rows_born=conflict.count("rows_born") or 0, rule=conflict.text("rule"),
    )  # fmt: skip


def _overwrote(rows: Iterable[Fields]) -> tuple[OverwrittenRows, ...]:
    """The overwritten rows, grouped by winner and outcome."""
    grouped: dict[tuple[int, str], list[Fields]] = defaultdict(list)
    for row in rows:
        if (version := row.count("version")) is not None:
            grouped[version, row.text("outcome") or "?"].append(row)
    return tuple(
        OverwrittenRows(version=version, outcome=outcome, rows=len(same), columns=tuple(sorted({c for row in same for c in row.texts("columns")})))
        for (version, outcome), same in sorted(grouped.items())
    )


def _only_appends(info: Fields, operation: str, parameters: Fields, touched: FileChanges) -> bool:
    if touched.num_removed or touched.changes_definition:
        return False
    return info.value("isBlindAppend") is True or (
        "isBlindAppend" not in info and operation.upper() in _APPENDS and parameters.text("mode", "outputMode").lower() == "append"
    )


def _predicate(parameters: Fields) -> str:
    return parameters.text("predicate", "mergePredicate", "statement")[:2000]


def _began_ms(record: Fields, at_ms: int | None, seconds: Mapping[str, float]) -> int | None:
    """When a run began: as recorded, else its end less its recorded seconds."""
    if at_ms is None:
        return None
    recorded = record.count("began_ms")
    if recorded is not None and recorded <= at_ms:
        return recorded
    return max(0, at_ms - round(1000 * sum(seconds.values()))) if seconds else None
