"""ALTER TABLE ... CLUSTER BY: changes by which columns a table is clustered, or that it is.

The files stay as they lie: OPTIMIZE sorts what is written from then on by the new columns, OPTIMIZE FULL all that there is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.conditions import named
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering
from rowlock.protocol.features import with_feature
from rowlock.protocol.schema import ColumnPath
from rowlock.transaction.definition.clustering_columns import checked_columns
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState


def cluster_by(state: SharedState, columns: Sequence[ColumnPath]) -> Receipt:
    """Clusters a table by these columns from now on; by none where there are none.

    Raises StatementRefused on a partitioned table and for a column without statistics, InvalidInput for unknown columns, one twice and too many.
    """

    def make(head: Snapshot) -> HeadActions | None:
        if head.partition_columns:
            text = "A partitioned table cannot be clustered"
            raise StatementRefused(text, what="CLUSTER BY", table=head.table, condition=named("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED"))
        stored = checked_columns(head.metadata, columns, head.table)
        if stored == clustering.stored_columns(head.domains, head.table):
            return None
        protocol = with_feature(head.protocol, "clustering")
        return HeadActions(protocol=protocol, domains=(clustering.clustering_domain(stored),))

    before = clustering.logical_columns((head := state.refresh()).domains, head.schema, head.table)
    said = {"oldClusteringColumns": _text(before), "newClusteringColumns": _text(columns)}
    return commit_from_head(state, "CLUSTER BY", said, make)


def _text(columns: Sequence[ColumnPath]) -> str:
    return ",".join(".".join(c) for c in columns)
