"""The demo's load of the user's own rows, stored in the work folder as one Parquet file for each stream.

The table starts with the first part of each stream's rows and with all rows of no stream.  A batch has some of the
remaining rows, and some that the table has already; a counter column has the number of the batch that wrote a row last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import gcd
from pathlib import Path
from typing import Any

import polars as pl

from rowlock.cli.demo.load import INITIAL, SPEC, Erasure, Load, save_spec
from rowlock.cli.demo.sales import Sales

FIRST_PART = 0.6
LARGEST_BATCH = 400


class Staged:
    """A load of the user's own rows.  `counter` is the column that the demo adds to them."""

    sums: tuple[str, ...] = ()

    def __init__(self, *, key: tuple[str, ...], counter: str, streams: Mapping[str, pl.DataFrame], erasures: pl.DataFrame) -> None:
        self.key, self.counter, self.streams = key, counter, tuple(streams)
        self._rows, self._erasures = streams, erasures

    @staticmethod
    def prepare(work: Path, *, rows: pl.DataFrame, key: tuple[str, ...], streams: Mapping[str, pl.DataFrame], others: pl.DataFrame) -> None:
        """Writes the rows, split into streams and others, and the description of the load into the work folder."""
        counter = "demo_batch"
        while counter in {name.lower() for name in rows.columns}:
            counter += "_"
        firsts = [part.head(_first(part)) for part in streams.values()]
        pl.concat([others, *firsts]).with_columns(pl.lit(0, pl.Int32).alias(counter)).write_parquet(work / INITIAL)
        for place, part in enumerate(streams.values()):
            part.write_parquet(work / f"stream-{place}.parquet")
        rows.select(_erased_columns(rows, key)).unique(maintain_order=True).write_parquet(work / "erasures.parquet")
        save_spec(work, {"kind": "source", "key": key, "counter": counter, "streams": list(streams)})

    @classmethod
    def open(cls, work: Path, spec: Mapping[str, Any]) -> Staged:
        streams = {name: pl.read_parquet(work / f"stream-{place}.parquet") for place, name in enumerate(spec["streams"])}
        return cls(key=tuple(spec["key"]), counter=spec["counter"], streams=streams, erasures=pl.read_parquet(work / "erasures.parquet"))

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        rows = self._rows[stream]
        first = _first(rows)
        half = max(1, min(LARGEST_BATCH, len(rows) // 25) // 2)
        fresh = rows.slice(first + number * half, half)
        step = max(1, first // half)
        again = sorted({(number * 7919 + place * step) % first for place in range(min(half, first))})
        return pl.concat([rows[again], fresh]).with_columns(pl.lit(number + 1, pl.Int32).alias(self.counter))

    def erasure(self, number: int) -> Erasure:
        count = len(self._erasures)
        step = next(s for s in range(max(1, int(count * 0.618)), count + 1) if gcd(s, count) == 1 or count == 1)
        return Erasure(tuple(self._erasures.row(number * step % count, named=True).items()))


def open_load(work: Path) -> Load:
    """The load that was prepared in a work folder; each process of the demo opens it."""
    spec = json.loads((work / SPEC).read_text())
    return Sales(rows=spec["rows"]) if spec["kind"] == "sales" else Staged.open(work, spec)


def _first(rows: pl.DataFrame) -> int:
    return max(1, int(len(rows) * FIRST_PART))


def _erased_columns(rows: pl.DataFrame, key: tuple[str, ...]) -> list[str]:
    """The columns of the deletes: the key column with the most distinct values, if each has few rows; else the whole key."""
    counts = {name: rows[name].n_unique() for name in key}
    finest = max(key, key=lambda name: counts[name])
    return [finest] if len(rows) / counts[finest] <= max(1.0, len(rows) / 500) else list(key)
