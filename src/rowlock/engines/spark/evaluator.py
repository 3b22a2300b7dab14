"""What every evaluation of one table shares: the session, the opened files, the rows on the driver.

Rows come to the driver in one of two ways, and both end in the same expressions: from small files
(and what a rebase must look at) through a relation on the driver, without a job; from the others by
one scan.  Dead rows are taken off on the driver, before anything is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rowlock.boundary.effects import Provenance
from rowlock.caches import PLANS, Cache
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved, Target
from rowlock.engines.spark.catalyst.bridge import JavaObject, arrow_schema, catalyst, nullable, to_arrow
from rowlock.engines.spark.catalyst.predicates import attribute_ids
from rowlock.engines.spark.read.row_ids import MaterializedIds, changing_frame, outputs_with_ids
from rowlock.engines.spark.read.scan import ADDRESS, PATH, POSITION, Scanner, table_schema, wrap_session
from rowlock.engines.spark.session.clouds import check_connector, session_settings, spark_root
from rowlock.engines.spark.session.settings import cloned_session
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.rows import Rows
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy, positions_except
from rowlock.protocol.generated import generated_columns
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.vectors import Vectors

_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Settings of a session that an expression is resolved under."""
Found = tuple[Slice, pa.Table, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Addressed:
    """Rows with their addresses: the columns of `table`, and where each row lies."""

    table: pa.Table
    origin: Provenance

    @property
    def num_rows(self) -> int:
        return len(self.origin.file)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Addressed:
        return self if mask.all() else Addressed(self.table.filter(pa.array(mask)), self.origin.take(mask))


class TooMany(Exception):
    """More rows than may come to the driver."""


class Evaluator:
    """One table on one session.  Driver only; may be used from several threads."""

    def __init__(self, spark: SparkSession, store: ObjectStore, rows: Rows, vectors: Vectors) -> None:
        self.spark, self.store, self.vectors = spark, store, vectors
        self.bridge = catalyst(spark)
        check_connector(spark, store)
        self.root, self._store_settings = spark_root(store), session_settings(store)
        self.reading = wrap_session(spark, self.session())
        self.scanner = Scanner(self.reading, self.root)
        self.rows = rows.of_session(case_sensitive=str(self.reading.conf.get("spark.sql.caseSensitive")).lower() == "true")  # as the scanner reads
        self.materialized_ids = MaterializedIds(store)
        self._plans: Cache[Any] = Cache(PLANS, lambda _: 1)

    def session(self) -> JavaObject:
        """A fresh clone of the user's session: its views, functions and settings as they are now."""
        return cloned_session(self.spark, self._store_settings, self.store.identity)

    def forget(self) -> None:
        """Lets go of all that is kept of a table that is another now."""
        self.rows.forget()
        self.materialized_ids.forget()
        self._plans.clear()

    # ---- relations -------------------------------------------------------------------------

    def opened(self, snapshot: Snapshot, files: Sequence[AddFile]) -> JavaObject:
        """The plan of the physical rows of `files` with their addresses; kept, because files never change."""
        key = (snapshot.metadata.id, snapshot.metadata.schema_string, tuple(f.content for f in files))
        return self.kept(key, lambda: self.scanner.frame(snapshot, files, None, address=True)._jdf.queryExecution().analyzed())

    def opened_as(self, snapshot: Snapshot, files: Sequence[AddFile], relation: Relation) -> JavaObject:
        """The same under a relation's attributes."""
        key = (snapshot.metadata.id, snapshot.metadata.schema_string, tuple(f.content for f in files), id(relation))
        _, plan = self.kept(key, lambda: (relation, self.bound(self.opened(snapshot, files), relation.attributes)))
        return plan

    def bound(self, plan: JavaObject, attributes: Sequence[JavaObject]) -> JavaObject:
        """`plan` under the attributes of a relation, position by position."""
        outputs = self.bridge.list(plan.output())
        return self.bridge.project(self.bridge.seq(self.bridge.alias_as(o, a) for o, a in zip(outputs, attributes, strict=True)), plan)

    def target(self, snapshot: Snapshot) -> Target:
        """What statements on the table are resolved against; always the same for one schema."""
        made: Target = self.kept(("target", snapshot.metadata.schema_string), lambda: self._new_target(snapshot))
        return made

    def probe(self, target: Target, alias: str | None, session: JavaObject) -> DataFrame:
        """An empty frame with the table's columns and the address, on `session`."""
        frame = self.bridge.dataframe(target.plan, self.spark, session)
        return frame.alias(alias) if alias else frame

    def _new_target(self, snapshot: Snapshot) -> Target:
        own = table_schema(snapshot)
        schema = StructType([*nullable(own).fields, *ADDRESS.fields])
        plan = self.bridge.frame_of(arrow_schema(schema).empty_table(), schema.json(), self.reading._jsparkSession).queryExecution().analyzed()
        attributes = self.bridge.list(plan.output())
        return Target(
            plan=plan,
            relation=Relation(tuple(attributes), schema, schema.json(), plan.output()),
            schema=own,
            columns={f.name: self.bridge.column(a) for f, a in zip(schema.fields, attributes, strict=True)},
            nulls={f.name: F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields},
            ids=attribute_ids(attributes, [f.name for f in own.fields]),
            generated=generated_columns(snapshot.schema),
        )

    def kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each key while it is used often enough."""
        found = self._plans.get(key)
        return self._plans.keep(key, make()) if found is None else found

    def kept_as_set(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """`kept`, of expressions that are resolved under the user's settings as they are now."""
        return self.kept((*key, *(self.spark.conf.get(name) for name in _MEANING)), make)

    def live_frame(self, snapshot: Snapshot, slices: Sequence[Slice], attributes: Sequence[JavaObject]) -> JavaObject:
        """The plan of exactly the rows that slices mean, dead ones taken off inside Spark."""
        dead = {s.path: self.dead(s) for s in slices}
        frame = self.scanner.frame(snapshot, [s.file for s in slices], lambda f: dead[f.path], address=True)
        return self.bound(frame._jdf.queryExecution().analyzed(), attributes)

    def rewriting(self, snapshot: Snapshot, slices: Sequence[Slice], attributes: Sequence[JavaObject]) -> JavaObject:
        """`live_frame` for rows that Spark is to write anew: beside the attributes, the ids that the rows keep where the table tracks them."""
        dead = {s.path: self.dead(s) for s in slices}
        frame = changing_frame(self.scanner, snapshot, [s.file for s in slices], lambda f: dead[f.path])
        plan = frame._jdf.queryExecution().analyzed()
        outputs = self.bridge.list(plan.output())
        return self.bridge.project(
            self.bridge.seq([*(self.bridge.alias_as(o, a) for o, a in zip(outputs, attributes, strict=False)), *outputs[len(attributes) :]]), plan
        )

    def rewritten(self, snapshot: Snapshot, outputs: JavaObject, child: JavaObject) -> JavaObject:
        """A statement's outputs over a plan of `rewriting`, with the ids that the rows keep."""
        return self.bridge.project(outputs_with_ids(self.bridge, snapshot, outputs, child), child)

    def dead(self, piece: Slice) -> BitMap64:
        if piece.only is None:
            return piece.without or BitMap64()
        return positions_except(self.num_rows(piece.file), piece.only)

    def num_rows(self, file: AddFile) -> int:
        known = file.num_records
        return self.rows.num_rows(file) if known is None else known

    # ---- rows to the driver ----------------------------------------------------------------

    def rows_of(self, piece: Slice, snapshot: Snapshot) -> pa.Table:
        """The rows that a slice means, in the order of its file, brought to the driver by whichever way can read them."""
        found = self.rows.read_slice(piece, snapshot)
        if found is not None:
            return found[0]
        dead = self.dead(piece)
        frame = self.scanner.frame(snapshot, [piece.file], lambda _: dead, address=True)
        return to_arrow(frame).sort_by(POSITION).drop_columns([PATH, POSITION])

    def split(self, slices: Sequence[Slice], snapshot: Snapshot) -> tuple[list[tuple[Slice, pa.Table, npt.NDArray[np.int64]]], list[Slice]]:
        """(slices whose rows are on the driver now, slices to scan).  Small files first, up to `local_rows` in all."""
        local: list[tuple[Slice, pa.Table, npt.NDArray[np.int64]]] = []
        scan: list[Slice] = []
        budget = limits().local_rows
        for piece in sorted(slices, key=lambda s: (len(s.only) if s.only is not None else self.num_rows(s.file), s.path)):
            size = len(piece.only) if piece.only is not None else self.num_rows(piece.file)
            found = self.rows.read_slice(piece, snapshot) if size <= budget else None
            if found is None:
                scan.append(piece)
            else:
                budget -= size
                local.append((piece, found[0], found[1]))
        return local, scan

    def addressed(self, local: Sequence[tuple[Slice, pa.Table, npt.NDArray[np.int64]]]) -> Addressed | None:
        """Local rows as one table."""
        held = [(s, t, p) for s, t, p in local if t.num_rows]
        if not held:
            return None
        files = np.repeat(np.arange(len(held), dtype=np.int32), [t.num_rows for _, t, _ in held])
        origin = Provenance(tuple(s.path for s, _, _ in held), files, np.concatenate([p for _, _, p in held]))
        return Addressed(pa.concat_tables([t for _, t, _ in held]), origin)

    def evaluate(self, rows: Addressed, relation: Relation, resolved: Resolved, session: JavaObject) -> Addressed:
        """`resolved` over rows on the driver; its last two outputs are the address.  No job."""
        token = pc.cast(pa.array(rows.origin.file), pa.string())
        table = rows.table.append_column(PATH, token).append_column(POSITION, pa.array(rows.origin.position))
        plan = self.bridge.local(relation.seq, table, relation.schema_json, session)
        result = self.bridge.evaluate(self.bridge.project(resolved.outputs, self.bridge.filter(resolved.condition, plan)), self.spark, session)
        files = np.asarray(pc.cast(result.column(PATH), pa.int32()).to_numpy(zero_copy_only=False), dtype=np.int32)
        origin = Provenance(rows.origin.paths, files, _positions(result))
        return Addressed(result.drop_columns([PATH, POSITION]), origin)

    def scan(
        self,
        slices: Sequence[Slice],
        relation: Relation,
        resolved: Resolved,
        session: JavaObject,
        snapshot: Snapshot,
        *,
        keys: Callable[[JavaObject], JavaObject] | None = None,
        bounded: bool = False,
        narrow: bool = False,
    ) -> Addressed:
        """`resolved` over files, in one job; its last two outputs are the address.

        `keys` puts a join over the relation first.  Raises TooMany where more than `driver_rows` rows come back.  An expression that fails on a dead
        row (under ANSI) is run again with the dead rows taken off inside the scan.
        """
        files = [s.file for s in slices]
        bounded = bounded or sum(self.num_rows(f) for f in files) > (limits().unbounded_scan_rows if narrow else limits().driver_rows)
        if sum(f.size_bytes for f in files) <= limits().single_task_bytes:
            session.conf().set("spark.sql.files.minPartitionNum", "1")
        physical = self.opened_as(snapshot, files, relation)
        try:
            table = self._run(physical, resolved, session, bounded, keys)
        except PySparkException:
            if not any(s.without or s.only is not None for s in slices):
                raise
            table = self._run(self.live_frame(snapshot, slices, relation.attributes), resolved, session, bounded, keys)
        return self.living(self.by_path(table), slices)

    def matching(
        self, slices: Sequence[Slice], snapshot: Snapshot, mask_of: Callable[[pa.Table], Any], names: Sequence[str], limit: int | None = None
    ) -> tuple[list[Found], list[Slice]]:
        """(rows for which `mask_of` the columns `names` is true, slices that Spark must scan).

        For conditions of which Arrow is sure that they keep too much and never too little.  Gives up,
        with everything left to Spark, beyond `limit` rows found (`local_rows`) or `inspected_rows` to look at.
        """
        if sum(self.num_rows(s.file) for s in slices) > limits().inspected_rows:
            return [], list(slices)
        room = limits().local_rows if limit is None else limit
        found: list[Found] = []
        rest: list[Slice] = []
        for piece in slices:
            columns = self.rows.read_columns(piece.file, names, snapshot)
            if columns is None:
                rest.append(piece)
                continue
            found_here = mask_of(columns)
            mask = found_here if isinstance(found_here, np.ndarray) else np.asarray(pc.fill_null(found_here, False).to_numpy(), dtype=np.bool_)
            positions = np.flatnonzero(mask).astype(np.int64)
            positions = positions[_inside(piece, positions)]
            room -= len(positions)
            if room < 0:
                return [], list(slices)
            table = self.rows.read_at(piece.file, positions, snapshot.schema.names, snapshot)
            if table is None:
                rest.append(piece)
            else:
                found.append((piece, table, positions))
        return found, rest

    def completed(self, rows: Addressed, passed: Sequence[str], slices: Sequence[Slice], snapshot: Snapshot) -> Addressed | None:
        """Rows that lack the columns `passed` with those read beside them; None where Spark must read them."""
        files = {s.path: s.file for s in slices}
        order = np.argsort(rows.origin.file, kind="stable")
        parts = []
        for n, path in enumerate(rows.origin.paths):
            at = rows.origin.position[rows.origin.file == n]
            part = self.rows.read_at(files[path], at, passed, snapshot) if len(at) else None
            if part is None and len(at):
                return None
            if part is not None:
                parts.append(part)
        beside = pa.concat_tables(parts) if parts else None
        if beside is None:
            return None
        table, origin = rows.table.take(pa.array(order)), Provenance(rows.origin.paths, rows.origin.file[order], rows.origin.position[order])
        columns = [table.column(n) if n in table.column_names else beside.column(n) for n in snapshot.schema.names]
        return Addressed(pa.table(columns, names=list(snapshot.schema.names)), origin)

    def _run(self, child: JavaObject, resolved: Resolved, session: JavaObject, bounded: bool, keys: Callable[[JavaObject], JavaObject] | None) -> pa.Table:
        if keys is not None:
            child = keys(child)
        plan = self.bridge.project(resolved.outputs, self.bridge.filter(resolved.condition, child))
        frame: DataFrame = self.bridge.dataframe(plan, self.spark, session)
        most = limits().driver_rows
        table = to_arrow(frame.limit(most + 1) if bounded else frame)
        if table.num_rows > most:
            raise TooMany
        return table

    def by_path(self, table: pa.Table) -> Addressed:
        """A result whose address columns are Spark's spelling of paths and positions."""
        encoded = table.column(PATH).combine_chunks().dictionary_encode()
        encoded = encoded if isinstance(encoded, pa.DictionaryArray) else pa.concat_arrays(encoded.chunks)
        names = tuple(paths.from_spark_file_path(p, self.root) for p in encoded.dictionary.to_pylist())
        files = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int32)
        return Addressed(table.drop_columns([PATH, POSITION]), Provenance(names, files, _positions(table)))

    def living(self, rows: Addressed, slices: Sequence[Slice]) -> Addressed:
        """Without the rows that the slices do not mean."""
        pieces = {s.path: s for s in slices}
        mask = np.ones(rows.num_rows, dtype=np.bool_)
        for index, path in enumerate(rows.origin.paths):
            piece = pieces[path]
            if piece.only is None and not piece.without:
                continue
            at = np.flatnonzero(rows.origin.file == index)
            mask[at] = _inside(piece, rows.origin.position[at])
        return rows.filter(mask)


def _inside(piece: Slice, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which positions the slice means."""
    if piece.only is None and not piece.without:
        return np.ones(len(positions), dtype=np.bool_)
    marked = np.isin(positions, bitmap_to_numpy(piece.only if piece.only is not None else piece.without or BitMap64()))
    return marked if piece.only is not None else ~marked


def _positions(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(table.column(POSITION).to_numpy(), dtype=np.int64)
