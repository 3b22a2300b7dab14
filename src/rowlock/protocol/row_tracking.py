"""Row tracking: where row ids are stored, and how new files get theirs (I6).

Every row has an id for its whole life.  A new row's id is its file's `baseRowId` plus its position in the file; a
row that was moved or updated keeps its id in a column of the data file that the table's metadata names.  New
files get ids above the high-water mark in the metadata domain `delta.rowTracking`, assigned again for every
put.  Clause "Row Tracking" of the protocol.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import orjson

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from rowlock.protocol.features import writer_features
from rowlock.protocol.properties import is_true

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
ENABLED, SUSPENDED = "delta.enableRowTracking", "delta.rowTrackingSuspended"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
PRESERVED_TAG = "delta.rowTracking.preserved"
_NAME_PREFIXES = {ROW_ID_COLUMN: "_row-id-col-", COMMIT_VERSION_COLUMN: "_row-commit-version-col-"}
_MARK = "rowIdHighWaterMark"
NO_MARK = -1


@dataclass(frozen=True, slots=True)
class MaterializedColumns:
    """The columns of data files that hold preserved row ids and commit versions; null if a row has its file's default."""

    row_id: str
    commit_version: str

    @property
    def names(self) -> tuple[str, str]:
        """(row id column, commit version column)."""
        return self.row_id, self.commit_version


def assigns(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every added file must get row ids: the feature is listed and not suspended."""
    return FEATURE in writer_features(protocol) and not is_true(metadata.configuration, SUSPENDED)


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether row tracking is enabled: rows keep their ids, and readers may query them."""
    return assigns(protocol, metadata) and is_true(metadata.configuration, ENABLED)


def materialized_columns(protocol: Protocol, metadata: Metadata) -> MaterializedColumns | None:
    """The columns in which moved and updated rows keep their ids; None if row tracking is not enabled, or they have no names."""
    ids, versions = (metadata.configuration.get(key) for key in _NAME_PREFIXES)
    return MaterializedColumns(ids, versions) if ids and versions and is_enabled(protocol, metadata) else None


def with_column_names(configuration: Mapping[str, str], new_id: Callable[[], str]) -> dict[str, str]:
    """The properties with names for the materialized columns, if row tracking is on; existing names stay.  `new_id` returns a new UUID."""
    if not is_true(configuration, ENABLED):
        return dict(configuration)
    return {**{key: prefix + new_id() for key, prefix in _NAME_PREFIXES.items()}, **configuration}


def have_same_ids(old: Metadata, protocol: Protocol, metadata: Metadata) -> bool:
    """Whether row ids of an older version with metadata `old` are still those of the table: the feature was not dropped since, and begun anew."""
    now = metadata.configuration.get(ROW_ID_COLUMN)
    return FEATURE in writer_features(protocol) if now is None else now == old.configuration.get(ROW_ID_COLUMN)


def with_column_names_of(metadata: Metadata, head: Metadata, protocol: Protocol, new_id: Callable[[], str]) -> Metadata:
    """The metadata with the names of the materialized columns that the head has, whatever its own are; with new ones where it has none and `protocol` lists the feature.

    The names are new even where row tracking is suspended: by them `have_same_ids` tells that ids of before are no longer the table's.
    """
    new = {key: prefix + new_id() for key, prefix in _NAME_PREFIXES.items()} if FEATURE in writer_features(protocol) else {}
    others = {k: v for k, v in metadata.configuration.items() if k not in _NAME_PREFIXES}
    return replace(metadata, configuration=others | new | {k: v for k, v in head.configuration.items() if k in _NAME_PREFIXES})


def high_water_mark(domains: Mapping[str, DomainMetadata], table: str | None = None) -> int:
    """The highest row id that was ever assigned; NO_MARK if none was.  Raises CorruptLog."""
    found = domains.get(DOMAIN)
    if found is None:
        return NO_MARK
    try:
        return int(orjson.loads(found.configuration)[_MARK])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptLog(f"the metadata domain {DOMAIN} has no readable {_MARK}: {found.configuration!r}", table=table) from e


def mark_domain(mark: int) -> DomainMetadata:
    """The `domainMetadata` action that sets the high-water mark."""
    return DomainMetadata(DOMAIN, orjson.dumps({_MARK: mark}).decode())


def with_row_ids(adds: Iterable[AddFile], *, mark: int, version: int, num_rows: Callable[[AddFile], int]) -> tuple[tuple[AddFile, ...], int]:
    """(adds with row ids, new high-water mark) for commit `version`: adds without row ids get ids above `mark`.

    A file that was committed before keeps its base row id and commit version, since its rows are the same.
    """
    out = []
    for add in adds:
        if add.base_row_id is None:
            add, mark = replace(add, base_row_id=mark + 1), mark + num_rows(add)
        if add.default_row_commit_version is None:
            add = replace(add, default_row_commit_version=version)
        out.append(add)
    return tuple(out), mark
