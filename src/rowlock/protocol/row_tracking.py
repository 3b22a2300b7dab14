"""Row tracking: which rows have ids, where the ids stand, and how new files get theirs (I6).

Every row has an id for life.  A new row's id is its file's `baseRowId` plus its position there; a row
that was moved or updated keeps its id in a column of the data file, whose name the table's metadata
says.  New files take their ids above the high-water mark of the domain `delta.rowTracking`, anew for
every attempt to commit.  Clause "Row Tracking" of the protocol.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import orjson

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from rowlock.protocol.features import writer_features

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
    """The columns of data files that hold what was preserved; null where a row has what its file gives it."""

    row_id: str
    commit_version: str

    @property
    def names(self) -> tuple[str, str]:
        return self.row_id, self.commit_version


def asks_for_tracking(configuration: Mapping[str, str]) -> bool:
    """Whether `delta.enableRowTracking` is on."""
    return configuration.get(ENABLED, "").strip().lower() == "true"


def assigns(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every file that is added must have row ids: the feature is there and not suspended."""
    return FEATURE in writer_features(protocol) and metadata.configuration.get(SUSPENDED, "").strip().lower() != "true"


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether rows keep their ids, and readers may ask for them."""
    return assigns(protocol, metadata) and asks_for_tracking(metadata.configuration)


def materialized_columns(protocol: Protocol, metadata: Metadata) -> MaterializedColumns | None:
    """Where rows that are moved or updated keep their ids; None where the table does not ask for it."""
    if not is_enabled(protocol, metadata):
        return None
    return MaterializedColumns(metadata.configuration[ROW_ID_COLUMN], metadata.configuration[COMMIT_VERSION_COLUMN])


def with_column_names(configuration: Mapping[str, str], new_id: Callable[[], str]) -> dict[str, str]:
    """The properties with names for the materialised columns, where row tracking is on; names that are there stay."""
    if not asks_for_tracking(configuration):
        return dict(configuration)
    return {**{key: prefix + new_id() for key, prefix in _NAME_PREFIXES.items()}, **configuration}


def high_water_mark(domains: Mapping[str, DomainMetadata], table: str | None = None) -> int:
    """The highest row id that was ever given; NO_MARK where none was.  Raises CorruptLog."""
    found = domains.get(DOMAIN)
    if found is None:
        return NO_MARK
    try:
        return int(orjson.loads(found.configuration)[_MARK])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptLog(f"the domain {DOMAIN} does not say its {_MARK}: {found.configuration!r}", table=table) from e


def mark_domain(mark: int) -> DomainMetadata:
    """The action that says the high-water mark."""
    return DomainMetadata(DOMAIN, orjson.dumps({_MARK: mark}).decode())


def with_row_ids(adds: Iterable[AddFile], *, mark: int, version: int, num_rows: Callable[[AddFile], int]) -> tuple[tuple[AddFile, ...], int]:
    """The adds of version `version`, those without row ids given some above `mark`; and the new mark.

    A file that was committed before keeps its base id and its commit version: its rows are the same.
    """
    out = []
    for add in adds:
        if add.base_row_id is None:
            add, mark = replace(add, base_row_id=mark + 1), mark + num_rows(add)
        if add.default_row_commit_version is None:
            add = replace(add, default_row_commit_version=version)
        out.append(add)
    return tuple(out), mark
