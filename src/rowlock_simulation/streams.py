"""Streams that read the table while others write: the real code decides where one begins, how far each batch goes and which files it has; the engine in memory
reads the rows.  A query keeps what Spark's checkpoint keeps: the end of each batch, written before the batch is read, and how many batches are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from rowlock.api.stream_source.options import StreamOptions, parse
from rowlock.api.stream_source.source import TableStream
from rowlock.api.stream_source.walk import Piece, Walk, parse as parse_offset
from rowlock.conflict.change_feed import changed_rows
from rowlock.conflict.delta import live_slice
from rowlock.exceptions import InvalidInput
from rowlock.transaction.transaction import Table
from rowlock_simulation.actions import Action
from rowlock_simulation.feed import Bag, VersionRows
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.scheduler import Scheduler

_RESTARTS = 0.3
"""How often a query ends after a batch, before the batch is noted as done or after it, and begins anew."""
FEED = "readChangeFeed"


class MemoryStream(TableStream):
    """The source of a query without a Spark session."""

    def __init__(self, table: Table, options: StreamOptions) -> None:
        state = table.state
        handle: Any = SimpleNamespace(state=state, path=state.store.root)
        self._handle, self._options, self._table = handle, options, table
        self._shown, self._tracking, self._come_to = state.refresh(), None, -1
        self._walk = Walk(state.log, self._shown, options)
        self._begins = self._until = None
        self._once, self._checked, self._asked = False, False, False

    def rows(self, start: str | None, end: str) -> Bag:
        """The rows between two offsets, each with the type of its change: `insert` for all that a stream without the change feed reads."""
        return Counter((kind, *row.values()) for piece in self.pieces(start, end) for kind, row in self._rows_of(piece))

    def _rows_of(self, piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
        engine, vector_of = self._table.statement_engine, self._handle.state.vectors.of
        assert isinstance(engine, MemoryEngine)
        for file in piece.files:
            yield from (("insert", row) for row in engine.sample([live_slice(file, vector_of)], None, snapshot=self._shown))
        for found in changed_rows(piece.changes, vector_of, self._handle.path) if piece.changes is not None else ():
            file = found.rows.file
            if found.type is not None:
                yield from ((found.type, row) for row in engine.sample([found.rows], None, snapshot=self._shown))
                continue
            for kind, row in engine.files.changes(file.path, file.partition_values, self._shown.schema):
                yield kind, {f.name: row.get(f.physical_name) for f in self._shown.schema.fields}


@dataclass
class Query:
    """A query over its restarts: the ends of its batches, how many of them are done, and what each has written."""

    options: dict[str, str]
    ends: list[str] = field(default_factory=list)
    done: int = 0
    written: list[Bag] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def open(self, table: Table) -> MemoryStream:
        """Begins the query, or goes on with it."""
        return MemoryStream(table, parse(self.options, table.state.store.root))

    def step(self, stream: MemoryStream, scheduler: Scheduler | None = None) -> bool:
        """Reads one batch, anew where it is not known to be done; whether there was one."""
        start = self.ends[self.done - 1] if self.done else None
        if len(self.ends) == self.done:
            end = stream.latest(start, unlimited=False)
            if end is None or end == start:
                return False
            self.ends.append(end)
        rows = stream.rows(start, self.ends[-1])
        if self.written[self.done :] not in ([], [rows]):
            self.wrong.append(f"batch {self.done} has other rows when it is read again")
        self.written[self.done :] = [rows]
        if scheduler is None or scheduler.random.random() >= _RESTARTS:
            stream.committed(self.ends[-1])
            self.done += 1
        return True

    def read(self) -> Bag:
        """All that was written."""
        return sum(self.written, Counter())


def read_on(action: Action, query: Query, table: Table, scheduler: Scheduler) -> None:
    """Reads so many batches, as far as there are any.  Raises what the code under test raises."""
    stream = query.open(table)
    for _ in range(action.batches):
        if not query.step(stream, scheduler):
            return
        if scheduler.random.random() < _RESTARTS:
            stream = query.open(table)


def wrong_rows(name: str, query: Query, versions: Sequence[VersionRows], table: Table) -> list[str]:
    """What is wrong with all that a query has read, once it has read on to the newest version or to the first that it cannot show."""
    stream, last = query.open(table), len(versions) - 1
    try:
        while query.step(stream):
            pass
    except InvalidInput as e:
        assert e.version is not None, e
        last = e.version - 1
    if not query.ends:
        return query.wrong
    began = parse_offset(query.ends[0], stream.name).start
    assert began is not None, "the end of a first batch says where it begins"
    wanted = _inserted(versions[began.version].rows) if began.initial else Counter()
    for version in versions[began.version + began.initial : last + 1]:
        if query.options.get(FEED):
            wanted += Counter({(kind, *row): n for kind, bag in (version.feed.changes if version.feed is not None else {}).items() for row, n in bag.items()})
        elif not (version.changes and query.options.get("skipChangeCommits")):
            wanted += _inserted(version.came)
    read = query.read()
    differs = f"has not read each row once: {read - wanted} too much, {wanted - read} too little"
    return [f"stream {name} {text}" for text in (*query.wrong, *([differs] if read != wanted else []))]


def _inserted(rows: Bag) -> Bag:
    return Counter({("insert", *row): n for row, n in rows.items()})
