"""Enables row tracking on a table that has rows, while others write to it (I6).

    the feature → row ids for every live file, in commits of their own → the property

From the first step on every writer gives ids to the files that it adds, so what is left to do only
shrinks.  A file is added again as it lives at the head, with ids and nothing else changed: to writers
in flight that is no change of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from rowlock import clock, progress
from rowlock.boundary import row_identity
from rowlock.boundary.engine import AppendEngine
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import row_tracking
from rowlock.protocol.features import check_writable, writer_features
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState


def set_properties(state: SharedState, engine: AppendEngine, properties: Mapping[str, str]) -> Receipt:
    """Sets table properties.  Where they enable row tracking, every existing row gets an id first.

    The receipt is that of the last commit, which sets the properties.  Raises as `creation.set_properties` does.
    """
    creation.check_properties(properties, state.store.root)
    head = state.refresh()
    if row_tracking.asks_for_tracking(properties) and not row_tracking.is_enabled(head.protocol, head.metadata):
        wanted = replace(head.metadata, configuration=row_tracking.with_column_names({**head.metadata.configuration, **properties}, clock.new_id))
        check_writable(
            creation.upgraded(head.protocol, wanted.configuration), wanted, state.store.root
        )  # what cannot be set is refused before anything is done
        commit_from_head(state, "UPGRADE PROTOCOL", {}, _upgrade)
        with progress.work("ROW ID BACKFILL", state.store.root):
            _backfill(state, engine)
    return creation.set_properties(state, properties)


def _backfill(state: SharedState, engine: AppendEngine) -> None:
    """Gives ids to all rows that have none, in as many commits as it takes."""
    while commit_from_head(state, "ROW ID BACKFILL", {}, lambda at: _give_ids(at, engine)).version is not None:
        pass


def _upgrade(head: Snapshot) -> HeadActions | None:
    """The protocol with the rowTracking feature."""
    if row_tracking.FEATURE in writer_features(head.protocol):
        return None
    return HeadActions(protocol=creation.upgraded(head.protocol, {row_tracking.ENABLED: "true"}))


def _give_ids(head: Snapshot, engine: AppendEngine) -> HeadActions | None:
    """Re-adds some of the live files without row ids, with ids."""
    bare = list(islice((replace(f, data_change=False) for f in head.files.adds() if f.base_row_id is None), limits().backfill_files))
    if not bare:
        return None
    if (shown := progress.current()) is not None:  # else the number is not needed
        shown.count(sum(f.base_row_id is not None for f in head.files.adds()), len(head.files), "files")
    adds, domains = row_identity.assign_row_ids(bare, head, engine.count)
    return HeadActions(adds=adds, domains=tuple(domains))
