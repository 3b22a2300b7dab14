"""The findings of a check as values, each with a level of certainty.  Pure.

damage      certain: something that the log names is missing, or contradicts the log
danger      certain: the table is, or was, written in a way that loses commits
suspicion   possible but not proven by the evidence; the text gives the other explanations
note        worth knowing; nothing is wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rowlock.protocol.features import Neighbour

Level = Literal["damage", "danger", "suspicion", "note"]
LEVELS: tuple[Level, ...] = ("damage", "danger", "suspicion", "note")
SHOWN = 20
_NAMED = 3
_BRING_BACK = "Restore it from a backup or an older object version, or RESTORE the table to a version that does not need it"
_LOOK_FOR = "Look for the files in a backup or in older object versions of the store"
_WRITTEN_ANEW = "rowlock repair writes it anew where the commits before it are still there; else look for it in a backup or in older object versions"
KINDS: dict[str, tuple[Level, str]] = {
    "gap-in-log": ("damage", f"{_LOOK_FOR}. Nothing can be read past the gap until they are back"),
    "commit-does-not-read": ("damage", _LOOK_FOR),
    "log-does-not-read": ("damage", ""),
    "checkpoint-does-not-read": ("damage", _WRITTEN_ANEW),
    "sidecar-missing": ("damage", _WRITTEN_ANEW),
    "checkpoint-wrong": ("damage", "rowlock repair writes a checkpoint anew where the commits before it are still there"),
    "checksum-wrong": ("damage", "rowlock repair writes them anew: rows come from the log, which counts"),
    "file-missing": ("damage", _BRING_BACK),
    "file-of-another-size": ("damage", _BRING_BACK),
    "file-does-not-read": ("damage", _BRING_BACK),
    "vector-missing": ("damage", _BRING_BACK),
    "vector-damaged": ("damage", _BRING_BACK),
    "statistics-lie": ("damage", "Rewrite the files (OPTIMIZE, or an overwrite), and find out which writer wrote them"),
    "columns-by-other-names": (
        "damage",
        "Read the files by themselves (spark.read.parquet), append their rows, and delete the rows that are null in every column. Write such a table with engines that know column mapping",
    ),
    "contents-contradict-log": ("damage", "rowlock repair adds the files again with right statistics and counts; no row is touched"),
    "file-lives-twice": ("damage", "RESTORE the table to the version before, and look at what wrote that version"),
    "rows-in-another-partition": ("damage", "Compare this partition with the version before (time travel), and rewrite its rows"),
    "row-ids-missing": ("damage", "DeltaTable.setProperties with delta.enableRowTracking gives them, after it was switched off"),
    "row-ids-doubled": ("damage", "RESTORE the table to a version before, or rewrite its rows into a new table: which row had an id first is not known"),
    "row-id-mark-low": ("damage", "rowlock repair raises it"),
    "feed-contradicts-versions": ("damage", "Read the versions themselves (time travel) instead of the feed there; the table's rows are not concerned"),
    "claimed-bytes-gone": ("damage", "Restore the file below _delta_log/.tmp, or delete the entry where its commit is known to be lost"),
    "claimed-version-holds-another-commit": (
        "danger",
        "Let every writer use S3DynamoDBLogStore (Spark) or AWS_S3_LOCKING_PROVIDER=dynamodb (Rowlock), with the same table, region and scheme. What the replaced commit held is still in _delta_log/.tmp",
    ),
    "two-names-in-arbiter": ("danger", "Let all writers use the same URL scheme for the table; for Rowlock set DELTA_DYNAMO_SCHEME"),
    "version-committed-twice": (
        "danger",
        "Let all writers commit through one arbiter that creates a version only once. Compare the lost writers' own logs with the table",
    ),
    "arbiter-not-set": (
        "suspicion",
        "Where they do, set AWS_S3_LOCKING_PROVIDER=dynamodb (and DELTA_DYNAMO_TABLE_NAME) before anything is written; else delete _delta_log/.tmp",
    ),
    "committed-past-arbiter": ("suspicion", "See to it that these writers use S3DynamoDBLogStore or AWS_S3_LOCKING_PROVIDER=dynamodb"),
    "delta-spark-on-local-disk": ("suspicion", "Write with delta-spark only while no other writer is active, or put the table on a store with an arbiter"),
    "delta-spark-without-arbiter": (
        "suspicion",
        "Where Spark uses S3DynamoDBLogStore, set AWS_S3_LOCKING_PROVIDER=dynamodb here; else write with Spark only while no other writer is active",
    ),
    "files-not-examined": ("suspicion", "Give access to the tables that this shallow clone names files of, and check again"),
    "gap-in-history": ("note", ""),
    "checkpoint-not-whole": ("note", ""),
    "hint-leads-nowhere": ("note", ""),
    "versions-not-opened": ("note", ""),
    "feeds-not-compared": ("note", ""),
    "columns-not-compared": ("note", ""),
    "commit-to-be-finished": ("note", ""),
    "transaction-open": ("note", "The next reader or writer of Rowlock settles it, and rowlock settle does; other engines do not see it until then"),
    "cannot-be-read-here": ("note", ""),
    "cannot-be-written-here": ("note", ""),
    "files-not-in-log": ("note", "VACUUM deletes those that are older than the retention"),
    "vectors-in-log": (
        "note",
        "Where delta-spark's VACUUM is used, run OPTIMIZE or REORG TABLE ... APPLY (PURGE), or vacuum with Rowlock",
    ),
}
"""The kinds of findings by code, which is stable for programs: level and remedy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.  `code` is stable, for programs; `versions` and `files` are complete, though the text may name only some of them."""

    level: Level
    code: str
    text: str
    remedy: str = ""
    versions: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


def finding(code: str, text: str, versions: Iterable[int] = (), files: Iterable[str] = (), *, level: Level | None = None) -> Finding:
    """A finding of a kind; `level` if this one is less certain than its kind."""
    usual, remedy = KINDS[code]
    return Finding(level or usual, code, text, remedy, tuple(versions), tuple(files))


def of_files(code: str, what: str, problems: Sequence[tuple[str, str]]) -> list[Finding]:
    """One finding about files, each with its problem; none without files."""
    more = f" and {len(problems) - _NAMED:,} more" if len(problems) > _NAMED else ""
    named = ", ".join(f"{path} ({why})" if why else path for path, why in problems[:_NAMED]) + more
    return [finding(code, f"{what} ({len(problems):,}): {named}", files=(path for path, _ in problems))] if problems else []


def of_versions(code: str, what: str, why: Mapping[int, object], files: Iterable[str] = ()) -> list[Finding]:
    """One finding about versions, each with its problem; none without versions."""
    return [finding(code, f"{what}: {spans(why)}. The first: {next(iter(why.values()))}", why, files)] if why else []


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    version     the table's newest version; None if no snapshot could be built
    findings    the most serious first
    neighbours  the other engines, and whether each may write this table beside Rowlock
    looked_at   how many commits, files, footers and deletion vectors were examined
    """

    table: str
    version: int | None
    findings: tuple[Finding, ...]
    neighbours: tuple[Neighbour, ...] = ()
    looked_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """True unless there is damage or danger, the levels that are certain."""
        return not any(f.level in ("damage", "danger") for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values for JSON, the most serious findings first."""
        return {
            "table": self.table,
            "version": self.version,
            "sound": self.is_sound,
            "findings": [asdict(f) for f in self.findings],
            "neighbours": [asdict(n) for n in self.neighbours],
            "looked_at": dict(self.looked_at),
        }


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings sorted by level, the most serious first; within a level in their order."""
    return tuple(sorted(findings, key=lambda f: LEVELS.index(f.level)))


def spans(versions: Iterable[int]) -> str:
    """Version numbers as readable text: `version 3`, `versions 1 to 4, 7`."""
    out: list[tuple[int, int]] = []
    for v in sorted(set(versions)):
        if out and v == out[-1][1] + 1:
            out[-1] = out[-1][0], v
        else:
            out.append((v, v))
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in out[:SHOWN]]
    if len(out) > SHOWN:
        texts.append(f"and {len(out) - SHOWN} more places")
    return f"version{'' if len(out) == 1 and out[0][0] == out[0][1] else 's'} {', '.join(texts)}"
