"""A conflict as a value: what a winner did to a transaction, what it cost, and what to do about it.

The same value goes into a receipt (for a conflict that a rebase resolved) and into an error (for one that it did
not, with the rule that it violated), and is rendered as text for log files.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rowlock import display, exceptions
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.protocol.actions import Commit

MAX_SAMPLES = 5
MAX_FILES = 20
_SHOWN_FILES = 4
_FILE_WIDTH = 48
_VALUE_WIDTH = 40
_TABLE_WIDTH = 100
_SETTLED = "Another commit changed what this transaction works on; a rebase settled it."

ERRORS: Mapping[str, type[DeltaConcurrentModificationException]] = {
    "protocol": exceptions.ProtocolChangedException,
    "metadata": exceptions.MetadataChangedException,
    "another table": exceptions.MetadataChangedException,
    "rewritten log": exceptions.ConcurrentWriteException,
    "domain": exceptions.ConcurrentTransactionException,
    "application": exceptions.ConcurrentTransactionException,
    "added files": exceptions.ConcurrentAppendException,
    "removed files": exceptions.ConcurrentDeleteReadException,
    "removed by both": exceptions.ConcurrentDeleteDeleteException,
    "rows added": exceptions.ConcurrentAppendException,
    "rows changed by both": exceptions.ConcurrentDeleteDeleteException,
    "rows read": exceptions.ConcurrentDeleteReadException,
    "rows added to a read": exceptions.ConcurrentAppendException,
}
"""The exception class for each rule, with Delta's names (see `rowlock.exceptions`)."""

WHAT: Mapping[str, str] = {
    "protocol": "Another commit changed what writers of this table must support.",
    "metadata": "Another commit changed the table's schema, partitioning or properties.",
    "another table": "The table was created again while this transaction was staged: there is another table at its path now.",
    "rewritten log": "The log of this table was rewritten while this transaction was staged: versions that it had read were replaced or are gone.",
    "domain": "Another commit changed the same metadata domain.",
    "application": "Another commit used the same application id.",
    "added files": "Another commit added files where this transaction had read.",
    "removed files": "Another commit removed files that this transaction had read.",
    "removed by both": "Another commit changed the same files.",
    "rows added": "Another commit added rows that this transaction's statement matches.",
    "rows changed by both": "Another commit changed the same rows.",
    "rows read": "Another commit changed rows that this transaction had read.",
    "rows added to a read": "Another commit added rows to what this transaction had read.",
}
REPAIRABLE = ("added files", "removed files", "removed by both", "rows added", "rows changed by both")
"""The rules whose conflicts a rebase would have settled."""
_REPAIR = "Run the statement again, or set rowlock.onConflict=repair, which redoes only what the other commit changed."
_RERUN = "Run it again; given as a function to rowlock.run(table, fn) it runs again by itself."
REMEDIES: Mapping[str, str] = (
    {
        "protocol": "Run the statement again: it will see the new protocol.",
        "metadata": "Run the statement again: it will see the new schema and properties.",
        "another table": "Look at the table that is there now; run the statement again if it is meant for that one.",
        "rewritten log": "Look at what is there now, and run it again. Let only writers that put if absent commit to this table, or use a store with an arbiter.",
        "domain": "Read the domain again and decide whether the change still applies.",
        "application": "Let only one writer at a time use an application id.",
    }
    | dict.fromkeys(REPAIRABLE, _REPAIR)
    | dict.fromkeys(("rows read", "rows added to a read"), _RERUN)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An amount of work: rows, their size in bytes, and the seconds spent on them."""

    rows: int = 0
    size_bytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{display.count(self.rows, 'row')}, {display.size(self.size_bytes)}, {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class SupersededRow:
    """One row that a lockless commit and a winner both changed, as recorded by the later of the two.

    outcome   `cells`: our cells replaced those that the winner had set; `row`: we deleted a row that the winner had
              changed; `dropped`: our change of the row was dropped, for the reason `why`
    columns   the columns concerned: cells that we replaced, the winner's cells that are gone, or our cells that were dropped
    version   the winner's version
    """

    row_id: int
    outcome: Literal["cells", "row", "dropped"]
    columns: tuple[str, ...]
    version: int | None
    why: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Conflict:
    """A commit of others (the winner) that mattered to a transaction: what it did, what that cost, and what to do about it.

    It is in a receipt where a rebase settled it, and in an error's `conflict` where it was raised.

    Attributes:
        version: The winner's version.
        operation: The winner's operation, as its commit says; None where it says nothing.
        timestamp_ms: When the winner committed, in milliseconds since the epoch, by its own clock.
        txn_id: The winner's `txnId`.
        files: Paths that both touched, at most 20.
        rows_gone: How many of the transaction's rows the winner deleted or replaced.
        rows_born: How many rows the winner brought where the transaction reads.
        rule: Which rule raised it as an error (`rows read`, `metadata`, ...); empty where a rebase settled it.
        what: The same as a sentence.
        rows: Up to 5 of the rows concerned, as the winner found them.
        columns: Columns that both set in one row, or what the winner changed of the table's definition.
        staged: What the transaction had done when it met the winner.
        thrown_away: What of that was lost: all, since a transaction that ends with an error keeps nothing.
        remedy: What to do about it.

    Examples:
        >>> rowlock.Conflict(version=3, operation="DELETE", rows_gone=2)
        <Conflict with version 3, DELETE: 2 rows gone, 0 born; settled by a rebase>
    """

    version: int
    operation: str | None = None
    timestamp_ms: int | None = None
    txn_id: str | None = None
    files: tuple[str, ...] = ()
    rows_gone: int = 0
    rows_born: int = 0
    rule: str = ""
    what: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    columns: tuple[str, ...] = ()
    staged: Work | None = None
    thrown_away: Work | None = None
    remedy: str = ""

    def with_work(self, staged: Work) -> Conflict:
        """The conflict with what the transaction had done when it met the winner, all of it thrown away.  Needs no Spark.

        Args:
            staged: All that it had done.

        Returns:
            A copy.

        Examples:
            >>> from rowlock.conflict.value import Work
            >>> print(rowlock.Conflict(version=3).with_work(Work(rows=5, size_bytes=2000, seconds=1.5)).thrown_away)
            5 rows, 2.0 kB, 1.5 s
        """
        return replace(self, staged=staged, thrown_away=staged)

    def record(self) -> dict[str, Any]:
        """The conflict as plain JSON values for a commit: who, what and how much, and no values out of rows.  Needs no Spark.

        Returns:
            A dict; empty fields are left out.

        Examples:
            >>> rowlock.Conflict(version=3, operation="DELETE").record()["operation"]
            'DELETE'
        """
        always, never = ("operation", "timestamp_ms", "txn_id", "files"), ("rows", "what", "remedy")
        known = {k: v for k, v in asdict(self).items() if k in always or (k not in never and v not in (None, (), ""))}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}

    def exception(self, table: str) -> DeltaConcurrentModificationException:
        """The error that this conflict is under its rule.  Needs no Spark.

        Args:
            table: The table's path.

        Returns:
            An error that is not raised yet.

        Raises:
            KeyError: A rebase settled the conflict, so no rule names it.

        Examples:
            >>> rowlock.Conflict(version=3, rule="metadata", what="It changed.").exception("/lake/sales")
            MetadataChangedException(...)
        """
        return ERRORS[self.rule](self.text(table), table=table, conflict=self)

    def text(self, table: str) -> str:
        """The conflict as aligned lines: one sentence, then the facts, then what to do.  Needs no Spark.

        Args:
            table: The table's path, which is shown among the facts.

        Returns:
            Text of 2 to about 20 lines.  Times are UTC.

        Examples:
            >>> print(rowlock.Conflict(version=3, operation="DELETE", what="Another commit changed the same rows.").text("/lake/sales"))
            Another commit changed the same rows.
              table         /lake/sales
              other commit  version 3, DELETE
        """
        return display.aligned(self.what, [("table", [_tail(table, _TABLE_WIDTH)]), *self._facts()])

    def __repr__(self) -> str:
        return f"<Conflict with {self._winner()}: {self._outcome()}>"

    def __str__(self) -> str:
        return display.aligned(self.what or _SETTLED, self._facts())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html_table(self.what or _SETTLED, self._facts())

    def _winner(self) -> str:
        """The winner as its version and operation."""
        return f"version {self.version}" + (f", {self.operation}" if self.operation else "")

    def _outcome(self) -> str:
        """The rule that makes an error of the conflict, or how many rows a rebase dealt with."""
        return self.rule or f"{display.count(self.rows_gone, 'row')} gone, {self.rows_born:,} born; settled by a rebase"

    def _facts(self) -> display.Facts:
        """The lines below the sentence, by name."""
        at = f", at {_utc(self.timestamp_ms)}" if self.timestamp_ms is not None else ""
        changed = not self.rule and (self.rows_gone or self.rows_born)
        return [
            ("other commit", [self._winner() + at]),
            ("its txnId", [self.txn_id] if self.txn_id else []),
            ("files", _some([_short_file(f) for f in self.files], _SHOWN_FILES)),
            ("rows", [_row(r) for r in self.rows[:MAX_SAMPLES]]),
            ("rows it changed", [f"{self.rows_gone:,} of ours gone, {self.rows_born:,} born where the transaction reads"] if changed else []),
            ("changed" if self.rule == "metadata" else "set by both", [", ".join(self.columns)] if self.columns else []),
            ("thrown away", [str(self.thrown_away)] if self.thrown_away else []),
            ("what to do", [self.remedy] if self.remedy else []),
        ]


def conflict_with(
    winner: Commit,
    rule: str = "",
    *,
    files: Iterable[str] = (),
    rows_gone: int = 0,
    rows_born: int = 0,
    rows: Sequence[Mapping[str, Any]] = (),
    columns: Iterable[str] = (),
    what: str | None = None,
    remedy: str | None = None,
) -> Conflict:
    """The conflict of `rule` with a winner, or one that a rebase settled; `what` and `remedy` replace the rule's own texts."""
    info = winner.info
    return Conflict(
        winner.version,
        info.operation if info else None,
        info.timestamp_ms if info else None,
        winner.txn_id,
        tuple(files)[:MAX_FILES],
        rows_gone,
        rows_born,
        rule,
        what or WHAT.get(rule, ""),
        rows=tuple(rows)[:MAX_SAMPLES],
        columns=tuple(columns),
        remedy=remedy or REMEDIES.get(rule, ""),
    )


def _utc(timestamp_ms: int) -> str:
    return f"{timestamp_ms} ms" if (at := display.utc(timestamp_ms)) is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _some(items: Sequence[str], limit: int) -> list[str]:
    more = len(items) - limit
    return [*items[:limit], f"and {more} more"] if more > 0 else list(items)


def _short_file(path: str) -> str:
    """A data file's name with its partition folders; the middle of a long name is left out."""
    folder, slash, name = path.rpartition("/")
    if len(name) > _FILE_WIDTH:
        name = f"{name[:26]}…{name[-(_FILE_WIDTH - 27) :]}"
    return f"{_tail(folder, _FILE_WIDTH)}{slash}{name}"


def _tail(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[-(width - 1) :]}"


def _row(row: Mapping[str, Any]) -> str:
    parts = []
    for name, value in row.items():
        text = "null" if value is None else " ".join(str(value).split())
        parts.append(f"{name}={text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + '…'}")
    return ", ".join(parts)
