"""What all evaluations of one table on one session share: the session, the plans of opened files, what statements are resolved against.

The rows themselves are read by `driver_rows` (to the driver, without a job) and by `scan_job` (in one Spark job).
Both evaluate the same resolved expressions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from rowlock import threads
from rowlock.arguments import is_set
from rowlock.boundary.row_identity import Identities, Materialized, columns_of
from rowlock.caches import PLANS, Cache
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.analysis import Relation, TableName, Target, own_columns
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, arrow_schema, catalyst, class_name, is_collated, nullable
from rowlock.engines.spark.catalyst.types import compared
from rowlock.engines.spark.read.scan import ADDRESS, TIME_ZONE, Constants, Scanner, check_names, table_schema, wrap_session
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW, paths_by_hash
from rowlock.engines.spark.session.clouds import check_connector, session_settings, spark_root
from rowlock.engines.spark.session.settings import cloned_session
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import num_rows
from rowlock.parquet.rows import MaterializedIds, Rows, with_identities
from rowlock.protocol.actions import AddFile
from rowlock.protocol.char_varchar import KEY, is_char
from rowlock.protocol.column_values import Identity, column_defaults, generated_columns, identity_columns
from rowlock.protocol.deletion_vector import positions_except
from rowlock.storage.store import ObjectStore
from rowlock.transaction.definition.identity import Numbers
from rowlock.transaction.state.shared import Vectors

_OF_FRAME, _MOST_SHOWN = "__dataset_id", 64  # by what Spark marks the columns of a DataFrame; how many of these a table knows
_RESOLUTION_SETTINGS = (TIME_ZONE, "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Settings of a session on which the meaning of an expression depends."""


class Evaluator:
    """One table on one session.  Driver only; may be used from several threads."""

    def __init__(self, spark: SparkSession, store: ObjectStore, rows: Rows, vectors: Vectors, numbers: Callable[[Sequence[Identity]], Numbers]) -> None:
        """`numbers` reserves the numbers of new rows in identity columns."""
        self.spark, self.store, self.vectors, self.numbers = spark, store, vectors, numbers
        self.bridge = catalyst(spark)
        check_connector(spark, store)
        self.root, self._store_settings = spark_root(store), session_settings(store)
        self._scanner = self._new_scanner()
        # the driver must look up column names as the scanner does
        self.rows = rows.of_session(case_sensitive=is_set(self.scanner.spark, "spark.sql.caseSensitive"))
        self.materialized_ids = MaterializedIds(store)
        self._plans: Cache[Any] = Cache(PLANS, lambda _: 1)
        self._shown: deque[int] = deque(maxlen=_MOST_SHOWN)

    def _new_scanner(self) -> Scanner:
        return Scanner(wrap_session(self.spark, self.session()), self.root)

    @property
    def scanner(self) -> Scanner:
        """Makes DataFrames of the table's files; another one where the user's time zone is another, in which Spark takes partition timestamps."""
        if self.spark.conf.get(TIME_ZONE) != self._scanner.time_zone:
            self._scanner = self._new_scanner()
        return self._scanner

    def session(self, *, variables: bool = False) -> JavaObject:
        """A fresh clone of the user's session, with its views, functions and settings of this moment.

        `variables`: with those of the user's session, for the expressions of a statement; the table's definition is resolved without them.
        """
        return cloned_session(self.spark, self._store_settings, self.store.identity, variables=variables)

    def forget(self) -> None:
        """Empties all caches; needed where another table was created at the same place."""
        self.rows.forget()
        self.materialized_ids.forget()
        self._plans.clear()

    def cached(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The cached value of `key`; calls `make` where there is none."""
        found = self._plans.get(key)
        return self._plans.setdefault(key, make()) if found is None else found

    def cached_for_settings(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """`cached`, for expressions that are resolved under the user's settings: a change of one of these makes the value anew."""
        return self.cached((*key, *(self.spark.conf.get(name) for name in _RESOLUTION_SETTINGS)), make)

    # ---- what statements are resolved against ------------------------------------------------

    def target(self, snapshot: Snapshot) -> Target:
        """What statements on the table are resolved against: the same object for every snapshot with this schema."""
        made: Target = self.cached(("target", snapshot.metadata.schema_string), lambda: self._new_target(snapshot))
        return made

    def probe(self, target: Target, alias: str | None, session: JavaObject) -> DataFrame:
        """An empty DataFrame on `session` with the table's columns, under `alias`."""
        frame = self.bridge.dataframe(target.plan, self.spark, session)
        if isinstance(alias, TableName) and alias.qualifier:
            name = self.bridge.alias_identifier(alias, self.bridge.seq(alias.qualifier))
            return self.bridge.dataframe(self.bridge.subquery_alias(name, analyzed(frame)), self.spark, session)
        return frame.alias(alias) if alias else frame

    def shown(self, frame: DataFrame) -> DataFrame:
        """A DataFrame of the table for its user: statements take its columns (`frame.id`) for the table's, as delta-spark's do those of `toDF`."""
        self._shown.append(int(frame._jdf.id()))
        return frame

    def with_own_columns(self, snapshot: Snapshot, source: DataFrame | None = None) -> AbstractContextManager[None]:
        """A block in whose expressions the columns of such DataFrames are the table's own, but for one that is a MERGE's source."""
        shown = set(self._shown) - ({int(source._jdf.id())} if source is not None else set())

        def own(node: JavaObject) -> JavaObject:
            if children := self.bridge.list(node.children()):
                return node.withNewChildren(self.bridge.seq([own(child) for child in children]))
            if class_name(node) != "AttributeReference" or not node.metadata().contains(_OF_FRAME) or int(node.metadata().getLong(_OF_FRAME)) not in shown:
                return node
            return dict(zip(self.target(snapshot).schema.names, self.target(snapshot).relation.attributes, strict=False)).get(str(node.name()), node)

        def placed(column: Column) -> Column:
            expression = self.spark._jsparkSession.expression(column._jc)
            return self.bridge.column(own(expression)) if "#" in str(expression.collectLeaves().mkString()) else column  # attributes end with their numbers

        return threads.holding(own_columns, placed if shown else None)

    def _new_target(self, snapshot: Snapshot) -> Target:
        check_names(snapshot)
        own = table_schema(snapshot)
        schema = nullable(own)
        plan = self._empty_plan(StructType([compared(f) for f in own.fields]) if any(is_char(f.metadata.get(KEY)) for f in own.fields) else schema)
        attributes = self.bridge.list(plan.output())
        beside = StructType([*ADDRESS.fields, StructField(SOURCE_ROW, LongType(), False)])
        *address, source_row = self.bridge.list(self._empty_plan(beside).output())
        names = {int(a.exprId().id()): n for a, n in zip(attributes, own.names, strict=True)}
        return Target(
            plan=plan,
            relation=Relation.of(self.bridge, [*attributes, *address], StructType([*schema.fields, *ADDRESS.fields])),
            address=tuple(address),
            source_row=source_row,
            schema=own,
            columns={f.name: self.bridge.column(a) for f, a in zip(schema.fields, attributes, strict=True)},
            nulls={f.name: F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields},
            names=names,
            ids={n: f.name for n, f in zip(names, own.fields, strict=True) if not is_collated(f.dataType) and not is_char(f.metadata.get(KEY))},
            generated=generated_columns(snapshot.schema),
            defaults=column_defaults(snapshot.schema),
            identities=identity_columns(snapshot.schema),
        )

    def _empty_plan(self, schema: StructType) -> JavaObject:
        """The analyzed plan of a relation without rows, with attributes of its own."""
        return self.bridge.frame_of(arrow_schema(schema).empty_table(), schema.json(), self.scanner.spark._jsparkSession).queryExecution().analyzed()

    def with_ids(self, table: pa.Table, snapshot: Snapshot, preserved: Callable[[Materialized], Identities]) -> pa.Table:
        """The rows with the ids and commit versions that they keep, where the table tracks rows; `preserved` returns these, given what reads them from files."""
        columns = columns_of(snapshot)
        return table if columns is None else with_identities(table, preserved(self.materialized_ids.at(columns)), columns)

    # ---- rows of data files ----------------------------------------------------------------

    def physical_plan(self, snapshot: Snapshot, files: Sequence[AddFile], relation: Relation) -> JavaObject:
        """The plan of all physical rows of `files`, dead ones too, with their addresses, under the relation's attributes.  Cached: files never change."""
        scanner = self.scanner
        key = (scanner.time_zone, snapshot.metadata.id, snapshot.metadata.schema_string, tuple(f.content for f in files))
        none = BitMap64()
        opened = self.cached(key, lambda: analyzed(scanner.frame(snapshot, files, lambda _: none, address=True)))
        # the relation is kept with the plan, so that its id() is not given to another
        _, plan = self.cached((*key, id(relation)), lambda: (relation, self.bound(opened, relation.attributes)))
        return plan

    def live_frame(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        *,
        address: bool = False,
        ids: bool = False,
        constants: Constants | None = None,
        scanner: Scanner | None = None,
    ) -> DataFrame:
        """Exactly the rows of `slices`; with addresses, constants and, where the table tracks rows, ids and commit versions as in `Scanner.frame`."""
        dead = {s.path: self.dead_positions(s) for s in slices}
        columns = columns_of(snapshot) if ids else None
        files = [s.file for s in slices]
        return (scanner or self.scanner).frame(snapshot, files, lambda f: dead[f.path], address=address, ids=columns, constants=constants)

    def live_plan(self, snapshot: Snapshot, slices: Sequence[Slice], attributes: Sequence[JavaObject], *, ids: bool = False) -> JavaObject:
        """The plan of exactly the rows of `slices`, with their addresses, under `attributes`; with `ids` further columns follow (see `live_frame`)."""
        return self.bound(analyzed(self.live_frame(snapshot, slices, address=True, ids=ids)), attributes)

    def rewrite_outputs(self, snapshot: Snapshot, outputs: JavaObject, child: JavaObject) -> JavaObject:
        """The plan of a statement's `outputs` (a Scala Seq) over a plan of `live_plan` with `ids`, and of the ids that the rows keep as they are written anew (I6)."""
        if (columns := columns_of(snapshot)) is not None:
            (row_id,) = [a for a in self.bridge.list(child.output()) if a.name() == columns.row_id]
            outputs = outputs.appended(row_id)
        return self.bridge.project(outputs, child)

    def bound(self, plan: JavaObject, attributes: Sequence[JavaObject]) -> JavaObject:
        """`plan` with its first outputs renamed, by position, to `attributes`, so that expressions over these read it."""
        outputs, size = self.bridge.list(plan.output()), len(attributes)
        named = [self.bridge.alias_as(o, a) for o, a in zip(outputs[:size], attributes, strict=True)]
        return self.bridge.project(self.bridge.seq([*named, *outputs[size:]]), plan)

    def paths_by_hash(self, slices: Sequence[Slice]) -> dict[int, str]:
        """The paths of the slices' files by the hashes that stand for them in staged files."""
        scanner = self.scanner
        return paths_by_hash((s.path, scanner.uri(s.file)) for s in slices)

    # ---- sizes -----------------------------------------------------------------------------

    def dead_positions(self, piece: Slice) -> BitMap64:
        """The physical positions of the slice's file that do not lie in the slice."""
        if piece.only is None:
            return piece.without or BitMap64()
        return positions_except(self.num_rows(piece.file), piece.only)

    def rows_to_read(self, piece: Slice) -> int:
        """How many rows are read for a slice: those at its positions, else all of its file, dead ones too."""
        return self.num_rows(piece.file) if piece.only is None else len(piece.only)

    def physical_rows(self, slices: Iterable[Slice]) -> int:
        """How many rows the files of some slices hold, dead ones too."""
        return sum(self.num_rows(s.file) for s in slices)

    def num_rows(self, file: AddFile) -> int:
        """The physical number of rows of a file, from its statistics or else from its footer."""
        return file.physical_rows(self.count)

    def count(self, file: AddFile) -> int:
        """The physical number of rows of a file, from its footer."""
        return num_rows(self.store, file.path, file.size_bytes)
