"""Finds commits that bypassed the DynamoDB arbiter, by comparing its entries and temporary files with the log.

Certain: an entry whose bytes differ from those of the commit file (a writer put the file without the arbiter), and one
version with entries under two spellings of the table's path.  A missing entry proves nothing by itself, since entries
expire and may be deleted; it is a suspicion, and only if an older entry exists that should have expired first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.maintenance.check.commits import SeenCommit
from rowlock.maintenance.check.finding import Finding, Level, finding, spans
from rowlock.protocol import names
from rowlock.storage.dynamodb import ArbitratedStore, Entry
from rowlock.storage.dynamodb.entries import spellings
from rowlock.storage.store import NotFound, ObjectStore

_TEMPORARY = re.compile(r"/\.tmp/(\d{20})\.json\.[^/]+$")


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
    """The state of a DynamoDB arbiter.

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
        text = f"_delta_log/.tmp holds files of a DynamoDB arbiter ({spans(seen.temporaries)}), but none is set here: commits from here bypass it. It is certain that writers used one, not that they still do"
        return [finding("arbiter-not-set", text, sorted(seen.temporaries))] if seen.temporaries else []
    entries = {v: e for of_name in seen.entries.values() for v, e in of_name.items()}
    return [*_replaced_commits(entries), *_two_names(seen, now_s), *_unfinished(entries), *_without_entry(commits, entries, now_s)]


def _replaced_commits(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if replaced := [v for v, e in sorted(entries.items()) if e.file is False]:
        text = f"the entry in DynamoDB and the commit file belong to different commits ({spans(replaced)}): a writer put the file without asking DynamoDB. A Spark job whose commit was replaced got a success"
        yield finding("claimed-version-holds-another-commit", text, replaced)


def _two_names(seen: Arbitration, now_s: int) -> Iterable[Finding]:
    used = {name: of_name for name, of_name in seen.entries.items() if of_name}
    if len(used) < 2:
        return
    twice = sorted(set.intersection(*(set(of_name) for of_name in used.values())))
    live = [name for name, of_name in used.items() if any(not _expired(e, now_s) for e in of_name.values())]
    if twice:
        what = f", and {spans(twice)} was committed under each of them"
    elif len(live) > 1:
        what = ", and nothing arbitrates between the writers of one name and those of the other"
    else:
        what = "; those of one have expired, so its writers may have been moved to the other"
    listed = " and ".join(f"{name} ({spans(of_name)})" for name, of_name in sorted(used.items()))
    level: Level | None = None if twice or len(live) > 1 else "suspicion"
    yield finding("two-names-in-arbiter", f"the table has entries under two names, {listed}{what}", twice, level=level)


def _unfinished(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if lost := [v for v, e in sorted(entries.items()) if not e.complete and e.file is None and not e.bytes_there]:
        text = f"{spans(lost)} has an entry in DynamoDB, but neither its commit file nor its temporary file exists: no writer can commit after it"
        yield finding("claimed-bytes-gone", text, lost)
    if open_ := [v for v, e in sorted(entries.items()) if not e.complete and (e.file is not None or e.bytes_there)]:
        text = f"{spans(open_)} has an entry in DynamoDB and is not complete: its writer is at work or has stopped; the next writer or reader completes it"
        yield finding("commit-to-be-finished", text, open_)


def _without_entry(commits: Sequence[SeenCommit], entries: Mapping[int, SeenEntry], now_s: int) -> Iterable[Finding]:
    older = [v for v, e in entries.items() if e.complete and not _expired(e, now_s)]
    if not older:
        return
    first = min(older)
    if missing := {c.version: c.engine for c in commits if c.version > first and c.version not in entries}:
        text = (
            f"{spans(missing)} (by {', '.join(sorted(set(missing.values())))}) has no entry in DynamoDB, though the older version {first} has one that has not expired. "
            "It is only certain that the entry is missing: its writer did not ask the arbiter, or its entries expire sooner (ddb.ttl), or it was deleted"
        )
        yield finding("committed-past-arbiter", text, missing)


def _expired(entry: SeenEntry, now_s: int) -> bool:
    return entry.complete and entry.expire_time_s is not None and entry.expire_time_s <= now_s


def read_arbitration(store: ObjectStore, arbiter: ArbitratedStore | None, most: int) -> Arbitration:
    """Reads the arbiter's entries for the newest `most` versions and the names of its temporary files."""
    temporary = {meta.key: int(match[1]) for meta in store.list(f"{names.LOG_DIRECTORY}/.tmp") if (match := _TEMPORARY.search(meta.key))}
    versions = frozenset(temporary.values())
    if arbiter is None:
        return Arbitration(False, temporaries=versions)
    entries: dict[str, dict[int, SeenEntry]] = {}
    for name in spellings(store.root):
        of_name = {file.version: entry for entry in arbiter.entries.all(name) if (file := names.parse(entry.file_name)) is not None}
        entries[name] = {v: _seen(store, of_name[v], temporary.keys()) for v in sorted(of_name)[-most:]}
    return Arbitration(True, entries, versions)


def _seen(store: ObjectStore, entry: Entry, temporary: Collection[str]) -> SeenEntry:
    """Compares an entry of the DynamoDB arbiter with its commit file, and with the temporary file that it names."""
    bytes_there = entry.temp_key in temporary
    try:
        same_bytes: bool | None = store.get(entry.key) == store.get(entry.temp_key) if bytes_there else store.head(entry.key) is not None or None
    except NotFound:
        same_bytes = None
    return SeenEntry(entry.complete, entry.expire_time_s, same_bytes, bytes_there)
