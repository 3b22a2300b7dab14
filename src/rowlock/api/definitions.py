"""Changing what a table is, beyond what `delta.tables` offers: columns and constraints, each as one commit, while others write rows."""

from __future__ import annotations

from collections.abc import Callable

from rowlock import arguments
from rowlock.api.connect import classic
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.conditions import named
from rowlock.engines.spark.catalyst import column_rules
from rowlock.engines.spark.catalyst.types import DataType, StructType, new_column
from rowlock.engines.spark.read.scan import table_schema
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.protocol import schema
from rowlock.protocol.column_values import is_identity
from rowlock.transaction.definition import alteration, identity
from rowlock.transaction.definition.alteration import ColumnEdit
from rowlock.transaction.state.receipt import Receipt


class Definitions:
    """The methods of `DeltaTable` for what is ALTER TABLE in SQL, beyond `delta.tables`: each is one commit, or raises before anything is written."""

    _handle: Handle
    _receipts: Receipts

    @classic
    @commits("alter")
    def addConstraint(self, name: str, expression: str) -> None:
        """Adds a CHECK constraint: from now on only rows for which the expression is true can be written.

        Every row that is there is checked by a Spark job, and where others commit meanwhile, every row that they bring.

        Args:
            name: The constraint's name.
            expression: A condition on the table's columns, as SQL text.

        Raises:
            ConstraintViolated: A row breaks it; the error names the row.
            StatementRefused: The condition has a subquery or is not deterministic.
            InvalidInput: The name is taken.
            AnalysisException: Spark's: the condition cannot be resolved.

        Examples:
            >>> t.addConstraint("positive", "amount > 0")
            >>> t.update(set={"amount": "-1"})
            Traceback (most recent call last):
            ...
            rowlock.exceptions.ConstraintViolated: ...
        """
        self._alter(alteration.add_constraint, arguments.text(name, "name"), arguments.text(expression, "expression"))

    @commits("alter")
    def dropConstraint(self, name: str, ifExists: bool = False) -> None:
        """Removes a CHECK constraint, in one commit.  Runs no Spark job.

        Args:
            name: The constraint's name.
            ifExists: Whether to do nothing where there is none of the name.

        Raises:
            InvalidInput: There is no constraint of the name, and `ifExists` is false.

        Examples:
            >>> t.dropConstraint("positive", ifExists=True)
        """
        self._alter(alteration.drop_constraint, arguments.text(name, "name"), if_exists=arguments.flag(ifExists, "ifExists"))

    @commits("alter")
    def addColumn(self, colName: str, dataType: str | DataType, comment: str | None = None) -> None:
        """Adds a nullable column at the end; rows that are there have null in it.  Writes no data file; runs no Spark job.

        Args:
            colName: The column's name.
            dataType: A Spark DataType, or text such as `BIGINT` or `array<string>`.
            comment: The column's comment.

        Raises:
            SchemaMismatch: The name is taken.
            InvalidInput: The type is not one that Spark knows; it is Spark's ParseException, too.
            UnsupportedFeature: This version cannot write columns of the type.

        Examples:
            >>> t.addColumn("note", "STRING", comment="free text")
            >>> t.toDF().columns
            ['id', 'region', 'amount', 'note']
        """
        field = field_of(arguments.text(colName, "colName"), dataType, arguments.optional(arguments.text, comment, "comment"), self._handle.path)
        self._alter(alteration.add_columns, [field])

    @commits("alter")
    def renameColumn(self, existing: str, new: str) -> None:
        """Gives a column another name.  Writes no data file; runs no Spark job.

        Args:
            existing: The column's name now.
            new: Its name from now on.

        Raises:
            StatementRefused: The table does not map columns (`delta.columnMapping.mode`), or something names the column (a constraint, a generated column).
            SchemaMismatch: There is no such column, or the new name is taken.

        Examples:
            >>> t = DeltaTable.create(spark).location(folder + "/new").addColumn("id", "BIGINT").property("delta.columnMapping.mode", "name").execute()
            >>> t.renameColumn("id", "key")
            >>> t.toDF().columns
            ['key']
        """
        self._alter(alteration.rename_column, (arguments.text(existing, "existing"),), arguments.text(new, "new"))

    @commits("alter")
    def dropColumns(self, *names: str) -> None:
        """Removes columns.  Writes no data file; runs no Spark job.

        Args:
            *names: The columns' names.

        Raises:
            StatementRefused: The table does not map columns (`delta.columnMapping.mode`), a column is a partition column, or something names it.
            SchemaMismatch: There is no such column.

        Examples:
            >>> t = DeltaTable.create(spark).location(folder + "/new").addColumns(updates.schema).property("delta.columnMapping.mode", "name").execute()
            >>> t.dropColumns("amount", "region")
            >>> t.toDF().columns
            ['id']
        """
        self._alter(alteration.drop_columns, [(arguments.text(n, "names"),) for n in names])

    @commits("alter")
    def alterColumn(self, name: str, nullable: bool | None = None, dataType: str | DataType | None = None, comment: str | None = None) -> None:
        """Changes a column's type, nullability or comment.  Writes no data file.

        `nullable=False` checks every row by a Spark job, as `addConstraint` does; all else runs none.

        Args:
            name: The column's name.
            nullable: Whether null is allowed; None leaves it as it is.
            dataType: A wider type (int to bigint or double, float to double, and the like), on tables with `delta.enableTypeWidening`; None leaves it.
            comment: The column's comment; None leaves it.

        Raises:
            ConstraintViolated: A row has null where that is to be forbidden.
            SchemaMismatch: There is no such column, or the type is not wider.
            StatementRefused: The table does not allow types to change.

        Examples:
            >>> t.alterColumn("id", nullable=False, comment="the key")
            >>> t.toDF().schema["id"].nullable
            False
        """
        arguments.text(name, "name")
        may_be_null, text = arguments.optional(arguments.flag, nullable, "nullable"), arguments.optional(arguments.text, comment, "comment")
        field = None if dataType is None else field_of(name, dataType, None, self._handle.path)
        self._alter(alteration.edit_columns, [ColumnEdit((name,), may_be_null, field, text)])

    @classic
    @commits("alter")
    def setDefault(self, colName: str, expression: str) -> None:
        """Sets the default of a column: from now on new rows whose statement does not name the column get it.  Rows that are there stay as they are.

        In statements the word DEFAULT as a value stands for it.  Writes no data file; runs no Spark job.

        Args:
            colName: The column's name.
            expression: The value as SQL text; it may use functions such as `current_timestamp()`, but no column.

        Raises:
            InvalidInput: The expression uses a column, or is not of a type that fits; it is Spark's AnalysisException, too.
            StatementRefused: The table's protocol does not list `allowColumnDefaults` (see `addFeatureSupport`), or the column is generated.
            SchemaMismatch: There is no such column.
            AnalysisException: Spark's: the expression cannot be resolved.

        Examples:
            >>> t.addFeatureSupport("allowColumnDefaults")
            >>> t.setDefault("region", "'eu'")
            >>> rowlock.write(t.toDF().select("id").limit(1), path).version
            3
        """
        name, text = arguments.text(colName, "colName"), arguments.text(expression, "expression")
        check_new_default(self._handle, name, text)
        self._alter(alteration.edit_columns, [ColumnEdit((name,), default=text)])

    @commits("alter")
    def dropDefault(self, colName: str) -> None:
        """Removes the default of a column, which is null from then on where a statement does not name it.  Writes no data file; runs no Spark job.

        Args:
            colName: The column's name.

        Raises:
            SchemaMismatch: There is no such column.

        Examples:
            >>> t.dropDefault("region")
        """
        self._alter(alteration.edit_columns, [ColumnEdit((arguments.text(colName, "colName"),), drops_default=True)])

    def _alter(self, change: Callable[..., Receipt], *what: object, **how: object) -> None:
        """Commits a change of the definition."""
        self._receipts.last = change(self._handle.state, self._handle.table.engine, *what, **how)

    @classic
    @commits("alter")
    def syncIdentity(self, colName: str) -> None:
        """Moves the numbers of an identity column beyond all that are in its rows, which statements may have set; never back.

        One Spark job finds the furthest number; one commit, none where nothing is to be moved.

        Args:
            colName: The column's name.

        Raises:
            InvalidInput: It is no identity column.
            SchemaMismatch: There is no such column.

        Examples:
            >>> from rowlock.tables import IdentityGenerator
            >>> builder = DeltaTable.create(spark).location(folder + "/new").addColumn("region", "STRING")
            >>> t = builder.addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator()).execute()
            >>> r = rowlock.write(updates.select("id", "region"), folder + "/new")
            >>> t.syncIdentity("id")
            >>> r = rowlock.write(updates.select("region").limit(1), folder + "/new")
            >>> [row.id for row in t.toDF().orderBy("id").collect()]
            [3, 4, 5]
        """
        handle, name = self._handle, arguments.text(colName, "colName")
        head = handle.state.refresh()
        if (found := head.schema.find(name)) is None:
            condition = schema.unresolved_column([name], head.schema.names)
            raise SchemaMismatch(f"There is no column {name!r}; the table has {', '.join(head.schema.names)}", table=handle.path, condition=condition)
        if not is_identity(found):
            condition = named("DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN")
            raise InvalidInput(f"Column {found.name} is no identity column", table=handle.path, condition=condition)
        self._receipts.last = identity.sync(handle.state, name, lambda snapshot, column: handle.planner.furthest_number(snapshot, column))


def field_of(name: str, data_type: str | DataType, comment: str | None, table: str) -> schema.StructField:
    """A nullable field of the table's schema, of a type as the user writes it."""
    given = StructType([new_column(name, data_type, metadata={} if comment is None else {"comment": comment})])
    return schema.parse_schema(given.json(), table).fields[0]


def check_new_default(handle: Handle, name: str, text: str) -> None:
    """Raises InvalidInput where a text cannot be the default of the column; a column that is not there is left to the commit."""
    field = next((f for f in table_schema(handle.state.refresh()).fields if f.name.lower() == name.lower()), None)
    if field is not None:
        column_rules.check_default(handle.spark, field, text, handle.path, "ALTER TABLE ALTER COLUMN")
