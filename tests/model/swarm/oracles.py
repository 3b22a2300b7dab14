"""What a history makes of a table when its transactions run one after another, in log order: by DuckDB, or by Spark over Parquet-like plain rows.

Neither knows files, versions or rebases, and neither reads with Rowlock.  Rows are Arrow tables under the names of roles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.swarm.history import Table
from model.swarm.statements import Clause, Expr, Step
from model.swarm.values import KINDS


class Refused(Exception):
    """A statement that must raise: a constraint, several matches, an error of an expression."""


@dataclass
class Model:
    """A table in memory, and its rows at each version."""

    table: Table
    dialect: str
    roles: dict[str, str] = field(default_factory=dict)
    rows: pa.Table = field(init=False)
    versions: dict[int, pa.Table] = field(default_factory=dict)
    checks: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roles = dict(self.table.roles)
        self.checks = list(self.table.checks)
        self.rows = self._schema().empty_table()
        self._flat_columns = {}
        for role, kind in (self.roles | {"extra": "int"}).items():
            for head in ("", "t_", "s_"):
                self._flat_columns[head + role] = head + role
                if kind == "struct":
                    self._flat_columns |= {f"{head}{role}_{part}": f"{head}{role}.{part}" for part in "ab"}

    def _schema(self) -> pa.Schema:
        return pa.schema([(role, KINDS[kind].arrow) for role, kind in self.roles.items()])

    def at(self, version: int) -> None:
        """The rows are those of this version from now on."""
        self.versions[version] = self.rows

    def run(self, steps: Sequence[Step]) -> None:
        """One transaction.  Raises Refused, and leaves the rows as they were."""
        before, checks, roles = self.rows, list(self.checks), dict(self.roles)
        try:
            for step in steps:
                self._run(step)
        except BaseException:
            self.rows, self.checks, self.roles = before, checks, roles
            raise

    def _run(self, step: Step) -> None:
        match step.kind:
            case "update":
                self.rows = self._kept(self._updated(step), "an updated row")
            case "delete":
                self.rows = self._without(step.where)
            case "append":
                self._append(step.rows)
            case "overwrite":
                self.rows = self._without(step.where)
                self._append(step.rows)
            case "merge":
                self.rows = self._kept(self._merged(step), "a merged row")
            case "add constraint":
                self.checks.append(constraint(step))
                self._kept(self.rows, "a row that is there")
            case "add column":
                self.roles["extra"] = "int"
                self.rows = self.rows.append_column("extra", pa.nulls(self.rows.num_rows, pa.int32()))

    def _append(self, rows: pa.Table | None) -> None:
        assert rows is not None
        columns = [rows.column(r) if r in rows.column_names else pa.nulls(rows.num_rows, f.type) for r, f in zip(self.roles, self._schema(), strict=True)]
        more = self._kept(pa.table(columns, schema=self._schema()), "a new row")
        self.rows = pa.concat_tables([self.rows, more])

    def _without(self, where: Expr | None) -> pa.Table:
        if where is None:
            return self._schema().empty_table()
        hit = pc.fill_null(self.project(self.rows, {"hit": where}, boolean=True).column("hit"), False)
        assert len(hit) == self.rows.num_rows, f"{len(hit)} of {self.rows.num_rows} rows were looked at"
        return self.rows.filter(pc.invert(hit))

    def _updated(self, step: Step) -> pa.Table:
        sets = dict(step.sets)
        return self.cases(self.rows, {r: [(step.where, sets[r])] if r in sets else [] for r in self.roles}, "")

    def _kept(self, rows: pa.Table, what: str) -> pa.Table:
        """The rows as a table keeps them: generated columns computed, empty partition values null.  Raises Refused where one breaks a constraint."""
        for role in self.table.partition:
            column = rows.column(role)
            if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                empty = pc.fill_null(pc.equal(pc.binary_length(column), 0), False)
                rows = rows.set_column(rows.column_names.index(role), role, pc.if_else(empty, pa.scalar(None, column.type), column))
        if self.table.generated:
            rows = self.cases(rows, {r: [(None, self.table.generated[r])] if r in self.table.generated else [] for r in self.roles}, "")
        for role in self.table.not_null:
            if rows.column(role).null_count:
                raise Refused(f"{what} has null in {role}")
        for check in self.checks:
            found = self.project(rows, {"ok": check}, boolean=True).column("ok")
            if not pc.all(pc.fill_null(found, False), min_count=0).as_py():
                raise Refused(f"{what} breaks {check.text}")
        return rows

    # ---- MERGE, by pairs -------------------------------------------------------------------

    def _merged(self, step: Step) -> pa.Table:
        source = step.rows
        assert source is not None and step.on is not None
        t, s = self.rows.num_rows, source.num_rows
        every = self._paired(np.repeat(np.arange(t), s), np.tile(np.arange(s), t), source)
        hit = np.asarray(pc.fill_null(self.project(every, {"hit": step.on}, boolean=True).column("hit"), False).to_numpy(zero_copy_only=False), dtype=bool)
        left, right = np.repeat(np.arange(t), s)[hit], np.tile(np.arange(s), t)[hit]
        matched = [c for c in step.clauses if c.when == "matched"]
        lenient = not matched or (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None)
        if not lenient and len(np.unique(left)) < len(left):
            raise Refused("several source rows match one row")
        alone, new = np.setdiff1d(np.arange(t), left), np.setdiff1d(np.arange(s), right)
        first = np.unique(left, return_index=True)[1]
        parts = [self._outcome(self._paired(left[first], right[first], source), matched)]
        parts.append(self._outcome(self._paired(alone, np.full(len(alone), -1), source), [c for c in step.clauses if c.when == "not matched by source"]))
        inserts = [c for c in step.clauses if c.when == "not matched"]
        if inserts:
            parts.append(self._outcome(self._paired(np.full(len(new), -1), new, source), inserts, insert=True))
        return pa.concat_tables(parts)

    def _paired(self, left: Any, right: Any, source: pa.Table) -> pa.Table:
        columns: dict[str, Any] = {}
        for head, table, at in (("t_", self.rows, left), ("s_", source, right)):
            index = pa.array(np.asarray(at, dtype=np.int64), mask=np.asarray(at) < 0)
            columns |= {head + n: table.column(n).take(index) for n in table.column_names}
        return pa.table(columns)

    def _outcome(self, pairs: pa.Table, clauses: Sequence[Clause], *, insert: bool = False) -> pa.Table:
        """The rows that clauses make of pairs; a pair that none applies to keeps its row, and as an insert is none."""
        if not pairs.num_rows:
            return self._schema().empty_table()
        action = np.asarray(self.choices(pairs, [c.condition for c in clauses]), dtype=np.int64)
        parts = [] if insert else [self._target(pairs.filter(pa.array(action < 0)))]
        for n, clause in enumerate(clauses):
            if clause.action == "delete":
                continue
            chosen = pairs.filter(pa.array(action == n))
            sets = {r: Expr(f"{{s_{r}}}") for r in self.table.given} if clause.sets is None else dict(clause.sets)
            values = {r: [(None, sets[r])] if r in sets else [] for r in self.roles}
            parts.append(self.cases(chosen, values, "" if insert else "t_"))
        return pa.concat_tables(parts) if parts else self._schema().empty_table()

    def _target(self, pairs: pa.Table) -> pa.Table:
        return pa.table([pairs.column(f"t_{r}") for r in self.roles], schema=self._schema())

    # ---- what a dialect evaluates ----------------------------------------------------------

    evaluate: Callable[[pa.Table, list[tuple[str, str, str]]], pa.Table] = field(init=False)
    """(rows, (name, SQL, type in the dialect)) to a table with these columns."""

    def project(self, rows: pa.Table, exprs: dict[str, Expr], *, boolean: bool = False) -> pa.Table:
        if not rows.num_rows:
            return pa.table({n: pa.array([], pa.bool_()) for n in exprs})
        return self.evaluate(rows, [(n, self._flat(e), "BOOLEAN" if boolean else "") for n, e in exprs.items()])

    def choices(self, rows: pa.Table, conditions: Sequence[Expr | None]) -> list[int]:
        """The number of the first condition that is true of each row; -1 where none is."""
        if not rows.num_rows:
            return []
        whens = " ".join(f"WHEN {self._flat(c) if c else 'true'} THEN {n}" for n, c in enumerate(conditions))
        sql = f"CASE {whens} ELSE -1 END" if whens else "-1"
        found: list[int] = self.evaluate(rows, [("n", sql, "INT")]).column("n").to_pylist()
        return found

    def cases(self, rows: pa.Table, values: dict[str, list[tuple[Expr | None, Expr]]], keep: str) -> pa.Table:
        """For each role its value: the first whose condition holds, else what the row has under `keep` + role, else null."""
        wanted = []
        for role, options in values.items():
            kind = KINDS[self.roles[role]]
            own = keep + role if keep + role in rows.column_names else "NULL"
            sql = own
            for condition, value in reversed(options):
                sql = (
                    self._flat(value)
                    if condition is None
                    else f"CASE WHEN {self._flat(condition)} THEN {self._cast(self._flat(value), kind.spark)} ELSE {sql} END"
                )
            wanted.append((role, sql, kind.spark))
        changed = [w for w in wanted if w[1] != keep + w[0]]
        found = self.evaluate(rows, changed).columns if changed and rows.num_rows else []
        made = dict(zip([c[0] for c in changed], found, strict=False))
        empty = self._schema()
        columns = [
            made[r] if r in made else rows.column(keep + r) if keep + r in rows.column_names else pa.nulls(rows.num_rows, empty.field(r).type)
            for r in self.roles
        ]
        return pa.table(columns, schema=empty)

    def _cast(self, sql: str, kind: str) -> str:
        return f"CAST({sql} AS {kind if self.dialect == 'spark' else duck_type(kind)})"

    def _flat(self, expr: Expr) -> str:
        """SQL over the flat columns `role`, `t_role`, `s_role`."""
        return f"({expr.sql(self._flat_columns, self.dialect)})"


def constraint(step: Step) -> Expr:
    """The condition of an ADD CONSTRAINT."""
    return Expr(f"{{k}} IS NULL OR {{k}} < {step.more[0]}")


def duck_type(spark: str) -> str:
    names = {
        "STRING": "VARCHAR",
        "BINARY": "BLOB",
        "TIMESTAMP": "TIMESTAMPTZ",
        "TIMESTAMP_NTZ": "TIMESTAMP",
        "STRUCT<a: INT, b: STRING>": "STRUCT(a INT, b VARCHAR)",
        "ARRAY<DOUBLE>": "DOUBLE[]",
        "MAP<STRING, INT>": "MAP(VARCHAR, INT)",
    }
    return names.get(spark, spark)


def duckdb_model(table: Table) -> Model:
    import duckdb

    model = Model(table, "duckdb")
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone='UTC'")

    def evaluate(rows: pa.Table, wanted: list[tuple[str, str, str]]) -> pa.Table:
        connection.register("r", rows)
        sql = ", ".join(f"{f'CAST({e} AS {duck_type(t)})' if t else e} AS {n}" for n, e, t in wanted)
        out = connection.execute(f"SELECT {sql} FROM r").to_arrow_table()
        connection.unregister("r")
        kinds = {n: KINDS[model.roles[n]].arrow for n, _, t in wanted if t not in ("BOOLEAN", "INT") and n in model.roles}
        return pa.table({n: out.column(n).cast(kinds[n]) if n in kinds else out.column(n) for n in out.column_names})

    model.evaluate = evaluate
    return model


def spark_model(table: Table, spark: Any) -> Model:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    model = Model(table, "spark")
    types = {kind.arrow: _parse_datatype_string(kind.spark) for kind in KINDS.values()}

    def evaluate(rows: pa.Table, wanted: list[tuple[str, str, str]]) -> pa.Table:
        schema = StructType([StructField(f.name, types[f.type], True) for f in rows.schema])
        frame = spark.createDataFrame(rows.combine_chunks(), schema=schema).coalesce(1)
        try:
            out = frame.selectExpr(*(f"{f'CAST({e} AS {t})' if t else e} AS {n}" for n, e, t in wanted)).toArrow()
        except PySparkException as e:
            raise Refused(f"{type(e).__name__}: {str(e)[:200]}") from e
        kinds = {n: KINDS[model.roles[n]].arrow for n, _, t in wanted if t not in ("BOOLEAN", "INT") and n in model.roles}
        return pa.table({n: _same(out.column(n), kinds[n]) if n in kinds else out.column(n) for n in out.column_names})

    model.evaluate = evaluate
    return model


def _same(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).cast(kind)
    return column.cast(kind)
