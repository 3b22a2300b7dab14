"""Row ids and row commit versions of a commit (I6): new ones for its files, and those that rewritten rows keep.

A row's id follows from its address, so provenance alone says which id a derived row keeps; a data file
is read only if it has materialized ids, of rows that were rewritten into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rowlock.boundary.effects import RowBlock, fresh_statement
from rowlock.boundary.provenance import Provenance
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import row_tracking
from rowlock.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from rowlock.protocol.row_tracking import MaterializedColumns

Numbers = npt.NDArray[np.int64]
NONE = -1
"""Marks a row without an id (or commit version) of its own, in an array of ids."""

Materialized = Callable[[AddFile, Numbers], tuple[Numbers, Numbers]]
"""Reads the materialized (ids, commit versions) of a data file's rows at some positions; NONE for rows that have none."""


@dataclass(frozen=True, slots=True)
class Identities:
    """The id and commit version of each row of a sequence; NONE for a row that is new or not committed yet."""

    ids: Numbers
    commit_versions: Numbers


def columns_of(snapshot: Snapshot) -> MaterializedColumns | None:
    """The names of the materialized row id and row commit version columns; None where the table does not track rows."""
    return row_tracking.materialized_columns(snapshot.protocol, snapshot.metadata)


def no_identities(num_rows: int) -> Identities:
    """The identities of `num_rows` new rows: NONE for each."""
    return Identities(np.full(num_rows, NONE, np.int64), np.full(num_rows, NONE, np.int64))


def identities(origin: Provenance, files: Mapping[str, AddFile], materialized: Materialized) -> Identities:
    """Row ids and commit versions of the rows at these addresses.  `files` has every file that an address names."""
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


def identities_in(file: AddFile, positions: Numbers, materialized: Materialized) -> Identities:
    """Row ids and commit versions of the rows of one file at these positions."""
    return identities(Provenance((file.path,), np.zeros(len(positions), np.int32), positions), {file.path: file}, materialized)


def preserved_identities(block: RowBlock, snapshot: Snapshot, materialized: Materialized) -> Identities:
    """The identities that the rows of a block keep when written: ids always, commit versions only if the rows are merely moved."""
    if block.provenance is None:
        return no_identities(block.num_rows)
    files = snapshot.files.get([p for p in block.provenance.paths if fresh_statement(p) is None])
    found = identities(block.provenance.loaded(), files, materialized)
    return found if block.moved else Identities(found.ids, np.full(block.num_rows, NONE, np.int64))


def assign_row_ids(adds: Sequence[AddFile], head: Snapshot, count: Callable[[AddFile], int]) -> tuple[tuple[AddFile, ...], tuple[DomainMetadata, ...]]:
    """Gives row ids to the adds of a commit on top of `head`; returns them with the new high-water mark, if it rose.

    Called again for every put, since another writer may have taken the ids meanwhile.
    """
    mark = row_tracking.high_water_mark(head.domains, head.table)
    return assign_row_ids_under(head.protocol, head.metadata, adds, mark=mark, version=head.version + 1, count=count)


def assign_row_ids_under(
    protocol: Protocol, metadata: Metadata, adds: Sequence[AddFile], *, mark: int, version: int, count: Callable[[AddFile], int]
) -> tuple[tuple[AddFile, ...], tuple[DomainMetadata, ...]]:
    """`assign_row_ids` for a commit that brings its own protocol and metadata; `mark` is the high-water mark before it."""
    if not row_tracking.assigns(protocol, metadata):
        return tuple(adds), ()
    given, after = row_tracking.with_row_ids(adds, mark=mark, version=version, num_rows=lambda add: add.physical_rows(count))
    return given, (row_tracking.mark_domain(after),) if after != mark else ()


def tags(head: Snapshot, rewrites_rows: bool) -> dict[str, str]:
    """The `tags` of commitInfo on a table with row tracking: whether every updated or moved row kept its id."""
    if not row_tracking.assigns(head.protocol, head.metadata):
        return {}
    preserved = not rewrites_rows or row_tracking.is_enabled(head.protocol, head.metadata)
    return {row_tracking.PRESERVED_TAG: "true" if preserved else "false"}
