"""Random conditions over rows of every type against Spark: no row and no file is left out of which Spark says yes (I3), and what is certain is right.

`CONDITIONS=100000 pytest tests/spark/test_conditions.py` is the long form.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.catalyst.predicates import Condition, translated
from rowlock.log.pruning import files_that_may_match
from rowlock.protocol import predicates as ir, statistics
from rowlock.protocol.evaluation import Places, may_hold
from rowlock.protocol.intervals import of_rows
from rowlock.protocol.schema import StructType, parse_schema
from spark.support import calls_into_the_jvm
from spark.test_row_masks import COLUMNS, PARTLY, UNDERSTOOD, random_rows

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("it makes no table")]

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia")
AT_ONCE = 250
COUNT = int(os.environ.get("CONDITIONS", "500"))
LITERALS = {
    "int": ("0", "1", "7", "-7", "64", "128", "-129", "2147483647", "9223372036854775807L", "-1L"),
    "text": ("''", "'a'", "'ab'", "'A'", "'7'", "'ä'", "'日本'", "' ab '", "'b'"),
    "day": ("date '2024-02-29'", "date '1970-01-01'", "date '0001-01-01'", "date '9999-12-31'", "date '1582-10-10'"),
    "real": ("0.0D", "-0.0D", "1.5D", "double('NaN')", "double('Infinity')", "0.1D", "1e300D"),
    "money": ("0.10", "-1.50", "99999999.99", "0", "1.005"),
    "at": ("timestamp '2024-03-10 07:30:00'", "timestamp '1582-10-04 00:00:00'", "timestamp '2024-11-03 01:30:00'"),
    "clock": ("timestamp_ntz '2024-03-10 07:30:00'", "timestamp_ntz '1969-12-31 23:59:59.999999'"),
}
PLAIN = {
    "int": ("id", "small", "tiny", "deep.n"),
    "text": ("text", "other", "deep.s"),
    "day": ("day", "deep.d"),
    "real": ("real", "single"),
    "money": ("money", "wide"),
    "at": ("at",),
    "clock": ("clock",),
}
"""Columns by what they hold."""
MADE = {
    "int": (
        "{int} % 7", "{int} + {int}", "{int} - {int}", "{int} * 3", "-({int})", "abs({int})", "{int} div 7", "pmod({int}, 7)", "{int} & 7", "{int} | 1", "{int} ^ 5",
        "length({text})", "year({day})", "month({day})", "day({day})", "quarter({day})", "dayofyear({day})", "dayofweek({day})", "weekday({day})", "weekofyear({day})",
        "datediff({day}, {day})", "coalesce({int}, 7)", "coalesce({int}, {int}, {int})", "cast({int} as int)", "cast({int} as bigint)", "hour({at})", "year({at})", "hash({text})",
        "{int} % {int}", "if({int} > 0, 1, 2)",
    ),
    "text": (
        "upper({text})", "lower({text})", "substring({text}, 1, 2)", "substring({text}, 2, 1)", "left({text}, 1)", "trim({text})", "trim(both 'a' from {text})", "rtrim({text})", "ltrim({text})", "{text} || {text}",
        "coalesce({text}, 'x')", "coalesce({text}, {text})", "cast({int} as string)", "reverse({text})", "cast({day} as string)",
    ),
    "day": ("date_add({day}, 1)", "date_sub({day}, small)", "{day} + 30", "coalesce({day}, {day})", "to_date({at})", "trunc({day}, 'year')"),
    "real": ("{real} + 1.0D", "{real} * 2.0D", "{real} / {real}", "-({real})", "abs({real})", "cast({int} as double)", "coalesce({real}, 0.0D)", "{int} / {int}"),
    "money": ("cast({int} as decimal(20,0))", "coalesce({money}, {money})", "{money} + 1", "cast({money} as decimal(38,10))"),
    "at": ("coalesce({at}, {at})", "date_trunc('year', {at})"),
    "clock": ("coalesce({clock}, {clock})",),
}  # fmt: skip
"""Expressions by what they give."""
TESTS = (
    *(f"{{a}} {op} {{b}}" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")), "{a} = {l}", "{a} < {l}", "{l} <= {a}", "{a} >= {l}", "{a} in ({l}, {m})", "{a} not in ({l}, {m})", "{a} in ({l}, null)",
    "{a} between {l} and {m}", "{a} not between {l} and {b}", "{a} is null", "{a} is not null",
)  # fmt: skip
LIKES = ("like 'a%'", "like '%b'", "like '%b%'", "like 'a%b'", "like 'a_%'", "not like 'ab%'", "like '%'", "like ''", "like 'a\\\\_%'", "rlike '^a'")


def expression(draw: random.Random, kind: str, depth: int = 2) -> str:
    """A random expression that gives values of a kind."""
    chance = draw.random()
    if depth and chance < 0.5:
        made = draw.choice(MADE[kind])
        return "(" + "".join(p if n % 2 == 0 else expression(draw, p, depth - 1) for n, p in enumerate(made.replace("{", "}").split("}"))) + ")"
    return draw.choice(LITERALS[kind] if chance > 0.95 else PLAIN[kind])


def condition(draw: random.Random, depth: int = 2) -> str:
    """A random condition."""
    chance = draw.random()
    if depth and chance < 0.4:
        joined = draw.choice(("({}) and ({})", "({}) or ({})", "not ({})", "not (({}) and ({}))", "({}) <=> ({})"))
        return joined.format(*(condition(draw, depth - 1) for _ in range(joined.count("{}"))))
    if chance > 0.97:
        return draw.choice((*UNDERSTOOD, *PARTLY, "flag", "not flag", "deep is null", "deep.s is not null"))
    kind = draw.choice(tuple(PLAIN))
    if kind == "text" and chance > 0.8:
        return f"{expression(draw, kind)} {draw.choice(LIKES)}"
    said = draw.choice(TESTS)
    return said.format(a=expression(draw, kind), b=expression(draw, kind), l=draw.choice(LITERALS[kind]), m=draw.choice(LITERALS[kind]))


class _World:
    """Rows on the driver, the same as files with statistics, and as a frame of Spark's."""

    def __init__(self, spark: SparkSession, seed: int, size: int = 120) -> None:
        draw = random.Random(seed)
        rows = [(*r, None if draw.random() < 0.2 else (r[1], r[3], r[5])) for r in random_rows(seed, size)]
        rows.sort(key=lambda r: (r[0] is None, r[0] or 0))  # so that files differ
        self.frame = spark.createDataFrame(rows, f"{COLUMNS}, deep struct<n: int, s: string, d: date>").coalesce(1).cache()
        self.schema: StructType = parse_schema(self.frame.schema.json())
        self.table = self.frame.toArrow()
        leaves = list(statistics.indexed_leaves(self.schema, num_indexed=-1))
        self.cuts = [*range(0, size, 6), size]
        pieces = [self.table.slice(a, b - a).combine_chunks() for a, b in zip(self.cuts, self.cuts[1:], strict=False)]
        self.stats: list[Any] = [orjson.loads(statistics.from_arrow(p, leaves) or "{}") for p in pieces]

    def answers(self, texts: list[str]) -> tuple[list[Any], list[np.ndarray[Any, Any]]]:
        """(Catalyst's expressions, the rows of which they are true), all by one job."""
        chosen = self.frame.selectExpr(*(f"({t}) as c{n}" for n, t in enumerate(texts)))
        found = chosen.toArrow()
        aliases = catalyst(self.frame.sparkSession).list(chosen._jdf.queryExecution().analyzed().projectList())
        return [a.child() for a in aliases], [np.asarray(pc.fill_null(c.combine_chunks(), False).to_numpy(zero_copy_only=False), bool) for c in found.columns]

    def ids(self) -> dict[int, str]:
        attributes = catalyst(self.frame.sparkSession).list(self.frame._jdf.queryExecution().analyzed().output())
        return {int(a.exprId().id()): str(a.name()) for a in attributes}

    def rows_of(self, of: Condition) -> list[bool | None]:
        """For each row whether a condition is true; None where the driver cannot tell."""

        def column(path: Any) -> Any:
            top = self.table.column(path[0])
            return of_rows(pc.struct_field(top, list(path[1:])) if len(path) > 1 else top, of.types[path])

        found = may_hold(of.predicate, Places(column))
        return [found.as_py()] * self.table.num_rows if isinstance(found, pa.Scalar) else found.to_pylist()


_SETTINGS = {
    "spark.sql.session.timeZone": "",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    (_LONGEST := "spark.sql.optimizer.inSetConversionThreshold"): "10",
}
"""ANSI is off, so that no condition raises; conditions that are asked once are not compiled."""


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(texts), AT_ONCE):
        yield texts[at : at + AT_ONCE]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.short("America/New_York", why="the zone matters for a few conditions alone")
def test_no_yes_of_sparks_is_a_no(spark: SparkSession, zone: str) -> None:
    seed = int(os.environ.get("CONDITIONS_SEED", "7")) + ZONES.index(zone)
    draw, before = random.Random(seed), {key: spark.conf.get(key) for key in _SETTINGS}
    for key, value in {**_SETTINGS, "spark.sql.session.timeZone": zone}.items():
        spark.conf.set(key, value)
    try:
        world, bridge = _World(spark, seed), catalyst(spark)
        ids, wrong, decided, skipped, narrowed = world.ids(), [], 0, 0, 0
        for texts in _chunks([condition(draw) for _ in range(COUNT // len(ZONES))]):
            for (text, expr, true), longest in itertools.product(zip(texts, *world.answers(texts), strict=True), ("10", "1")):
                if longest == "1" and " in (" not in text:
                    continue
                spark.conf.set(_LONGEST, longest)  # longer lists become sets
                of = translated(bridge, expr, ids)
                assert of is not None
                told = world.rows_of(of)
                wrong += [
                    (text, world.table.slice(n, 1).to_pylist(), t, bool(y)) for n, (t, y) in enumerate(zip(told, true, strict=True)) if t not in (None, y)
                ][:1]
                kept = files_that_may_match(of.predicate, [{}] * len(world.stats), world.stats, world.schema)
                wrong += [
                    (text, "file", n, of.predicate) for n, (a, b) in enumerate(zip(world.cuts, world.cuts[1:], strict=False)) if true[a:b].any() and not kept[n]
                ][:1]
                decided, skipped, narrowed = decided + (None not in told), skipped + (not kept.all()), narrowed + (False in told)
        assert not wrong, wrong[:5]
        print(f"{COUNT // len(ZONES)} conditions: {decided} decided, {narrowed} leave rows out, {skipped} leave files out")
        assert decided > COUNT // len(ZONES) // 4 and narrowed > COUNT // len(ZONES) * 2 // 5 and skipped > COUNT // len(ZONES) // 20
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


LISTED = {
    "at": "timestamp '2024-03-10 07:00:00.{}'",
    "clock": "timestamp_ntz '2024-03-10 07:00:00.{}'",
    "bytes": "x'ff{}'",
    "n": "{}",
    "x": "{}.5D",
    "text": "'ü{}, \\''",
    "day": "date '20{}-02-28'",
    "money": "{}.125BD",
}


@pytest.mark.parametrize("column", LISTED)
@pytest.mark.short("at", "text", why="values that are read in two ways")
def test_a_long_list_costs_no_calls(spark: SparkSession, column: str) -> None:
    """A condition is translated by as many calls into the JVM for eighty values as for twelve: a list may have many thousands."""
    types = "current_timestamp() at, localtimestamp() clock, x'00' bytes, 1 n, 1D x, '' text, current_date() day, 1.125BD + 10 money"
    frame, bridge = spark.sql(f"select {types}"), catalyst(spark)
    ids = {int(a.exprId().id()): str(a.name()) for a in bridge.list(frame._jdf.queryExecution().analyzed().output())}

    def asked(values: int) -> int:
        listed = [LISTED[column].format(f"{n:02}") for n in range(10, 10 + values)]
        expr = frame.selectExpr(f"{column} in ({', '.join(listed)})")._jdf.queryExecution().analyzed().projectList().apply(0).child()
        with calls_into_the_jvm(spark) as sent:
            of = translated(bridge, expr, ids)
        assert of is not None
        assert isinstance(of.predicate, ir.In)
        assert len(set(of.predicate.values)) == values
        return len(sent)

    assert asked(12) == asked(80)
