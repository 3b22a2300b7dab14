"""Shallow clones: a new table whose log names the data files and deletion vectors of another, by their whole paths.

No data file is copied or written, and nothing outside of the clone's folder: what the clone deletes and adds stays in it.  As in delta-spark
rows of a clone get new row ids, and its commits times of their own, so properties that speak of the source's are left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused, TableExists
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering, paths, row_tracking
from rowlock.protocol.actions import AddFile, Metadata
from rowlock.protocol.column_values import with_marks_of
from rowlock.protocol.commits import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, with_commit_timestamp
from rowlock.protocol.constraints import is_constraint
from rowlock.protocol.delta_properties import spelled
from rowlock.protocol.features import check_writable, supporting
from rowlock.protocol.properties import PROTECTION, column_mapping_mode, validate_together
from rowlock.protocol.statistics import check_stats_columns
from rowlock.storage.open import is_table, real_place
from rowlock.storage.store import ObjectStore
from rowlock.transaction.commit import commit
from rowlock.transaction.definition.creation import NewTable, check_properties, stored, upgraded
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.definition.replacement import all_replaced, with_row_ids
from rowlock.transaction.publish.commit_bytes import commit_info
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

OF_ONE_TABLE = frozenset({ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP, PROTECTION, row_tracking.ROW_ID_COLUMN, row_tracking.COMMIT_VERSION_COLUMN})
"""Properties that name or number what is in one table's files and log; no other table takes them over."""
Count = Callable[[AddFile], int]


def shallow_clone(source: Snapshot, target: SharedState, properties: Mapping[str, str], *, name: str, replaces: bool, count: Count) -> Receipt:
    """Makes a table at `target` of a version of another; with `replaces` also over an empty table that is there.

    `name` is the name of the source in the history.  `count` counts the rows of a file whose statistics lack numRecords.
    Raises InvalidInput, UnsupportedFeature, TableExists, and StatementRefused where the table that is there has rows.
    """
    _check_places(source, target.store)
    metadata = _metadata(source, properties, target.store.root)
    protocol, metadata = upgraded(source.protocol, metadata.configuration), stored(metadata)
    protocol = supporting(protocol, metadata)
    check_writable(protocol, metadata, target.store.root)
    adds = tuple(_from_elsewhere(f, source.table, target.store.root) for f in source.files.adds())
    parameters = {"source": name, "sourceVersion": source.version}
    metrics = _metrics(source)
    clustered = source.domains.get(clustering.DOMAIN)
    if not (replaces and target.log.exists()):
        born, marks = row_identity.assign_row_ids_under(protocol, metadata, adds, mark=row_tracking.NO_MARK, version=0, count=count)
        info = commit_info("CLONE", parameters, clock.new_id(), read_version=None, blind=False, metrics=metrics)
        info = with_commit_timestamp(info, metadata.configuration, None)
        actions = {"protocol": protocol, "metadata": metadata, "domains": marks if clustered is None else (clustered, *marks), "adds": born, "txns": ()}
        try:
            return commit(NewTable(target, info, actions, metrics))
        except TableExists:
            if not replaces:
                raise

    def make(head: Snapshot) -> HeadActions:
        if len(head.files):
            text = "The table that the clone would replace has rows: only an empty table is replaced by a clone; delete its rows first, or drop it"
            raise StatementRefused(text, what="CLONE", table=head.table, condition=named("DELTA_UNSUPPORTED_NON_EMPTY_CLONE"))
        own, configuration = head.metadata, {**metadata.configuration, **{k: v for k, v in head.metadata.configuration.items() if k == PROTECTION}}
        fresh = with_marks_of(replace(metadata, id=own.id, name=own.name, description=own.description, configuration=configuration), own, head.table)
        _check_mapping(own, fresh, head.table)
        return with_row_ids(replace(all_replaced(head, fresh, protocol, adds, clustered, with_rows=False), metrics=metrics), head, count)

    return commit_from_head(target, "CLONE", parameters, make, removes_rows=True, replaces=True)


def _check_places(source: Snapshot, target: ObjectStore) -> None:
    """Raises InvalidInput where the clone would lie in the folder of a table whose files it names, or such a file in the clone's: VACUUM there deletes them.

    Those are the source and, where that is a clone itself, the tables before it.  Symbolic links and `..` are followed.
    """
    place = real_place(target.root)
    if real_place(source.table) == place:
        filled = named("DELTA_UNSUPPORTED_NON_EMPTY_CLONE") if len(source.files) else None
        raise InvalidInput("A table cannot be cloned onto itself: name another place", table=target.root, condition=filled)
    folders = {real_place(paths.join(source.table, f.path)).rpartition("/")[0] for f in source.files.adds() if paths.is_absolute(f.path)}
    folders.add(real_place(source.table))
    for folder in sorted(folders):
        if _is_below(folder, place):
            raise _nested(folder, place, target.root)
    for outer in (place.rsplit("/", n)[0] for n in range(1, place.count("/"))):
        if any(_is_below(folder, outer) for folder in folders) and is_table(target, outer):
            raise _nested(place, outer, target.root)


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder + "/")


def _nested(inner: str, outer: str, table: str) -> InvalidInput:
    text = f"The clone and the tables whose files it names cannot lie in each other's folders, where VACUUM deletes what it does not know: {inner} is below {outer}"
    return InvalidInput(text, table=table)


def _metadata(source: Snapshot, properties: Mapping[str, str], table: str) -> Metadata:
    properties = spelled(properties)
    if foreign := sorted(k for k, v in properties.items() if (k in OF_ONE_TABLE or is_constraint(k)) and source.metadata.configuration.get(k) != v):
        raise InvalidInput(f"{foreign[0]} cannot be given to a clone: leave it out; a constraint is added afterwards, by addConstraint", table=table)
    properties = {k: v for k, v in properties.items() if k not in OF_ONE_TABLE and source.metadata.configuration.get(k) != v}
    check_properties(properties, table)
    configuration = {k: v for k, v in source.metadata.configuration.items() if k not in OF_ONE_TABLE} | dict(properties)
    validate_together(configuration, table, given=properties)
    check_stats_columns(source.metadata, properties, table)
    configuration = row_tracking.with_column_names(configuration, clock.new_id)
    metadata = replace(source.metadata, id=clock.new_id(), name=None, description=None, configuration=configuration, created_time_ms=clock.now_ms())
    _check_mapping(source.metadata, metadata, table)
    return metadata


def _check_mapping(before: Metadata, after: Metadata, table: str) -> None:
    old, new = (column_mapping_mode(m.configuration) for m in (before, after))
    if old != new:
        text = f"A clone cannot change delta.columnMapping.mode from {old} to {new}: leave it out, and set it afterwards"
        raise InvalidInput(text, table=table, condition=named("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", oldMode=old, newMode=new))


def _from_elsewhere(file: AddFile, source: str, target: str) -> AddFile:
    """The file of the source by its whole path, as is its vector unless that lies in the log."""
    path, spelled = paths.decode_with_spelling(_whole(source, file.path), target)
    vector = file.deletion_vector
    if vector is not None and vector.path is not None:
        vector = replace(vector, storage_type="p", path_or_inline_dv=_whole(source, vector.path))
    return replace(file, path=path, log_path=spelled, deletion_vector=vector, data_change=True, base_row_id=None, default_row_commit_version=None)


def _whole(root: str, path: str) -> str:
    """The place of a table's file as the log spells it: a URI with its scheme, which on S3 is that of Spark's connector."""
    place = paths.join(root, path)
    scheme = paths.scheme_of(place)
    if scheme is None:
        return "file:" + paths.encode(place)  # one slash, as delta-spark has it: it compares such paths as texts
    return paths.encode(f"s3a{place[len(scheme) :]}" if scheme in ("s3", "s3n") else place)


def _metrics(source: Snapshot) -> dict[str, Any]:
    """delta-spark's metrics of a clone that copies nothing."""
    none = dict.fromkeys(("numRemovedFiles", "numCopiedFiles", "removedFilesSize", "copiedFilesSize"), 0)
    return {"sourceTableSize": source.files.total_size_bytes, "sourceNumOfFiles": len(source.files), **none}
