"""Finds commits that bypassed the DynamoDB arbiter, by comparing its entries and temporary files with the log.  Pure.

Certain: an entry whose bytes differ from those of the commit file (a writer put the file without the arbiter), and one
version with entries under two spellings of the table's path.  A missing entry proves nothing by itself, since entries
expire and may be deleted; it is a suspicion, and only if an older entry exists that should have expired first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.maintenance.check.finding import Finding, spans
from rowlock.maintenance.check.writers import SeenCommit


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """One version's entry in DynamoDB, compared with the files that it names.

    complete       the entry says that the commit file was written
    expire_time_s  when DynamoDB may delete the entry, in seconds since 1970; None: never
    file           None: there is no commit file; True: it holds the entry's bytes; False: it holds other bytes
    bytes_there    whether the temporary file still exists; without it nothing can be compared, and `file` is True if there is a file
    """

    complete: bool
    expire_time_s: int | None
    file: bool | None
    bytes_there: bool


@dataclass(frozen=True, slots=True)
class Arbitration:
    """What was found of a DynamoDB arbiter.

    is_set       whether this process is set up to use one
    entries      by the spelling of the table's path (tablePath), and by version
    temporaries  the versions that have temporary files in `_delta_log/.tmp`
    """

    is_set: bool
    entries: Mapping[str, Mapping[int, SeenEntry]] = field(default_factory=dict)
    temporaries: frozenset[int] = frozenset()


def arbiter_findings(commits: Sequence[SeenCommit], seen: Arbitration, now_s: int) -> list[Finding]:
    """Findings about versions that were committed without the arbiter, under two names, or not completely."""
    if not seen.is_set:
        return list(_arbiter_not_set(commits, seen))
    entries = {v: e for of_name in seen.entries.values() for v, e in of_name.items()}
    return [*_replaced_commits(entries), *_two_names(seen, now_s), *_unfinished(entries), *_without_entry(commits, entries, now_s)]


def _arbiter_not_set(commits: Sequence[SeenCommit], seen: Arbitration) -> Iterable[Finding]:
    if seen.temporaries:
        yield Finding(
            "suspicion",
            "arbiter-not-set",
            f"_delta_log/.tmp holds files of a DynamoDB arbiter ({spans(seen.temporaries)}), but none is set here: what is written from here bypasses it. It is certain that writers used one, not that they still do",
            "Where they do, set AWS_S3_LOCKING_PROVIDER=dynamodb (and DELTA_DYNAMO_TABLE_NAME) before anything is written; else delete _delta_log/.tmp",
            tuple(sorted(seen.temporaries)),
        )


def _replaced_commits(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if found := [v for v, e in sorted(entries.items()) if e.file is False]:
        yield Finding(
            "danger",
            "claimed-version-holds-another-commit",
            f"the entry in DynamoDB and the commit file belong to different commits ({spans(found)}): a writer put the file without asking DynamoDB. A Spark job whose commit was replaced was told that it had succeeded",
            "Let every writer use S3DynamoDBLogStore (Spark) or AWS_S3_LOCKING_PROVIDER=dynamodb (Rowlock), with the same table, region and scheme. What the replaced commit held is still in _delta_log/.tmp",
            tuple(found),
        )


def _two_names(seen: Arbitration, now_s: int) -> Iterable[Finding]:
    used = {name: of_name for name, of_name in seen.entries.items() if of_name}
    if len(used) < 2:
        return
    twice = sorted(set.intersection(*(set(of_name) for of_name in used.values())))
    listed = " and ".join(f"{name} ({spans(of_name)})" for name, of_name in sorted(used.items()))
    live = [name for name, of_name in used.items() if any(not _expired(e, now_s) for e in of_name.values())]
    remedy = "Let all writers use the same URL scheme for the table; for Rowlock set DELTA_DYNAMO_SCHEME"
    if twice:
        yield Finding(
            "danger",
            "two-names-in-arbiter",
            f"the table has entries under two names, {listed}, and {spans(twice)} was committed under each of them",
            remedy,
            tuple(twice),
        )
    elif len(live) > 1:
        yield Finding(
            "danger",
            "two-names-in-arbiter",
            f"the table has entries under two names, {listed}, and nothing arbitrates between the writers of one name and those of the other",
            remedy,
        )
    else:
        yield Finding(
            "suspicion",
            "two-names-in-arbiter",
            f"the table has entries under two names, {listed}; those of one have expired, so its writers may have been moved to the other",
            remedy,
        )


def _unfinished(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if lost := [v for v, e in sorted(entries.items()) if not e.complete and e.file is None and not e.bytes_there]:
        yield Finding(
            "damage",
            "claimed-bytes-gone",
            f"{spans(lost)} has an entry in DynamoDB, but neither its commit file nor its temporary file exists: nobody can commit after it",
            "Restore the file below _delta_log/.tmp, or delete the entry where its commit is known to be lost",
            tuple(lost),
        )
    if open_ := [v for v, e in sorted(entries.items()) if not e.complete and (e.file is not None or e.bytes_there)]:
        yield Finding(
            "note",
            "commit-to-be-finished",
            f"{spans(open_)} has an entry in DynamoDB and is not complete: its writer is at work or has stopped; the next writer or reader completes it",
            versions=tuple(open_),
        )


def _without_entry(commits: Sequence[SeenCommit], entries: Mapping[int, SeenEntry], now_s: int) -> Iterable[Finding]:
    older = [v for v, e in entries.items() if e.complete and not _expired(e, now_s)]
    if not older:
        return
    first = min(older)
    missing = [c for c in commits if c.version > first and c.version not in entries]
    if missing:
        engines = ", ".join(sorted({c.engine for c in missing}))
        yield Finding(
            "suspicion",
            "committed-past-arbiter",
            f"{spans(c.version for c in missing)} (by {engines}) has no entry in DynamoDB, though the older version {first} has one that has not expired. It is only certain that the entry is missing: "
            "its writer did not ask the arbiter, or keeps its entries for a shorter time (ddb.ttl), or somebody deleted it",
            "See to it that these writers use S3DynamoDBLogStore or AWS_S3_LOCKING_PROVIDER=dynamodb",
            tuple(c.version for c in missing),
        )


def _expired(entry: SeenEntry, now_s: int) -> bool:
    return entry.complete and entry.expire_time_s is not None and entry.expire_time_s <= now_s
