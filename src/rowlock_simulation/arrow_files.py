"""Checkpoints of simulated tables are tables of Arrow's own format: the columns that Parquet would hold, for a tenth of the time.

What Parquet makes of them is outside of the worlds, and has tests of its own (tests/unit/log).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from rowlock.log import checkpoint_reader, checkpoint_writer


class ArrowFile:
    """Reads such a file as `pyarrow.parquet.ParquetFile` does one of Parquet."""

    def __init__(self, source: Any, **options: Any) -> None:
        self._table = pa.ipc.open_stream(source).read_all()
        self.schema_arrow = self._table.schema
        self.num_row_groups = 1

    @property
    def metadata(self) -> Any:
        """As much as is asked of it: the number of rows."""
        return SimpleNamespace(row_group=lambda group: SimpleNamespace(num_rows=self._table.num_rows))

    def read_row_group(self, group: int, columns: Sequence[str], use_threads: bool) -> pa.Table:
        """These columns; a column of which fields are asked (`add.path`) comes whole."""
        names = list(dict.fromkeys(c.partition(".")[0] for c in columns))
        return self._table.select(names)


def write_table(table: pa.Table, where: Any, **options: Any) -> None:
    """Writes a table."""
    with pa.ipc.new_stream(where, table.schema) as stream:
        stream.write_table(table.combine_chunks())


@contextlib.contextmanager
def checkpoints_without_parquet() -> Iterator[None]:
    """Keeps checkpoints in this format until the block ends."""
    modules: tuple[Any, Any] = checkpoint_reader, checkpoint_writer
    before = [m.pq for m in modules]
    for module in modules:
        module.pq = SimpleNamespace(ParquetFile=ArrowFile, write_table=write_table)
    try:
        yield
    finally:
        for module, pq in zip(modules, before, strict=True):
            module.pq = pq
