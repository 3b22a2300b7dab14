"""The row ids of a commit (I6): those of its new files, and those that its rows keep.

A row's id belongs to its address, so provenance alone says which id a derived row keeps; a data file
is looked into only where it holds ids that its own rows brought with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rowlock.boundary.effects import Provenance, RowBlock, fresh_statement
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import row_tracking
from rowlock.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from rowlock.protocol.row_tracking import MaterializedColumns

Numbers = npt.NDArray[np.int64]
NONE = -1
"""In an array of ids or commit versions: the row has none of its own."""

Materialized = Callable[[AddFile, Numbers], tuple[Numbers, Numbers]]
"""What a data file holds for the rows at some positions: (ids, commit versions), NONE where it holds none."""


@dataclass(frozen=True, slots=True)
class Identities:
    """For each of some rows its id and its commit version; NONE for a row that is new, or not committed yet."""

    ids: Numbers
    commit_versions: Numbers


def columns_of(snapshot: Snapshot) -> MaterializedColumns | None:
    """The columns in which rows of this table keep ids and commit versions; None where they are not kept."""
    return row_tracking.materialized_columns(snapshot.protocol, snapshot.metadata)


def no_identities(num_rows: int) -> Identities:
    return Identities(np.full(num_rows, NONE, np.int64), np.full(num_rows, NONE, np.int64))


def joined(parts: Sequence[Identities | None]) -> Identities | None:
    """Those of several lots of rows, one after the other; None where rows are not tracked."""
    known = [p for p in parts if p is not None]
    return Identities(np.concatenate([p.ids for p in known]), np.concatenate([p.commit_versions for p in known])) if known else None


def identities(origin: Provenance, files: Mapping[str, AddFile], materialized: Materialized) -> Identities:
    """Who the rows at these addresses are.  `files` has every file that an address names."""
    out = no_identities(len(origin.file))
    for path, at in origin.by_path():
        if fresh_statement(path) is not None:
            continue
        file, positions = files[path], origin.position[at]
        ids, versions = materialized(file, positions)
        if file.base_row_id is not None:
            ids = np.where(ids == NONE, file.base_row_id + positions, ids)
        if file.default_row_commit_version is not None:
            versions = np.where(versions == NONE, file.default_row_commit_version, versions)
        out.ids[at], out.commit_versions[at] = ids, versions
    return out


def kept_by(block: RowBlock, snapshot: Snapshot, materialized: Materialized) -> Identities:
    """What the rows of a block keep: their ids, and their commit versions where they are only moved."""
    if block.provenance is None:
        return no_identities(block.num_rows)
    files = snapshot.files.get([p for p in block.provenance.paths if fresh_statement(p) is None])
    found = identities(block.provenance, files, materialized)
    return found if block.moved else Identities(found.ids, np.full(block.num_rows, NONE, np.int64))


def assigned(adds: Sequence[AddFile], head: Snapshot, count: Callable[[AddFile], int]) -> tuple[tuple[AddFile, ...], tuple[DomainMetadata, ...]]:
    """The adds of a commit on top of `head` with row ids, and the new high-water mark where it rose.

    Done anew for every put: another writer's ids may have come before.
    """
    return assigned_under(
        head.protocol, head.metadata, adds, mark=row_tracking.high_water_mark(head.domains, head.table), version=head.version + 1, count=count
    )


def assigned_under(
    protocol: Protocol, metadata: Metadata, adds: Sequence[AddFile], *, mark: int, version: int, count: Callable[[AddFile], int]
) -> tuple[tuple[AddFile, ...], tuple[DomainMetadata, ...]]:
    """The same for a commit that brings the protocol and the metadata that it is under."""
    if not row_tracking.assigns(protocol, metadata):
        return tuple(adds), ()

    def num_rows(add: AddFile) -> int:
        known = add.num_records
        return count(add) if known is None else known

    given, after = row_tracking.with_row_ids(adds, mark=mark, version=version, num_rows=num_rows)
    return given, (row_tracking.mark_domain(after),) if after != mark else ()


def tags(head: Snapshot, rewrites_rows: bool) -> dict[str, str]:
    """What commitInfo says of row ids: whether every row that was updated or moved has kept its own."""
    if not row_tracking.assigns(head.protocol, head.metadata):
        return {}
    kept = not rewrites_rows or row_tracking.is_enabled(head.protocol, head.metadata)
    return {row_tracking.PRESERVED_TAG: "true" if kept else "false"}
