"""The files of simulated logs cost little: checkpoints are tables of Arrow's own format, and the actors of a schedule parse each commit once.

What Parquet makes of them is outside of the worlds, and has tests of its own (tests/unit/log).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from rowlock.log import checkpoint_reader, checkpoint_writer, replay


class ArrowFile:
    """Reads such a file as `pyarrow.parquet.ParquetFile` does one of Parquet."""

    def __init__(self, source: Any, **options: Any) -> None:
        self._table = pa.ipc.open_stream(source).read_all()
        self.schema_arrow = self._table.schema
        self.num_row_groups = 1

    @property
    def metadata(self) -> Any:
        """The part of a footer that is asked for: the number of rows, and no mark of a calendar."""
        return SimpleNamespace(metadata=None, row_group=lambda group: SimpleNamespace(num_rows=self._table.num_rows))

    def read_row_group(self, group: int, columns: Sequence[str], use_threads: bool = True) -> pa.Table:
        """These columns; a column of which fields are asked (`add.path`) comes whole."""
        names = list(dict.fromkeys(c.partition(".")[0] for c in columns))
        return self._table.select(names)

    def iter_batches(self, batch_size: int, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool) -> Iterator[pa.RecordBatch]:
        """The same, in portions."""
        yield from self.read_row_group(row_groups[0], columns, use_threads).to_batches(max_chunksize=batch_size)


def table_ids(data: bytes) -> list[str]:
    """The ids of the tables that a checkpoint says it is of."""
    held = pa.ipc.open_stream(data).read_all()
    return [m["id"] for m in held["metaData"].to_pylist() if m is not None] if "metaData" in held.column_names else []


def has_structs(data: bytes) -> bool:
    """Whether the live files of a checkpoint have their statistics as structs."""
    schema = pa.ipc.open_stream(data).schema
    return bool(schema.get_field_index("add") >= 0 and schema.field("add").type.get_field_index("stats_parsed") >= 0)


def write_table(table: pa.Table, where: Any, **options: Any) -> None:
    """Writes a table."""
    with pa.ipc.new_stream(where, table.schema) as stream:
        stream.write_table(table.combine_chunks())


@contextlib.contextmanager
def cheap_files() -> Iterator[None]:
    """Stores checkpoints in this format, and caches the commits that the code under test has parsed, until the block ends."""
    modules: tuple[Any, Any] = checkpoint_reader, checkpoint_writer
    commits: Any = replay
    parse, commits.parse_commit = commits.parse_commit, functools.cache(commits.parse_commit)
    before = [m.pq for m in modules]
    for module in modules:
        module.pq = SimpleNamespace(ParquetFile=ArrowFile, write_table=write_table)
    try:
        yield
    finally:
        commits.parse_commit = parse
        for module, pq in zip(modules, before, strict=True):
            module.pq = pq
