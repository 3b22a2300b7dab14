"""Random statements over a case's table."""

from __future__ import annotations

import random
from collections.abc import Mapping

from model.swarm.history import Contest, Table
from model.swarm.statements import Clause, Expr, Sets, Step

_NOT_ORDERED = ("struct", "array", "map")


class Programs:
    """Makes steps for one case."""

    def __init__(self, table: Table, axes: Mapping[str, str], rng: random.Random) -> None:
        self._table, self._axes, self._rng = table, axes, rng
        self._spark_only = axes["oracle"] == "spark"
        self._next = 1000

    # ---- who meets whom --------------------------------------------------------------------

    def contest(self, loser: str, winner: str, when: str, *, alone: bool = False) -> Contest:
        program = [self.step(kind) for kind in self._rng.choice(_SEVERAL)] if loser == "several" else [self.step(loser)]
        own = self.step(winner)
        other = self.step(self._rng.choice(("update", "delete", "merge", "append")))
        pair = [own] if alone else [own, other]
        self._rng.shuffle(pair)
        rounds = {"staged": [pair], "before_put": [[], pair], "both": [pair[:1], pair[1:]]}[when]
        return Contest(program, rounds)

    def step(self, kind: str, *, few: bool = False) -> Step:
        rng = self._rng
        match kind:
            case "update":
                return Step("update", self._maybe_where(), self._sets(""))
            case "delete":
                return Step("delete", Expr("{rid} % 5 = 1") if few else self._where())
            case "merge":
                return self._merge()
            case "delta-spark":
                return Step("delete", Expr("{k} = {0} OR {rid} % 7 = 2", (("long", rng.randint(0, 5)),)), how="delta-spark")
            case "append" | "arrow append" | "deltalake append" | "append by hand":
                return Step(
                    "append",
                    rows=self._rows(rng.randint(1, 4)),
                    how={"append": "spark", "arrow append": "arrow", "deltalake append": "deltalake", "append by hand": "hand"}[kind],
                )
            case "overwrite":
                return Step("overwrite", rows=self._rows(rng.randint(2, 6)))
            case "replace where":
                return self._replace_where()
            case "add constraint":
                return Step("add constraint", more=(rng.choice((100, 100, 5)),))
            case "restore":
                return Step("restore", more=(rng.random(),))
            case _:
                return Step(kind)

    def _rows(self, count: int):  # type: ignore[no-untyped-def]
        self._next += 100
        return self._table.rows(self._rng, count, self._next)

    def _replace_where(self) -> Step:
        """Rows that all meet the condition, which is one of k."""
        wanted = self._rng.choice([k for k in self._table.pools["k"] if k is not None])
        rows = self._rows(self._rng.randint(1, 4))
        import pyarrow as pa

        at = rows.column_names.index("k")
        return Step(
            "overwrite",
            Expr("{k} = {0}", (("long", wanted),)),
            rows=rows.set_column(at, "k", pa.array([wanted] * rows.num_rows, pa.int64())),
            how="replace where",
        )

    # ---- expressions -----------------------------------------------------------------------

    def _maybe_where(self) -> Expr | None:
        return None if self._rng.random() < 0.1 else self._where()

    def _where(self, prefix: str = "") -> Expr:
        rng, first = self._rng, self._atom(prefix)
        fate = rng.random()
        if fate < 0.35:
            return first
        if fate < 0.5:
            return first.negated()
        return first.joined(rng.choice(("AND", "OR")), self._atom(prefix))

    def _atom(self, prefix: str) -> Expr:
        rng, table = self._rng, self._table
        if self._spark_only and rng.random() < 0.35 and (found := self._of_spark(prefix)):
            return rng.choice(found)
        roles = list(table.given if prefix == "s_" else table.roles)
        role = rng.choice([*roles, "k", "k", "v", *table.partition, *table.partition])
        kind, name = table.roles[role], f"{{{prefix}{role}}}"
        if role == "rid":
            return rng.choice((Expr(f"{name} % {rng.choice((2, 3, 4))} = 1"), Expr(f"{name} > {rng.randint(0, 20)}"), Expr(f"{name} IN (1, 7, 13, 1100)")))
        if kind == "struct" and rng.random() < 0.6:
            part = f"{{{prefix}{role}_a}}"
            return Expr(rng.choice((f"{part} = 1", f"{part} IS NULL", f"{part} > 0")))
        if kind in _NOT_ORDERED or rng.random() < 0.15:
            return Expr(f"{name} IS {rng.choice(('', 'NOT '))}NULL")
        pool = [v for v in table.pools.get(role, [0, 2, 4]) if v is not None]
        if rng.random() < 0.2:
            return Expr(f"{name} IN ({{0}}, {{1}})", ((kind, rng.choice(pool)), (kind, rng.choice(pool))))
        op = rng.choice(("=", "=", "<>", "<", "<=", ">", ">=", "<=>"))
        return Expr(f"{name} {op} {{0}}", ((kind, rng.choice(pool)),), duck=f"{name} IS NOT DISTINCT FROM {{0}}" if op == "<=>" else None)

    def _of_spark(self, prefix: str) -> list[Expr]:
        """Conditions whose meaning is the session's: its zone, its casts."""
        out = [Expr(f"length({{{prefix}s}}) > 1", equal=False), Expr(f"upper({{{prefix}s}}) = 'A'", equal=False)]
        for role, kind in self._table.roles.items():
            name = f"{{{prefix}{role}}}"
            if kind == "timestamp":
                out += [
                    Expr(f"hour({name}) < 3", equal=False),
                    Expr(f"{name} >= '2024-03-10 02:30:00'", equal=False),
                    Expr(f"CAST({name} AS DATE) = DATE'2024-03-10'", equal=False),
                ]
                out += [
                    Expr(f"{name} < TIMESTAMP'2024-10-27 02:30:00'", equal=False),
                    Expr(f"date_trunc('DAY', {name}) = TIMESTAMP'2024-11-03 00:00:00'", equal=False),
                ]
            if kind == "timestamp_ntz":
                out += [
                    Expr(f"CAST({name} AS TIMESTAMP) <= TIMESTAMP'2024-03-31 02:30:00'", equal=False),
                    Expr(f"{name} > TIMESTAMP_NTZ'2024-03-10 02:29:59.999999'", equal=False),
                ]
            if kind == "date":
                out += [Expr(f"{name} >= TIMESTAMP'2024-03-31 00:30:00'", equal=False), Expr(f"year({name}) < 2024", equal=False)]
            if kind == "string" and role != "s":
                out += [Expr(f"{name} LIKE 'a%'", equal=False)]
            if kind in ("double", "float"):
                out += [Expr(f"isnan({name})", equal=False), Expr(f"{name} > 1", equal=False)]
        return out

    def _value(self, role: str, prefix: str) -> Expr:
        rng, table, kind = self._rng, self._table, self._table.roles[role]
        name = f"{{{prefix}{role}}}"
        if role == "k":
            return rng.choice(
                (
                    Expr(f"({name} + 1) % 6"),
                    Expr("{0}", (("long", rng.randint(0, 5)),)),
                    Expr(f"coalesce({name}, 0)"),
                    Expr(name) if table.not_null and rng.random() < 0.7 else Expr("CAST(NULL AS BIGINT)"),
                )
            )
        if role == "v":
            some = [Expr(f"{name} + 1"), Expr(f"{name} * 3 + 1"), Expr(f"{{{prefix}rid}} % 7"), Expr("CAST(NULL AS BIGINT)")]
            some += (
                [
                    Expr(f"{name} div {{{prefix}k}}", equal=False),
                    Expr(f"{name} + 9223372036854775800", equal=False),
                    Expr(f"CAST({{{prefix}s}} AS BIGINT)", equal=False),
                ]
                if self._spark_only
                else []
            )
            return rng.choice(some)
        if role == "s" and self._spark_only and rng.random() < 0.4 and self._axes["type of x"] not in _NOT_ORDERED:
            return rng.choice((Expr(f"CAST({{{prefix}x}} AS STRING)", equal=False), Expr(f"concat({name}, '!')", equal=False)))
        if kind == "timestamp" and self._spark_only and rng.random() < 0.3:
            return Expr(f"{name} + INTERVAL 1 HOUR", equal=False)
        if kind == "struct":
            a, b = rng.choice(("1", "NULL")), rng.choice(("'q'", "NULL"))
            return Expr(
                f"CAST(named_struct('a', {a}, 'b', {b}) AS STRUCT<a: INT, b: STRING>)",
                duck=f"CAST(struct_pack(a := {a}, b := {b}) AS STRUCT(a INT, b VARCHAR))",
            )
        if kind in ("array", "map"):
            types = {"array": ("ARRAY<DOUBLE>", "DOUBLE[]"), "map": ("MAP<STRING, INT>", "MAP(VARCHAR, INT)")}[kind]
            return Expr(f"CAST(NULL AS {types[0]})", duck=f"CAST(NULL AS {types[1]})")
        return Expr("{0}", ((kind, rng.choice(table.pools[role])),))

    def _sets(self, prefix: str) -> Sets:
        able = [r for r in self._table.given if r != "rid"]
        wanted = self._rng.sample(able, self._rng.randint(1, 3)) + (["p"] if "p" in able and self._rng.random() < 0.2 else [])
        return tuple((role, self._value(role, prefix)) for role in dict.fromkeys(wanted))

    # ---- MERGE -----------------------------------------------------------------------------

    def _merge(self) -> Step:
        rng, table = self._rng, self._table
        rows = self._rows(rng.randint(1, 4))
        if rng.random() < 0.85:  # mostly one source row for each key
            import pyarrow as pa

            keys = rng.sample([k for k in table.pools["k"] if k is not None], rows.num_rows)
            rows = rows.set_column(rows.column_names.index("k"), "k", pa.array(keys, pa.int64()))
        on = rng.choice(
            (
                Expr("{t_k} = {s_k}"),
                Expr("{t_k} = {s_k}"),
                Expr("{t_k} = {s_k} AND {t_rid} % 3 <> 1"),
                Expr("{t_k} = {s_k} AND {t_v} >= {s_v}"),
                Expr("{t_k} >= {s_k} AND {t_k} < {s_k} + 1"),
                Expr("{t_k} <=> {s_k}", duck="{t_k} IS NOT DISTINCT FROM {s_k}"),
            )
        )
        others = [r for r in table.given if r not in ("rid", "k") and table.roles[r] not in _NOT_ORDERED]
        if rng.random() < 0.2 and others:
            role = rng.choice(others)
            on = on.joined("AND", Expr(f"{{t_{role}}} <> {{s_{role}}}"))
        clauses: list[Clause] = []
        maybe = lambda prefix: self._where(prefix) if rng.random() < 0.4 else None  # noqa: E731
        if rng.random() < 0.4:
            clauses.append(Clause("matched", "delete", self._where("t_")))
        if rng.random() < 0.8:
            copied = rng.sample([r for r in table.given if r != "rid"], 2)
            clauses.append(Clause("matched", "update", maybe("t_"), tuple((r, Expr(f"{{s_{r}}}")) for r in copied) if rng.random() < 0.5 else self._sets("t_")))
        if rng.random() < 0.7:
            chosen = (
                None
                if rng.random() < 0.6 and self._axes["winner"] not in ("add column", "rename column")
                else tuple((r, Expr(f"{{s_{r}}}")) for r in table.given if r in ("rid", "k", "v", "x", *table.partition))
            )
            clauses.append(Clause("not matched", "insert", maybe("s_"), chosen))
        if rng.random() < 0.35:
            clauses.append(Clause("not matched by source", "update", self._where("t_"), self._sets("t_")))
        if rng.random() < 0.25 or not clauses:
            clauses.append(Clause("not matched by source", "delete", self._where("t_")))
        return Step("merge", rows=rows, on=on, clauses=tuple(clauses))


_SEVERAL = (
    ("update", "delete"),
    ("append", "update"),
    ("merge", "update"),
    ("delete", "merge"),
    ("update", "append", "update"),
    ("merge", "merge"),
    ("append", "merge", "delete"),
)
