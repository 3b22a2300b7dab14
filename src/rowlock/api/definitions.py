"""Changing what a table is, beyond what `delta.tables` offers: columns and constraints, each as one commit, while others write rows."""

from __future__ import annotations

from rowlock.api import arguments
from rowlock.api.handle import Handle, Receipts
from rowlock.engines.spark.catalyst.types import DataType, StructField, StructType
from rowlock.engines.spark.catalyst.typing import parse_type
from rowlock.protocol import schema
from rowlock.transaction.definition import alteration


class Definitions:
    """The statements that are ALTER TABLE in SQL.  Each raises before anything is written."""

    _handle: Handle
    _receipts: Receipts

    def addConstraint(self, name: str, expression: str) -> None:
        """CHECK: from now on a row is only written where `expression` is true of it.

        Every row that is there is asked, and where others commit meanwhile, every row that they bring.  Raises ConstraintViolated
        naming the row, StatementRefused for a condition with a subquery or that is not deterministic, InvalidInput for a name that is taken.
        """
        self._receipts.last = alteration.add_constraint(
            self._handle.state, self._handle.table.engine, arguments.text(name, "name"), arguments.text(expression, "expression")
        )

    def dropConstraint(self, name: str, ifExists: bool = False) -> None:
        """Takes a constraint away.  Raises InvalidInput where there is none of this name."""
        self._receipts.last = alteration.drop_constraint(self._handle.state, self._handle.table.engine, arguments.text(name, "name"), if_exists=ifExists)

    def addColumn(self, colName: str, dataType: str | DataType, comment: str | None = None) -> None:
        """A new nullable column at the end; rows that are there have null in it.  Raises SchemaMismatch for a name that is taken."""
        field = _field(arguments.text(colName, "colName"), dataType, comment, self._handle.path)
        self._receipts.last = alteration.add_columns(self._handle.state, self._handle.table.engine, [field])

    def renameColumn(self, existing: str, new: str) -> None:
        """Gives a column another name, without a file being written.  Raises StatementRefused unless the table maps columns (delta.columnMapping.mode)."""
        self._receipts.last = alteration.rename_column(
            self._handle.state, self._handle.table.engine, arguments.text(existing, "existing"), arguments.text(new, "new")
        )

    def dropColumns(self, *names: str) -> None:
        """Takes columns away, without a file being written.  Raises StatementRefused unless the table maps columns, and for partition columns."""
        self._receipts.last = alteration.drop_columns(self._handle.state, self._handle.table.engine, [arguments.text(n, "names") for n in names])

    def alterColumn(self, name: str, nullable: bool | None = None, dataType: str | DataType | None = None, comment: str | None = None) -> None:
        """Changes what a column may hold, or what is said of it.

        `nullable=False` asks every row, as `addConstraint` does.  `dataType` may only be wider (int to bigint or double, float to
        double, and the like), on tables with delta.enableTypeWidening.  Raises ConstraintViolated, SchemaMismatch, StatementRefused.
        """
        type_ = None if dataType is None else _field(name, dataType, None, self._handle.path).type
        self._receipts.last = alteration.alter_column(
            self._handle.state, self._handle.table.engine, arguments.text(name, "name"), nullable=nullable, type_=type_, comment=comment
        )


def _field(name: str, data_type: str | DataType, comment: str | None, table: str) -> schema.StructField:
    given = StructType([StructField(name, parse_type(data_type), True, {} if comment is None else {"comment": comment})])
    return schema.parse_schema(given.json(), table).fields[0]
