"""Measures Rowlock beside delta-spark, deltalake and plain Parquet: `rowlock bench` (docs/figures.md).

Installed by a checkout, not by the wheel.  `suites` lists what is measured; `harness` runs each measurement in a process of its own, in random order, and
keeps its result as a line of JSON; `page` makes docs/figures.md and its pictures of these lines.  Every other module is such a process.
"""
