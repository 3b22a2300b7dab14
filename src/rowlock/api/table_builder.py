"""Builders that make tables, under the names of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rowlock import display
from rowlock.api import arguments
from rowlock.api.handle import Handle
from rowlock.api.placement import CreateMode, Place, place_of
from rowlock.engines.spark.catalyst.errors import BadGenerator
from rowlock.engines.spark.catalyst.generation_rules import check_generated
from rowlock.engines.spark.catalyst.types import DataType, SparkSession, StructField, StructType
from rowlock.engines.spark.catalyst.typing import delta_schema, parse_type
from rowlock.engines.spark.read.scan import table_schema
from rowlock.exceptions import InvalidInput, SchemaMismatch, TableExists, UnsupportedFeature, WrongType
from rowlock.protocol.generated import GENERATION_EXPRESSION
from rowlock.protocol.schema import check_enforceable, parse_schema
from rowlock.protocol.widening import same_shape
from rowlock.transaction.definition import creation


@dataclass(frozen=True)
class IdentityGenerator:
    """Identity columns are refused by this version; the class is here for its name."""

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        if self.step == 0:
            raise InvalidInput("The step of an identity column cannot be 0")


class DeltaTableBuilder:
    """Columns, partitioning, clustering, properties and comment of a table to make; then `execute()`."""

    def __init__(self, face: Any, spark: SparkSession | None, mode: CreateMode) -> None:
        self._face, self._spark, self._mode = face, spark, mode
        self._name: str | None = None
        self._location: str | None = None
        self._storage_options: Mapping[str, str] | None = None
        self._comment: str | None = None
        self._fields: list[StructField] = []
        self._identities: list[str] = []
        self._partitions: list[str] = []
        self._clusters: list[str] = []
        self._properties: dict[str, str] = {}

    def __repr__(self) -> str:
        columns = f"columns={display.some_names(f.name for f in self._fields)}"
        properties = sorted(self._properties)  # their values may be somebody's secret
        return display.call(
            "DeltaTableBuilder",
            self._mode,
            columns,
            name=self._name,
            location=self._location,
            partitioned_by=self._partitions or None,
            clustered_by=self._clusters or None,
            properties=properties or None,
        )

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """A name in the session's catalog, or delta.`/path`.  Without a location the catalog says where the table is, and owns its folder."""
        self._name = arguments.text(identifier, "identifier")
        return self

    def location(self, location: str, *, storage_options: Mapping[str, str] | None = None) -> DeltaTableBuilder:
        self._storage_options = storage_options
        self._location = arguments.text(location, "location")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        self._comment = arguments.text(comment, "comment")
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: Any = None,
        generatedByDefaultAs: Any = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        arguments.text(colName, "colName")
        if not isinstance(nullable, bool):
            raise WrongType(f"nullable must be a bool, not {type(nullable).__name__}")
        _check_generators(generatedAlwaysAs, generatedByDefaultAs)
        metadata = {"comment": arguments.text(comment, "comment")} if comment is not None else {}
        if isinstance(generatedAlwaysAs, str):
            metadata[GENERATION_EXPRESSION] = generatedAlwaysAs
        field = StructField(colName, parse_type(dataType), nullable, metadata)
        if isinstance(generatedAlwaysAs or generatedByDefaultAs, IdentityGenerator) and field.dataType.typeName() != "long":
            raise BadGenerator(
                f"Column {colName!r} cannot be an identity column: its type is {field.dataType.simpleString()}, not bigint",
                feature="identityColumns",
                access="write",
            )
        if isinstance(generatedAlwaysAs or generatedByDefaultAs, IdentityGenerator):
            self._identities.append(colName)
        self._fields.append(field)
        return self

    def addColumns(self, cols: StructType | Sequence[StructField]) -> DeltaTableBuilder:
        if not isinstance(cols, (StructType, list, tuple)) or not all(isinstance(f, StructField) for f in cols):
            raise WrongType("cols must be a StructType or a list of StructField")
        self._fields += list(cols)
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        self._partitions += arguments.names(cols, "a partition column")
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        self._clusters += arguments.names(cols, "a clustering column")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        self._properties[arguments.text(key, "key")] = arguments.text(value, "value")
        return self

    def execute(self) -> Any:
        """Makes the table, gives it its name, and returns a DeltaTable on it.

        Raises TableExists, TableNotFound (replace), SchemaMismatch, InvalidInput, UnsupportedFeature; errors about a name in
        the catalog are Spark's AnalysisException too.
        """
        place = place_of(self._session(), self._name, self._location, self._storage_options)
        handle = place.handle
        if self._partitions and self._clusters:
            raise InvalidInput("A table is partitioned or clustered, not both", table=handle.path)
        place.check(self._mode)
        there = place.has_log
        if there and self._mode in ("create", "createIfNotExists"):
            if place.name is not None and not place.listed:
                self._check_same(handle)
        else:
            self._check_definition(handle)
            self._write(place, there)
        place.register()
        return self._face(handle)

    def _check_definition(self, handle: Handle) -> None:
        if not self._fields:
            raise InvalidInput("A table needs columns: addColumn('id', 'BIGINT') or addColumns(df.schema)", table=handle.path)
        if self._identities:
            raise UnsupportedFeature(
                f"This version does not write identity columns, such as {self._identities[0]!r}", feature="identity columns", access="write", table=handle.path
            )
        schema = StructType(self._fields)
        check_enforceable(parse_schema(schema.json(), handle.path), handle.path)
        check_generated(self._session(), schema, handle.path)

    def _check_same(self, handle: Handle) -> None:
        """Raises SchemaMismatch where a table that is there, and is to get a name, is not the one that was described."""
        if not self._fields:
            return
        head = handle.state.refresh()
        if not same_shape(delta_schema(StructType(self._fields)), delta_schema(table_schema(head))):
            raise SchemaMismatch(
                f"There is a table already whose columns are others: {table_schema(head).simpleString()} [DELTA_CREATE_TABLE_SCHEME_MISMATCH]",
                table=handle.path,
            )
        if [c.lower() for c in self._partitions] != [c.lower() for c in head.partition_columns]:
            raise SchemaMismatch(
                f"There is a table already that is partitioned by {', '.join(head.partition_columns) or 'nothing'} [DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING]",
                table=handle.path,
            )

    def _write(self, place: Place, there: bool) -> None:
        handle, schema_string = place.handle, StructType(self._fields).json()
        if there:
            metadata = creation.new_metadata(schema_string, self._partitions, self._properties, description=self._comment, table=handle.path)
            operation = "REPLACE TABLE" if self._mode == "replace" else "CREATE OR REPLACE TABLE"
            creation.replace_table(handle.state, metadata, cluster_by=self._columns(handle), operation=operation, managed=place.managed)
            return
        try:
            creation.create(
                handle.state,
                schema_string,
                self._partitions,
                self._properties,
                cluster_by=self._columns(handle),
                description=self._comment,
                managed=place.managed,
            )
        except TableExists:
            if self._mode == "createIfNotExists":
                return
            if self._mode != "createOrReplace":
                raise
            self._write(place, True)

    def _columns(self, handle: Handle) -> list[str]:
        """Clustering columns as they are spelled in the schema."""
        schema = parse_schema(orjson.dumps(orjson.loads(StructType(self._fields).json())).decode(), handle.path)
        found = [(c, schema.find(c)) for c in self._clusters]
        if missing := [c for c, f in found if f is None]:
            raise InvalidInput(f"There is no column {missing[0]!r} to cluster by", table=handle.path)
        return [f.name for _, f in found if f is not None]

    def _session(self) -> SparkSession:
        if self._spark is not None:
            return self._spark
        from rowlock.engines.spark.session.session import spark

        return spark()


def _check_generators(always: Any, by_default: Any) -> None:
    if always is not None and by_default is not None:
        raise InvalidInput("generatedAlwaysAs and generatedByDefaultAs cannot both be given")
    if always is not None and not isinstance(always, (str, IdentityGenerator)):
        raise WrongType(f"generatedAlwaysAs must be a string or an IdentityGenerator, not {type(always).__name__}")
    if by_default is not None and not isinstance(by_default, IdentityGenerator):
        raise WrongType(f"generatedByDefaultAs must be an IdentityGenerator, not {type(by_default).__name__}")
