"""Builders that make tables, under the names of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowlock import arguments, display
from rowlock.api import expressions
from rowlock.api.connect import check_classic
from rowlock.api.handle import Handle
from rowlock.api.placement import CreateMode, Place, place_of
from rowlock.conditions import named
from rowlock.engines.spark.catalyst import column_rules
from rowlock.engines.spark.catalyst.types import DataType, SparkSession, StructField, StructType, delta_schema, new_column
from rowlock.engines.spark.read.scan import table_schema
from rowlock.exceptions import InvalidInput, SchemaMismatch, TableExists, UnsupportedFeature, WrongType
from rowlock.protocol.column_values import CURRENT_DEFAULT, GENERATION_EXPRESSION, identity_columns, identity_metadata
from rowlock.protocol.delta_properties import spelled
from rowlock.protocol.schema import ColumnPath, check_enforceable, column_name, parse_schema
from rowlock.protocol.schema_fit import same_shape
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.creation import named_columns
from rowlock.transaction.definition.replacement import replace_table


@dataclass(frozen=True)
class IdentityGenerator:
    """An identity column's start and step: `addColumn(..., generatedAlwaysAs=IdentityGenerator())` numbers new rows, each number once and with gaps.

    Attributes:
        start: The first value.
        step: The distance between values, not 0.

    Raises:
        InvalidInput: The step is 0.
    """

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("start", "step"):
            arguments.number(getattr(self, name), name)
        if self.step == 0:
            raise InvalidInput("The step of an identity column cannot be 0")


class DeltaTableBuilder:
    """Columns, place and properties of a table to make; then `execute()`.

    Made by `DeltaTable.create()` and its like.  Each method changes the builder and returns it; none runs a Spark job before `execute()`.

    Examples:
        >>> builder = DeltaTable.create(spark).location(folder + "/new").addColumn("id", "BIGINT").addColumn("day", "DATE").partitionedBy("day")
        >>> builder
        DeltaTableBuilder(create, columns=[id, day], location='...', partitioned_by=['day'])
        >>> builder.execute()
        DeltaTable('...', version=0, columns=[id, day], partitioned_by=['day'])
    """

    def __init__(self, face: Any, spark: SparkSession | None, mode: CreateMode) -> None:
        self._face, self._mode = face, mode
        self._spark = None if spark is None else expressions.session(spark, "sparkSession")
        check_classic(spark, f"DeltaTable.{mode}")
        self._name: str | None = None
        self._location: str | None = None
        self._storage_options: Mapping[str, str] = {}
        self._comment: str | None = None
        self._fields: list[StructField] = []
        self._partitions: list[str] = []
        self._clusters: list[str] = []
        self._properties: dict[str, str] = {}

    def __repr__(self) -> str:
        columns = f"columns={display.some_names(f.name for f in self._fields)}"
        properties = sorted(self._properties)  # their values may be secrets
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
        """Gives the table a name in the session's catalog; without a location the catalog says where the table is, and owns its folder.  Runs no Spark job.

        Args:
            identifier: A name such as `sales` or `db.sales`, or delta.`/path`, which names a place only.

        Returns:
            This builder.

        Raises:
            WrongType: The name is not a string.

        Examples:
            >>> DeltaTable.create(spark).tableName("db.sales")
            DeltaTableBuilder(create, columns=[], name='db.sales')
        """
        self._name = arguments.text(identifier, "identifier")
        return self

    def location(self, location: str, *, storage_options: Mapping[str, str] | None = None) -> DeltaTableBuilder:
        """Says where the table is.  Runs no Spark job.

        Args:
            location: A local path or a URL, as `DeltaTable.forPath` takes it.
            storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

        Returns:
            This builder.

        Raises:
            WrongType: The location is not a string.

        Examples:
            >>> DeltaTable.create(spark).location("s3://bucket/sales")
            DeltaTableBuilder(create, columns=[], location='s3://bucket/sales')
        """
        self._location = arguments.text(location, "location")
        self._storage_options = arguments.text_by_text(storage_options, "storage_options")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """Sets the table's description.  Runs no Spark job.

        Args:
            comment: The text.

        Returns:
            This builder.

        Raises:
            WrongType: The text is not a string.

        Examples:
            >>> table = DeltaTable.create(spark).location(folder + "/new").addColumn("id", "INT").comment("one row for each sale").execute()
            >>> table.detail().first()["description"]
            'one row for each sale'
        """
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
        *,
        default: str | None = None,
    ) -> DeltaTableBuilder:
        """Adds a column.  Runs no Spark job.

        Args:
            colName: The column's name.
            dataType: A Spark DataType, or text such as `BIGINT` or `array<string>`.
            nullable: Whether the column may hold null.
            generatedAlwaysAs: An expression on other columns that the column always is, as SQL text; or an IdentityGenerator, which numbers the rows of a bigint column.
            generatedByDefaultAs: An IdentityGenerator for rows that do not give the column.
            comment: The column's comment.
            default: The value of new rows whose statement does not name the column, as SQL text; it may use no column.

        Returns:
            This builder.

        Raises:
            InvalidInput: The type is not one that Spark knows (it is Spark's ParseException, too), or both ways of generating are given.
            UnsupportedFeature: An identity column is not a bigint.

        Examples:
            >>> DeltaTable.create(spark).addColumn("at", "TIMESTAMP").addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
            DeltaTableBuilder(create, columns=[at, day])
        """
        arguments.text(colName, "colName")
        arguments.flag(nullable, "nullable")
        _check_generators(generatedAlwaysAs, generatedByDefaultAs)
        metadata: dict[str, Any] = {"comment": arguments.text(comment, "comment")} if comment is not None else {}
        if default is not None:
            metadata[CURRENT_DEFAULT] = arguments.text(default, "default")
        if isinstance(generatedAlwaysAs, str):
            metadata[GENERATION_EXPRESSION] = generatedAlwaysAs
        generator = generatedAlwaysAs or generatedByDefaultAs
        if isinstance(generator, IdentityGenerator):
            metadata |= identity_metadata(generator.start, generator.step, by_default=generatedByDefaultAs is not None)
        field = new_column(colName, dataType, nullable, metadata)
        if isinstance(generator, IdentityGenerator) and field.dataType.typeName() != "long":
            text = f"Column {colName!r} cannot be an identity column: its type is {field.dataType.simpleString()}, not bigint"
            condition = named("DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", dataType=field.dataType.simpleString())
            raise UnsupportedFeature(text, feature="identityColumns", access="write", condition=condition)
        self._fields.append(field)
        return self

    def addColumns(self, cols: StructType | Sequence[StructField]) -> DeltaTableBuilder:
        """Adds the columns of a Spark schema.  Runs no Spark job.

        Args:
            cols: A StructType or a list of StructFields.

        Returns:
            This builder.

        Raises:
            WrongType: It is something else.

        Examples:
            >>> DeltaTable.create(spark).addColumns(updates.schema)
            DeltaTableBuilder(create, columns=[id, region, amount])
        """
        if not isinstance(cols, (StructType, list, tuple)) or not all(isinstance(f, StructField) for f in cols):
            raise WrongType("cols must be a StructType or a list of StructField")
        self._fields += [new_column(f.name, f.dataType, f.nullable, f.metadata) for f in cols]
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Partitions the table by columns.  Runs no Spark job.

        Args:
            *cols: Names of the columns, one by one or as one list.

        Returns:
            This builder.

        Raises:
            WrongType: A name is not a string.

        Examples:
            >>> DeltaTable.create(spark).addColumns(updates.schema).partitionedBy("region")
            DeltaTableBuilder(create, columns=[id, region, amount], partitioned_by=['region'])
        """
        self._partitions += arguments.names(cols, "a partition column in cols")
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Gives the table clustering columns, by which OPTIMIZE orders its rows.  Runs no Spark job.

        Args:
            *cols: Names of the columns, one by one or as one list.

        Returns:
            This builder.

        Raises:
            WrongType: A name is not a string.

        Examples:
            >>> DeltaTable.create(spark).addColumns(updates.schema).clusterBy("region")
            DeltaTableBuilder(create, columns=[id, region, amount], clustered_by=['region'])
        """
        self._clusters += arguments.names(cols, "a clustering column in cols")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """Sets a table property.  Runs no Spark job.

        Args:
            key: The property's name, `delta.*`, `rowlock.*` or any other.
            value: Its value, as text.

        Returns:
            This builder.

        Raises:
            WrongType: An argument is not a string.

        Examples:
            >>> DeltaTable.create(spark).property("rowlock.onConflict", "fail")
            DeltaTableBuilder(create, columns=[], properties=['rowlock.onConflict'])
        """
        self._properties |= spelled({arguments.text(key, "key"): arguments.text(value, "value")})
        return self

    def execute(self) -> Any:
        """Makes the table, or opens or replaces the one that is there, and gives it its name.  Written on the driver; runs no Spark job.

        Returns:
            A DeltaTable.

        Raises:
            TableExists: There is a table, for `create`; under a name it is Spark's AnalysisException, too.
            TableNotFound: There is no table, for `replace`; under a name it is Spark's AnalysisException, too.
            SchemaMismatch: The columns cannot be those of one table, or are not those of the table that is to get the name.
            InvalidInput: There is no column or no place, or parts of the definition do not go together.
            UnsupportedFeature: The table would need a feature that this version cannot write.
            DeltaConcurrentModificationException: Others committed while the table was replaced, and the policy is to raise.

        Examples:
            >>> DeltaTable.create(spark).location(folder + "/new").addColumns(updates.schema).partitionedBy("region").execute()
            DeltaTable('...', version=0, columns=[id, region, amount], partitioned_by=['region'])
        """
        place = place_of(self._session(), self._name, self._location, self._storage_options)
        with place.handle.commits("create"):
            return self._execute(place)

    def _execute(self, place: Place) -> Any:
        handle = place.handle
        if self._partitions and self._clusters:
            both = named("DELTA_CLUSTER_BY_WITH_PARTITIONED_BY")
            raise InvalidInput("A table is partitioned or clustered, not both", table=handle.path, condition=both)
        place.check(self._mode)
        there = place.has_log
        if there and self._mode in ("create", "createIfNotExists"):
            if place.name is not None and not place.listed:
                self._check_same(handle)
        else:
            self._check_definition(handle)
            if not place.managed:  # which was checked
                place.check_empty(described=bool(self._fields))
            self._write(place, there)
            handle.state.refresh()
        place.register()
        return self._face(handle)

    def _check_definition(self, handle: Handle) -> None:
        """Raises where the definition is none that this version can write."""
        if not self._fields and (self._partitions or self._clusters or self._mode not in ("create", "createIfNotExists")):
            text = "Only a new table may have no columns yet, and no partitions then: addColumn('id', 'BIGINT') or addColumns(df.schema)"
            raise InvalidInput(text, table=handle.path, condition=named("DELTA_SCHEMA_NOT_PROVIDED"))
        if self._fields and {p.lower() for p in self._partitions} == {f.name.lower() for f in self._fields}:
            text = "A table needs a column that is not a partition column"
            raise SchemaMismatch(text, table=handle.path, condition=named("ALL_PARTITION_COLUMNS_NOT_ALLOWED"))
        schema = StructType(self._fields)
        parsed = parse_schema(schema.json(), handle.path)
        if numbered := [i.name for i in identity_columns(parsed) if i.name.lower() in {p.lower() for p in self._partitions}]:
            text = f"A table cannot be partitioned by {numbered[0]}, whose numbers it gives itself"
            raise SchemaMismatch(text, table=handle.path, condition=named("DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED", colName=numbered[0]))
        check_enforceable(parsed, handle.path)
        statement = "CREATE TABLE" if self._mode in ("create", "createIfNotExists") else "REPLACE TABLE"
        column_rules.check_columns(self._session(), schema, self._properties, handle.path, statement)

    def _check_same(self, handle: Handle) -> None:
        """Raises SchemaMismatch where a table that is there, and is to get a name, is not the one that was described."""
        head = handle.state.refresh()
        if other := [k for k, v in self._properties.items() if head.metadata.configuration.get(k) != v]:
            condition = named(
                "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
                path=handle.path,
                specifiedProperties="\n".join(f"{k}={v}" for k, v in self._properties.items()),
                existingProperties="\n".join(f"{k}={v}" for k, v in head.metadata.configuration.items()),
            )
            text = f"There is a table already whose property {other[0]} is another: leave it out, or set it by ALTER TABLE"
            raise InvalidInput(text, table=handle.path, condition=condition)
        there = table_schema(head)
        given, held = (sorted(fields, key=lambda f: f.name) for fields in (self._fields, there.fields))  # as delta-spark, in any order
        computed = [[f.metadata.get(GENERATION_EXPRESSION) for f in fields] for fields in (given, held)]
        if given and (computed[0] != computed[1] or not same_shape(delta_schema(StructType(given)), delta_schema(StructType(held)))):
            raise SchemaMismatch(
                f"There is a table already whose columns are others, or computed otherwise: {there.simpleString()}",
                table=handle.path,
                condition=named(
                    "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
                    path=handle.path,
                    specifiedSchema=StructType(self._fields).simpleString(),
                    existingSchema=there.simpleString(),
                    schemaDifferences="",
                ),
            )
        if (self._fields or self._partitions) and [c.lower() for c in self._partitions] != [c.lower() for c in head.partition_columns]:
            text = f"There is a table already that is partitioned by {', '.join(head.partition_columns) or 'nothing'}"
            raise SchemaMismatch(text, table=handle.path, condition=named("DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"))
        if (self._fields or self._clusters) and named_columns(head.schema, self._clusters, handle.path) != list(head.clustering_columns):
            text = f"There is a table already that is clustered by {', '.join(map(column_name, head.clustering_columns)) or 'nothing'}"
            raise SchemaMismatch(text, table=handle.path, condition=named("DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"))

    def _write(self, place: Place, there: bool) -> None:
        """Commits the new table, or its replacement where there is one already."""
        handle, schema_string = place.handle, StructType(self._fields).json()
        operation = {"replace": "REPLACE TABLE", "createOrReplace": "CREATE OR REPLACE TABLE"}.get(self._mode, "CREATE TABLE")
        if there:
            metadata = creation.new_metadata(schema_string, self._partitions, self._properties, description=self._comment, table=handle.path)
            replace_table(handle.state, metadata, cluster_by=self._columns(handle), operation=operation, managed=place.managed, properties=self._properties)
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
                operation=operation,
            )
        except TableExists:
            if self._mode == "createIfNotExists":
                return
            if self._mode != "createOrReplace":
                raise
            self._write(place, True)

    def _columns(self, handle: Handle) -> list[ColumnPath]:
        """Clustering columns as they are spelled in the schema."""
        return named_columns(parse_schema(StructType(self._fields).json(), handle.path), self._clusters, handle.path)

    def _session(self) -> SparkSession:
        """The session that was given, else the active one or a new local one."""
        if self._spark is not None:
            return self._spark
        from rowlock.engines.spark.session.session import spark

        found = spark()
        check_classic(found, f"DeltaTable.{self._mode}")
        return found


def _check_generators(always: Any, by_default: Any) -> None:
    """Raises InvalidInput or WrongType for ways of generating a column that cannot be."""
    if always is not None and by_default is not None:
        raise InvalidInput("generatedAlwaysAs and generatedByDefaultAs cannot both be given")
    if always is not None and not isinstance(always, (str, IdentityGenerator)):
        raise WrongType(f"generatedAlwaysAs must be a string or an IdentityGenerator, not {type(always).__name__}")
    if by_default is not None and not isinstance(by_default, IdentityGenerator):
        raise WrongType(f"generatedByDefaultAs must be an IdentityGenerator, not {type(by_default).__name__}")
