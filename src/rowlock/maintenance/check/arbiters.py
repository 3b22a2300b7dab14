"""Whether the commits of a table had two arbiters, from the DynamoDB arbiter's entries and temporary files.  Pure.

Certain: an entry whose bytes are not those of the commit file (someone put the file past the arbiter), and
one version with entries under two names.  An entry that is missing proves nothing by itself: entries
expire and may be deleted, so it is a suspicion, and only where an older entry should have gone first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.maintenance.check.finding import Finding, spans
from rowlock.maintenance.check.writers import SeenCommit


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """What an entry says of a version, and what was found where it points.

    `file`: None the commit file is not there, True it holds the entry's bytes, False it holds others.
    `bytes_there`: whether the temporary file is still there; without it `file` is True where there is a file.
    """

    complete: bool
    expire_time_s: int | None
    file: bool | None
    bytes_there: bool


@dataclass(frozen=True, slots=True)
class Arbitration:
    """`entries` by tablePath and version; `temporaries` are the versions that have files below `_delta_log/.tmp`."""

    is_set: bool
    entries: Mapping[str, Mapping[int, SeenEntry]] = field(default_factory=dict)
    temporaries: frozenset[int] = frozenset()


def arbiter_findings(commits: Sequence[SeenCommit], seen: Arbitration, now_s: int) -> list[Finding]:
    if not seen.is_set:
        return list(_not_set(commits, seen))
    entries = {v: e for of_name in seen.entries.values() for v, e in of_name.items()}
    return [*_replaced(entries), *_two_names(seen, now_s), *_unfinished(entries), *_without_entry(commits, entries, now_s)]


def _not_set(commits: Sequence[SeenCommit], seen: Arbitration) -> Iterable[Finding]:
    if seen.temporaries:
        yield Finding(
            "suspicion",
            "arbiter-not-set",
            f"_delta_log/.tmp holds files of a DynamoDB arbiter ({spans(seen.temporaries)}), but none is set here: what is written from here goes past it. Certain is that writers used one; whether they still do is not",
            "Where they do, set AWS_S3_LOCKING_PROVIDER=dynamodb (and DELTA_DYNAMO_TABLE_NAME) before anything is written; else delete _delta_log/.tmp",
            tuple(sorted(seen.temporaries)),
        )


def _replaced(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if found := [v for v, e in sorted(entries.items()) if e.file is False]:
        yield Finding(
            "danger",
            "claimed-version-holds-another-commit",
            f"two arbiters decided {spans(found)}: the entry belongs to one commit, the file holds another's. A writer put it without asking DynamoDB; a Spark job whose commit was replaced was told that it had succeeded",
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
    remedy = "Let all writers spell the table with one scheme; here DELTA_DYNAMO_SCHEME says which"
    if twice:
        yield Finding(
            "danger", "two-names-in-arbiter", f"the table has entries under two names, {listed}: {spans(twice)} had a winner under each", remedy, tuple(twice)
        )
    elif len(live) > 1:
        yield Finding(
            "danger",
            "two-names-in-arbiter",
            f"the table has entries under two names, {listed}, and each name is an arbiter of its own: nothing keeps their writers apart",
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
            f"{spans(lost)} was claimed, and neither its file nor its temporary file is there: nobody can commit past it",
            "Restore the file below _delta_log/.tmp, or delete the entry where its commit is known to be lost",
            tuple(lost),
        )
    if open_ := [v for v, e in sorted(entries.items()) if not e.complete and (e.file is not None or e.bytes_there)]:
        yield Finding(
            "note",
            "commit-to-be-finished",
            f"{spans(open_)}: claimed, and its writer has stopped or is at work; the next writer or reader finishes it",
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
            f"{spans(c.version for c in missing)} (by {engines}) has no entry in DynamoDB, though the older version {first} has one that has not expired. Certain is only that it is not there: "
            "its writer did not ask the arbiter, or keeps its entries for a shorter time (ddb.ttl), or somebody deleted it",
            "See to it that these writers use S3DynamoDBLogStore or AWS_S3_LOCKING_PROVIDER=dynamodb",
            tuple(c.version for c in missing),
        )


def _expired(entry: SeenEntry, now_s: int) -> bool:
    return entry.complete and entry.expire_time_s is not None and entry.expire_time_s <= now_s
