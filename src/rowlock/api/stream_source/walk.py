"""The files of a table in the order in which a stream reads them: those of a first version, then those that each later version adds; and how far one has read.

A version that changes or deletes rows ends the walk with an error, unless the stream's options say otherwise (delta-spark's rules); one that only
moves rows (dataChange is false: OPTIMIZE) adds nothing.  Nothing here needs Spark.

An offset's text, which the checkpoint of a query keeps, has the keys of delta-spark's, so a query goes on from a checkpoint that delta-spark wrote.  One key
more is in the offset that ends a query's first batch: where that batch begins, which would be found anew after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import orjson

from rowlock.api.change_feed import not_recorded, writes_columns_anew
from rowlock.api.schema_compatibility import changed, unreadable
from rowlock.api.stream_source.options import StreamOptions
from rowlock.conditions import named
from rowlock.conflict import change_feed
from rowlock.exceptions import CorruptLog, InvalidInput, VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import column_mapping
from rowlock.protocol.actions import AddFile, Commit, Metadata

NOTHING, CHANGE, AFTER_CHANGE = -100, -20, -19
"""Indices before the first file of a version: nothing of it is read yet; its change of the columns comes next; that change was handed over."""
_NOTHING_IN_1 = -1


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the files of a table: everything before it is read, and of `version` the files up to `index`, counted from 0.

    `initial` says that the files meant are those which the table has at the version, not those which the version adds.
    """

    version: int
    index: int = NOTHING
    initial: bool = False


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """An offset: the table's id, the position, and in the first batch's end the position that it began with."""

    table_id: str
    at: Position
    start: Position | None = None

    def text(self) -> str:
        """The offset as JSON; equal offsets have equal texts, by which Spark compares them."""
        fields: dict[str, object] = {
            "sourceVersion": 3 if self.at.index in (CHANGE, AFTER_CHANGE) else 1,
            "reservoirId": self.table_id,
            "reservoirVersion": self.at.version,
            "index": _NOTHING_IN_1 if self.at.index == NOTHING else self.at.index,
            "isStartingVersion": self.at.initial,
        }
        if self.start is not None:
            fields["rowlockStart"] = {"version": self.start.version, "isStartingVersion": self.start.initial}
        return orjson.dumps(fields).decode()


def parse(text: str, table: str) -> StreamOffset:
    """The offset of a checkpoint.  Raises InvalidInput where it is none."""
    try:
        fields = orjson.loads(text)
        form, index = int(fields["sourceVersion"]), int(fields["index"])
        start = fields.get("rowlockStart")
        offset = StreamOffset(
            str(fields["reservoirId"]),
            Position(int(fields["reservoirVersion"]), NOTHING if index == _NOTHING_IN_1 else index, bool(fields["isStartingVersion"])),
            None if start is None else Position(int(start["version"]), NOTHING, bool(start["isStartingVersion"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InvalidInput(f"The checkpoint's offset {text} is not one of a Delta table: start the query with another checkpoint", table=table) from e
    if form not in (1, 3):
        raise InvalidInput(f"The checkpoint's offset {text} has another form than delta-spark's of today: start the query with another checkpoint", table=table)
    return offset


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read as one: a file, or all that a version changed.

    version  the version whose rows or changes these are
    end      the position of the stream after it
    files    data files, all of whose live rows are read
    changes  for the change data feed: a version whose changes are read together
    """

    version: int
    end: Position
    files: tuple[AddFile, ...] = ()
    changes: Commit | None = None
    size_bytes: int = 0

    @property
    def num_files(self) -> int:
        """How many files count towards the limit of a batch."""
        return len(self.files) if self.changes is None else max(len(_changed_files(self.changes)), 1)


@dataclass
class Room:
    """What still fits into a batch.  As long as there is any, the next piece fits: a large file does not stop a stream."""

    files: int | None
    size_bytes: int | None
    _any: bool = field(default=False, init=False)

    def admits(self, piece: Piece) -> bool:
        """Whether the piece belongs to the batch; it is counted then.  What holds no file always does."""
        if not piece.files and piece.changes is None:
            return True
        left = ((self.files, piece.num_files), (self.size_bytes, piece.size_bytes))
        whole = piece.changes is not None and self._any  # then it fits or it does not; a single file may be larger than what is left
        if any(room is not None and (room <= 0 or (whole and needed > room)) for room, needed in left):
            return False
        self._any = True
        self.files = None if self.files is None else self.files - piece.num_files
        self.size_bytes = None if self.size_bytes is None else self.size_bytes - piece.size_bytes
        return True


class Walk:
    """The files of one table for one stream, under the columns that the table has in `shown`.

    `log` is set anew where the table's log turns out to have been rewritten.  `changes` says whether a commit has other columns, properties or another
    protocol than the stream reads with: what comes before it is a piece of its own.  None: other columns end the stream.
    """

    changes: Callable[[Commit], bool] | None = None

    def __init__(self, log: TableLog, shown: Snapshot, options: StreamOptions) -> None:
        self.log, self._shown, self._options = log, shown, options
        self._first: tuple[int, tuple[AddFile, ...]] | None = None

    def pieces(self, start: Position, through: int) -> Iterator[Piece]:
        """All that comes after `start` up to a version, in order.

        Raises InvalidInput at a version that changes rows or columns, VersionNotFound at one that the log no longer has.
        """
        version, after = start.version, start.index
        if start.initial:
            yield from _one_by_one(version, self.initial_files(version), after, initial=True)
            version, after = version + 1, NOTHING
        while version <= through:
            commit = self._commit(version, through)
            if commit is None:
                return
            yield from self._of(commit, after if commit.version == version else NOTHING)
            version, after = commit.version + 1, NOTHING

    def initial_files(self, version: int) -> tuple[AddFile, ...]:
        """The live files of a version, by time and name.  Raises VersionNotFound, InvalidInput."""
        if self._first is None or self._first[0] != version:
            snapshot = self._shown if self._shown.version == version and self.changes is None else self._first_snapshot(version)
            files: list[AddFile] = []
            if snapshot is not None:
                self._check_columns(snapshot.metadata, version)
                files = sorted(snapshot.files.adds(), key=lambda f: (f.modification_time_ms, f.log_path or f.path))
            self._first = version, tuple(files)
        return self._first[1]

    def _first_snapshot(self, version: int) -> Snapshot | None:
        """The version that the stream began with; None where it cannot be built any more and data may be lost."""
        try:
            return self.log.at(version)
        except VersionNotFound as e:
            if not self._options.fail_on_data_loss:
                return None
            raise VersionNotFound(
                f"The stream is within the rows of version {version}, which can no longer be built: the log was cleaned up after delta.logRetentionDuration. "
                "Start the query with another checkpoint, or set failOnDataLoss to false to leave out what is lost",
                table=self._shown.table,
                version=version,
                condition=named("DELTA_MISSING_FILES_UNEXPECTED_VERSION"),
            ) from e

    def forget_initial_files(self) -> None:
        """Lets go of the files of the first version, which are many perhaps."""
        self._first = None

    def _commit(self, version: int, through: int) -> Commit | None:
        """The commit of a version, or of the first after it that the log has where data may be lost; None where it has none."""
        try:
            return self.log.commits(version - 1, version)[0]
        except VersionNotFound as e:
            there = [v for v, _ in self.log.commit_times() if version <= v <= through]
            if self._options.fail_on_data_loss:
                oldest = f"the oldest that it has is {there[0]}" if there else "it has none after it"
                raise VersionNotFound(
                    f"The stream is to go on with version {version}, which the log no longer has ({oldest}): its files were deleted after "
                    "delta.logRetentionDuration. Start the query with another checkpoint, or set failOnDataLoss to false to leave out what is lost ",
                    table=self._shown.table,
                    version=version,
                    condition=named("DELTA_MISSING_FILES_UNEXPECTED_VERSION"),
                ) from e
            return self.log.commits(there[0] - 1, there[0])[0] if there else None

    def _of(self, commit: Commit, after: int) -> Iterator[Piece]:
        if self.changes is not None and after < CHANGE and self.changes(commit):
            yield Piece(commit.version, Position(commit.version, CHANGE))
        if commit.metadata is not None:
            self._check_columns(commit.metadata, commit.version)
        if self._options.read_change_feed:
            if writes_columns_anew(commit) and commit.version:
                self._check_columns(self.log.at(commit.version - 1).metadata, commit.version - 1)
            yield from self._changes_of(commit, after)
            return
        adds = tuple(a for a in commit.adds if a.data_change)
        if next((r for r in commit.removes if r.data_change), None) is not None:
            adds = self._where_rows_change(commit, adds)
        yield from _one_by_one(commit.version, adds, after)

    def _changes_of(self, commit: Commit, after: int) -> Iterator[Piece]:
        """The changes of a version: file by file where it only adds some, else all at once, so that both images of a row are in one batch."""
        if not commit.cdc and not any(r.data_change for r in commit.removes):
            yield from _one_by_one(commit.version, tuple(a for a in commit.adds if a.data_change), after)
            return
        if after > AFTER_CHANGE:
            raise within_changes(commit.version, self._shown.table)
        size = sum(_changed_files(commit))
        yield Piece(commit.version, Position(commit.version + 1), changes=commit, size_bytes=size)

    def _where_rows_change(self, commit: Commit, adds: tuple[AddFile, ...]) -> tuple[AddFile, ...]:
        """The files that are read of a version that removes some.  Raises InvalidInput where the options do not allow for it."""
        options = self._options
        if options.skip_change_commits:
            return ()
        if options.ignore_changes or (options.ignore_deletes and not adds):
            return adds
        operation = commit.info.operation if commit.info is not None else None
        what = f"changes or deletes rows ({operation})" if operation else "changes or deletes rows"
        if adds:
            how = (
                "Set skipChangeCommits to true to leave such versions out, or read the change data feed (readChangeFeed); to have the changes in what was read "
                "already, start the query with another checkpoint"
            )
            condition = named("DELTA_SOURCE_TABLE_IGNORE_CHANGES", file=adds[0].path, version=commit.version, dataPath=self._shown.table)
        else:
            how = "Set ignoreDeletes or skipChangeCommits to true to read on, or read the change data feed (readChangeFeed)"
            first = next((r.path for r in commit.removes), "")
            condition = named("DELTA_SOURCE_IGNORE_DELETE", removedFile=first, version=commit.version, dataPath=self._shown.table)
        text = f"Version {commit.version} {what}, which a stream of rows cannot show. {how}"
        raise InvalidInput(text, table=self._shown.table, version=commit.version, condition=condition)

    def check_start(self, start: Position, newest: int) -> None:
        """Raises InvalidInput where the columns at a position, to which a stream returns, cannot be read under those of now; VersionNotFound."""
        mapped = column_mapping.is_mapped(self._shown.metadata.configuration)
        try:
            then = self.log.at(min(start.version, newest))
        except (VersionNotFound, CorruptLog):
            if mapped or self._options.read_change_feed:
                raise
            return  # data files name their columns, and each later change of columns is a commit that is looked at
        self._check_columns(then.metadata, then.version)

    def _check_columns(self, metadata: Metadata, version: int) -> None:
        shown = self._shown
        if self._options.read_change_feed and not change_feed.is_enabled(shown.protocol, metadata):
            raise not_recorded(version, version, max(version, shown.version), shown.table)
        if self.changes is not None:
            return
        condition = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
        if version > shown.version:
            what, how = changed(metadata, shown), "Start the query again from a new DataFrame, which has the new columns; where it stops again, start"
        else:
            what, how = unreadable(metadata, shown), "Start the query"
            if column_mapping.is_mapped(shown.metadata.configuration):
                condition = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"
        if what is not None:
            raise InvalidInput(
                f"Version {version} {what}; the stream reads with the columns of version {shown.version}. {how} with another checkpoint (and startingVersion "
                f"after {version}, where its rows are not wanted again), or with schemaTrackingLocation, which follows such changes",
                table=shown.table,
                version=version,
                condition=named(condition),
            )


def within_changes(version: int, table: str) -> InvalidInput:
    """The error of a checkpoint that divides the changes of a version."""
    text = (
        f"The checkpoint is within the changes of version {version}, as another engine leaves it: Rowlock reads the changes of a version together. "
        "Let that engine read this version, or start with another checkpoint and startingVersion"
    )
    return InvalidInput(text, table=table, version=version)


def _one_by_one(version: int, files: tuple[AddFile, ...], after: int, *, initial: bool = False) -> Iterator[Piece]:
    """The files of a version after an index; a version without any is a piece, too, that holds none."""
    over, first = Position(version + 1), max(after, -1) + 1
    if first >= len(files):
        yield Piece(version, over)
    for index in range(first, len(files)):
        end = over if index + 1 == len(files) else Position(version, index, initial)
        yield Piece(version, end, (files[index],), size_bytes=files[index].size_bytes)


def _changed_files(commit: Commit) -> list[int]:
    """The sizes in bytes of the files in which the changes of a version are."""
    if commit.cdc:
        return [int(c.raw.get("size") or 0) for c in commit.cdc]
    return [*(a.size_bytes for a in commit.adds if a.data_change), *(r.size_bytes or 0 for r in commit.removes if r.data_change)]
