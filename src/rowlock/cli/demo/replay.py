"""Checks the demo's final table against a serial replay of the same statements in log order.

The replay is a frame of rows, changed by joins and filters, and shares no code with the engine.  If the table has exactly
these rows, the commits are serializable in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from rowlock.cli.demo.load import Load

_BEFORE = " before"
_EXPECTED = " expected"


def replayed(load: Load, rows: pl.DataFrame, record: Mapping[str, Any]) -> pl.DataFrame:
    """The rows after one more committed statement."""
    if record["kind"] == "delete":
        erased = (pl.col(name).eq_missing(pl.lit(value, rows.schema[name])) for name, value in load.erasure(record["number"]).items())
        return rows.filter(~pl.all_horizontal(*erased))
    if record["kind"] != "merge":
        return rows
    batch = load.batch(record["stream"], record["number"]).select(rows.columns)
    added = batch.join(rows.select(*load.key, *load.sums), on=load.key, how="left", suffix=_BEFORE)
    sums = ((pl.col(name) + pl.col(name + _BEFORE).fill_null(0)).cast(rows.schema[name]) for name in load.sums)
    return pl.concat([rows.join(batch, on=load.key, how="anti"), added.with_columns(*sums).select(rows.columns)], rechunk=True)


def differences(expected: pl.DataFrame, table: pl.DataFrame, key: Sequence[str]) -> list[str]:
    """How a table's rows differ from those that it must have, with one example of each kind of difference.  NaN equals NaN."""
    table = table.select(expected.columns).cast(expected.schema)
    known = table.join(expected, on=key, how="semi", maintain_order="left")
    first = pl.struct(key).is_first_distinct()
    both = known.filter(first).join(expected, on=key, suffix=_EXPECTED)
    values = [name for name in expected.columns if name not in key]
    wrong = both.filter(pl.any_horizontal(False, *(pl.col(name).ne_missing(pl.col(name + _EXPECTED)) for name in values)))
    found = {
        "are doubled": known.filter(~first),
        "should not be there": table.join(expected, on=key, how="anti"),
        "are wrong": wrong,
        "are missing": expected.join(table, on=key, how="anti"),
    }
    return [f"{len(rows):,} rows {what}, such as {rows.row(0, named=True)}" for what, rows in found.items() if len(rows)]


def check(load: Load, *, initial: pl.DataFrame, final: pl.DataFrame, records: Iterable[Mapping[str, Any]], versions: Sequence[int]) -> list[str]:
    """The differences of the rows `final` from a replay of the writers' `records` on the rows `initial`.

    `versions` are the versions in the log since the table was created; each record has the version that its statement became.
    """
    by_version: dict[int, list[Mapping[str, Any]]] = {}
    for record in records:
        by_version.setdefault(record["version"], []).append(record)
    problems = [f"version {v} was reported as theirs by {len(r)} writers" for v, r in sorted(by_version.items()) if len(r) > 1]
    problems += [f"version {v} is in the log, but no writer reported it" for v in sorted(set(versions) - set(by_version))]
    problems += [f"version {v} was acknowledged and is not in the log" for v in sorted(set(by_version) - set(versions))]
    for version in sorted(by_version):
        initial = replayed(load, initial, by_version[version][0])
    return problems + differences(initial, final, load.key)
