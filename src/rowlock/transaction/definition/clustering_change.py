"""ALTER TABLE ... CLUSTER BY: changes by which columns a table is clustered, or that it is.

The files stay as they lie: OPTIMIZE puts those into the new order that it chooses anyway, OPTIMIZE FULL all.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering
from rowlock.protocol.features import with_feature
from rowlock.protocol.schema import ColumnPath
from rowlock.protocol.statistics import indexed_leaves
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_MOST_COLUMNS = 4


def cluster_by(state: SharedState, columns: Sequence[ColumnPath]) -> Receipt:
    """Clusters a table by these columns from now on; by none where there are none.

    Raises StatementRefused on a partitioned table and for a column without statistics, InvalidInput for unknown columns, one twice and too many.
    """

    def make(head: Snapshot) -> HeadActions | None:
        if head.partition_columns:
            text = "A partitioned table cannot be clustered [DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED]"
            raise StatementRefused(text, what="CLUSTER BY", table=head.table)
        stored = _checked(head, columns)
        if stored == clustering.stored_columns(head.domains, head.table):
            return None
        protocol = with_feature(head.protocol, "clustering")
        return HeadActions(protocol=protocol if protocol != head.protocol else None, domains=(clustering.clustering_domain(stored),))

    before = clustering.logical_columns((head := state.refresh()).domains, head.schema, head.table)
    said = {"oldClusteringColumns": _text(before), "newClusteringColumns": _text(columns)}
    return commit_from_head(state, "CLUSTER BY", said, make)


def _text(columns: Sequence[ColumnPath]) -> str:
    return ",".join(".".join(c) for c in columns)


def _checked(head: Snapshot, columns: Sequence[ColumnPath]) -> tuple[ColumnPath, ...]:
    """The columns by their physical names."""
    if len(columns) > _MOST_COLUMNS:
        raise InvalidInput(
            f"A table is clustered by {_MOST_COLUMNS} columns at most, not by {len(columns)} [DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS]", table=head.table
        )
    properties = head.properties
    leaves = indexed_leaves(head.schema, num_indexed=properties.num_indexed_columns, stats_columns=properties.stats_columns)
    with_stats = {path for path, _ in leaves}
    out: list[ColumnPath] = []
    for column in columns:
        name, path = ".".join(column), head.schema.physical_path(column)
        if path is None:
            names = ", ".join(head.schema.names)
            raise InvalidInput(f"There is no column {name!r} to cluster by; the table has {names} [DELTA_COLUMN_NOT_FOUND_IN_SCHEMA]", table=head.table)
        if path in out:
            raise InvalidInput(f"The clustering column {name!r} is named twice [DELTA_DUPLICATE_COLUMNS_FOUND]", table=head.table)
        if path not in with_stats:
            text = (
                f"Column {name} has no statistics, by which files could be skipped: see delta.dataSkippingStatsColumns [DELTA_CLUSTERING_COLUMN_MISSING_STATS]"
            )
            raise StatementRefused(text, what=name, table=head.table)
        out.append(path)
    return tuple(out)
