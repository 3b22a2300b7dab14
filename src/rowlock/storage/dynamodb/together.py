"""One put for the next versions of several tables: one TransactWriteItems claims all of them, or none (I1, I2).

    absent?   as `arbiter`, for each table; and the version after the head of each table that was only read must be absent
    temp      the bytes of each commit are put to .tmp, side by side
    claim     one request creates all entries, if each of them and the next entry of each table only read is absent: now it is decided
    copy, complete   as `arbiter`, side by side; anybody finishes them, Spark's S3DynamoDBLogStore too

Whoever asks the arbiter sees all of the versions or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowlock import threads
from rowlock.protocol import names
from rowlock.storage.dynamodb.arbiter import ArbitratedStore
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Entry
from rowlock.storage.store import ObjectStore, PutOutcome, Unknown

MOST_TABLES = 100
"""Items that one TransactWriteItems may have."""
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table that is to be created, or (`data` None) that must not exist: the one after the head of a table that was only read."""

    store: ArbitratedStore
    number: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Nothing was written: these versions (their positions) exist already, or others were at work on them."""

    versions: frozenset[int]


def common_arbiter(stores: Sequence[ObjectStore]) -> list[ArbitratedStore] | None:
    """The stores, if one DynamoDB table in one account arbitrates the commits of all of them; else None."""
    arbitrated = [s for s in stores if isinstance(s, ArbitratedStore)]
    if len(arbitrated) < len(stores) or len({(id(s.entries.client), s.entries.name) for s in arbitrated}) != 1:
        return None
    return arbitrated


def put_all(versions: Sequence[Version]) -> list[PutOutcome | None] | Taken | Unknown:
    """Creates all versions that have bytes, or none, and only if those without are absent.

    Returns an outcome for each version (None where there was nothing to write): Committed; Unknown where the version is decided, and its file
    could not be written yet; Lost where a writer that passed the arbiter by had put its own file there.
    Returns Taken where nothing was written, Unknown where that could not be found out.
    Raises as `ArbitratedStore.put_if_absent` does.
    """
    entries: list[Entry | None] = []
    try:
        entries = threads.side_by_side(_prepared, versions, _THREADS)
        found = frozenset(n for n, entry in enumerate(entries) if entry is None)
        if not found:
            taken = _claimed(versions, [e for e in entries if e is not None])
    except ArbiterUnreachable as e:
        return Unknown(str(e))
    if found or taken:
        for version, entry in zip(versions, entries, strict=True):
            if entry is not None and version.data is not None:
                version.store.discard(entry)
        return Taken(found or taken)
    return threads.side_by_side(lambda pair: _published(*pair), list(zip(versions, entries, strict=True)), _THREADS)


def _prepared(version: Version) -> Entry | None:
    """The entry of a version, its bytes in their temporary place; None where the version's file exists."""
    if version.data is not None:
        return version.store.prepared(version.number, version.data)
    return None if version.store.inner.head(names.commit_key(version.number)) is not None else version.store.new_entry(version.number)


def _claimed(versions: Sequence[Version], entries: Sequence[Entry]) -> frozenset[int]:
    """Claims the entries of all versions; the positions of those that are taken."""
    order = sorted(range(len(versions)), key=lambda n: versions[n].data is None)
    written = [entries[n] for n in order if versions[n].data is not None]
    taken = versions[0].store.entries.claim_all(written, [entries[n] for n in order if versions[n].data is None])
    return frozenset(order[n] for n in taken)


def _published(version: Version, entry: Entry | None) -> PutOutcome | None:
    return None if entry is None or version.data is None else version.store.publish(entry, version.data)
