"""The files of simulated logs cost little: checkpoints are tables in memory, and the actors of a schedule parse each commit once.
Data files are those of the in-memory engine, also where the close of a transaction reads them.

What Parquet makes of them is outside of the worlds, and has tests of its own (tests/unit/log).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from rowlock.log import checkpoint_reader, checkpoint_writer, replay, table_log
from rowlock.log.checkpoint_reader import CheckpointState
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.commits import parse_commit
from rowlock.storage.store import ObjectStore
from rowlock.transaction.two_phase import close
from rowlock_simulation.memory.data_files import DataFiles
from rowlock_simulation.memory.engine import check_image

_MARK, _SIZE = b"table ", 12_000
_written: list[pa.Table] = []
"""The tables of the schedule that runs: a file is the mark and the place of its table here, and as long as one of Parquet."""


def _table_of(data: bytes) -> pa.Table:
    """The table of a file.  Raises ValueError for other bytes."""
    if not data.startswith(_MARK):
        raise ValueError("this is no checkpoint")
    return _written[int(data[len(_MARK) :])]


class TableFile:
    """Reads such a file as `pyarrow.parquet.ParquetFile` does one of Parquet."""

    def __init__(self, source: Any, **options: Any) -> None:
        self._table = _table_of(source.read(len(_MARK)) + source.read())  # in two ranges at least, as a footer and a column
        self.schema_arrow = self._table.schema
        self.num_row_groups = 1

    @property
    def metadata(self) -> Any:
        """The part of a footer that is asked for: the number of rows, and no mark of a calendar."""
        return SimpleNamespace(metadata=None, row_group=lambda group: SimpleNamespace(num_rows=self._table.num_rows))

    def iter_batches(self, batch_size: int, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool) -> Iterator[pa.RecordBatch]:
        """These columns in portions; a column of which fields are asked (`add.path`) comes whole."""
        names = list(dict.fromkeys(c.partition(".")[0] for c in columns))
        yield from self._table.select(names).to_batches(max_chunksize=batch_size)


def table_ids(data: bytes) -> list[str]:
    """The ids of the tables that a checkpoint says it is of."""
    held = _table_of(data)
    return [m["id"] for m in held["metaData"].to_pylist() if m is not None] if "metaData" in held.column_names else []


def has_structs(data: bytes) -> bool:
    """Whether the live files of a checkpoint have their statistics as structs."""
    schema = _table_of(data).schema
    return bool(schema.get_field_index("add") >= 0 and schema.field("add").type.get_field_index("stats_parsed") >= 0)


def write_table(table: pa.Table, where: Any, **options: Any) -> None:
    """Writes a table."""
    where.write((_MARK + str(len(_written)).encode()).ljust(_SIZE))
    _written.append(table)


def _reading_once(read: Callable[[Any, CheckpointState, str, str], None]) -> Callable[[Any, CheckpointState, str, str], None]:
    """Reads a file that comes whole once for all actors: what it holds is of values that nobody changes."""

    @functools.cache
    def contents(data: bytes, wanted: str, root: str) -> CheckpointState:
        state = CheckpointState()
        read(pa.BufferReader(data), state, wanted, root)
        return state

    def once(source: Any, state: CheckpointState, wanted: str, root: str) -> None:
        if not isinstance(source, pa.BufferReader):
            return read(source, state, wanted, root)
        found = contents(source.read(), wanted, root)
        state.protocol, state.metadata = found.protocol or state.protocol, found.metadata or state.metadata
        state.txns |= found.txns
        state.domains |= found.domains
        state.frames += found.frames
        state.removes += found.removes
        state.sidecars += found.sidecars

    return once


def _check_not_null(files: Sequence[AddFile], snapshot: Snapshot, store: ObjectStore) -> None:
    """`parquet.checks.check_not_null` for data files of the in-memory engine."""
    for file in files:
        for row in DataFiles(store).rows(file, snapshot.schema):
            check_image(row, snapshot.schema)


@contextlib.contextmanager
def cheap_files() -> Iterator[None]:
    """Stores checkpoints in this format, and caches the commits that the code under test has parsed, until the block ends."""
    files, parse = SimpleNamespace(ParquetFile=TableFile, write_table=write_table), functools.cache(parse_commit)
    instead: list[tuple[Any, str, Any]] = [(module, "parse_commit", parse) for module in (replay, table_log, close)]
    instead += [(checkpoint_reader, "pq", files), (checkpoint_writer, "pq", files)]
    instead.append((close, "check_not_null", _check_not_null))
    instead.append((checkpoint_reader, "_read_parquet", _reading_once(checkpoint_reader._read_parquet)))
    before = [(module, name, getattr(module, name)) for module, name, _ in instead]
    for module, name, value in instead:
        setattr(module, name, value)
    try:
        yield
    finally:
        _written.clear()
        for module, name, value in before:
            setattr(module, name, value)
