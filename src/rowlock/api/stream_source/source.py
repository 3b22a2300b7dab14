"""A table as the source of one query: how far it may read, and the rows between two offsets.

Spark asks `latest` how far a batch goes, writes that into the checkpoint, and then asks `batch` for the rows.  After a crash it asks `batch` for the same
offsets again, which gives the same rows: files never change, and their order follows from the log alone (I2).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import orjson

from rowlock.api.change_feed import first_version
from rowlock.api.handle import Handle
from rowlock.api.schema_compatibility import unreadable
from rowlock.api.stream_source.options import LATEST, StreamOptions, parse as parse_options, storage_options
from rowlock.api.stream_source.tracking import Tracked, TrackingLog, check_allowed, differs, evolved
from rowlock.api.stream_source.walk import AFTER_CHANGE, CHANGE, NOTHING, Piece, Position, Room, StreamOffset, Walk, parse, within_changes
from rowlock.conditions import named
from rowlock.conflict.change_feed import Changed, changed_rows
from rowlock.conflict.delta import live_slice
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.reading import columns_of_stream, relabelled, same_columns
from rowlock.engines.spark.sql import streams
from rowlock.exceptions import InvalidInput, PathNotFound, RowlockError, SchemaMismatch, TableNotFound, UnsupportedFeature, VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.paths import encode, moment_in, place_in

_numbers = itertools.count(1)
_open: dict[str, TableStream] = {}


def columns(spark: SparkSession, given: Mapping[str, str], schema: str | None) -> StructType:
    """The columns that a stream with these options has; `schema` is what the caller says that they are, as JSON.  Raises SchemaMismatch, PathNotFound."""
    handle, options = _asked(spark, given)
    newest = _found(handle)
    tracking = _tracking(handle, options, newest)
    if tracking is not None and tracking.current is not None:
        tracking.merge(handle.state.log, newest.version)
        newest = tracking.current.of(newest)
    found = columns_of_stream(newest, with_changes=options.read_change_feed)
    wanted = None if schema is None else StructType.fromJson(orjson.loads(schema))
    if wanted is not None and wanted.fields and not same_columns(wanted, found):
        text = f"The stream's columns are {found.simpleString()}, not {wanted.simpleString()}: leave schema() out"
        raise SchemaMismatch(text, table=handle.path, condition=named("DELTA_READ_SOURCE_SCHEMA_CONFLICT"))
    return found


def open_stream(spark: SparkSession, given: Mapping[str, str], schema: str | None, place: str = "") -> str:
    """Begins to read a table for a query; returns the number by which `stream` finds it.  `place` is the source's folder in the query's checkpoint."""
    handle, options = _asked(spark, given)
    number = str(next(_numbers))
    _open[number] = TableStream(handle, options, None if schema is None else StructType.fromJson(orjson.loads(schema)), place)
    return number


def stream(number: str) -> TableStream:
    """The source of a query that runs."""
    if number not in _open:
        raise InvalidInput("The stream was stopped, or another process began it: start the query again")
    return _open[number]


def stop(number: str) -> None:
    """Lets go of the source of a query that has ended."""
    _open.pop(number, None)


def _asked(spark: SparkSession, given: Mapping[str, str]) -> tuple[Handle, StreamOptions]:
    path = place_in(given, 'Say where the table is: spark.readStream.format("rowlock").load("/path/of/table"), or readStream.table(name)')
    options = parse_options(given, path)
    return Handle(spark, path, storage_options=storage_options(given)), options


def _found(handle: Handle) -> Snapshot:
    """The newest version.  Raises PathNotFound where there is no table, SchemaMismatch where it has no columns, UnsupportedFeature for `/path@v3`."""
    try:
        newest = handle.state.refresh()
    except TableNotFound as e:
        if moment_in(handle.path):
            text, why = "A stream of one version is refused: use startingVersion or startingTimestamp", named("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS")
            raise UnsupportedFeature(text, feature="a version in the path of a stream", access="read", table=handle.path, condition=why) from e
        text = f"{handle.path} is not a Delta table: correct the path, or make the table"
        raise PathNotFound(text, table=handle.path, condition=named("DELTA_SCHEMA_NOT_SET")) from e
    if not newest.schema.fields:
        raise SchemaMismatch("The table has no columns to read: add some first", table=handle.path, condition=named("DELTA_SCHEMA_NOT_SET"))
    return newest


def _tracking(handle: Handle, options: StreamOptions, newest: Snapshot) -> TrackingLog | None:
    """The log of the columns that a stream has come to; None where no place is given for one."""
    if options.schema_location is None:
        return None
    folder = f"{options.schema_location.rstrip('/')}/_schema_log_{newest.metadata.id}{'' if options.source_id is None else f'_{options.source_id}'}"
    return TrackingLog(streams.NumberedFiles(handle.spark, folder), newest)


class TableStream:
    """The source of one query; its batches come one after the other."""

    def __init__(self, handle: Handle, options: StreamOptions, schema: StructType | None, place: str) -> None:
        self._handle, self._options, self._place = handle, options, place
        handle.session.settings().check("stream")
        self._shown = _found(handle)
        self._excluded = None if options.exclude_regex is None else streams.java_pattern(handle.spark, options.exclude_regex)
        self._tracking = _tracking(handle, options, self._shown)
        self._come_to = -1
        if self._tracking is not None:
            self._take_tracked(self._tracking)
        self.columns = columns_of_stream(self._shown, with_changes=options.read_change_feed)
        if schema is not None and schema.fields and not same_columns(schema, self.columns):
            raise InvalidInput(
                f"The table's columns are {self.columns.simpleString()} by now; when the DataFrame was made they were {schema.simpleString()}: make it anew and "
                "start the query from that",
                table=handle.path,
                version=self._shown.version,
                condition=named("DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"),
            )
        self._walk = Walk(handle.state.log, self._shown, options)
        if self._come_to >= 0:
            self._walk.changes = self._changes
        self._begins: Position | None = None
        self._until: int | None = None
        self._once, self._checked, self._asked = False, False, False

    @property
    def name(self) -> str:
        """What the progress of a query calls the source."""
        return f"Rowlock[{self._handle.path}]"

    def available_now(self) -> None:
        """Makes the newest version of the moment when the query first asks the last one that it reads."""
        self._once = True

    # ---- how far a batch goes --------------------------------------------------------------

    def latest(self, start: str | None, *, unlimited: bool) -> str | None:
        """The offset up to which the next batch after `start` goes; `start` itself where there is nothing new, None before the first row.

        A version that cannot be read ends the batch before it, and raises where nothing is before it: InvalidInput, VersionNotFound.
        """
        newest = self._newest()
        if self._once and self._until is None:
            self._until = newest
        through = newest if self._until is None else self._until
        begin = self._begin(newest) if start is None else self._returned(start, newest).at
        if self._tracking is not None:
            self._track(min(begin.version, newest), begin)
            if begin.index == CHANGE:
                return StreamOffset(self._shown.metadata.id, Position(begin.version, AFTER_CHANGE)).text()
            if begin.index == AFTER_CHANGE and self._changes(self._handle.state.log.commits(begin.version - 1, begin.version)[0]):
                return start
        if not begin.initial:
            self._walk.forget_initial_files()
        self._check_start(begin, newest)
        end = self._end(begin, through, Room(None, None) if unlimited else Room(self._options.max_files, self._options.max_bytes))
        if end == begin:
            return start
        return StreamOffset(self._shown.metadata.id, end, begin if start is None else None).text()

    def _end(self, begin: Position, through: int, room: Room) -> Position:
        end = begin
        try:
            for piece in self._walk.pieces(begin, through):
                if not room.admits(piece):
                    break
                end = piece.end
                if end.index == CHANGE:
                    break
        except RowlockError:
            if end == begin:
                raise
        return end

    def _newest(self) -> int:
        """The newest version; on a remote store asked for once in a while only, after the first time."""
        state = self._handle.state
        newest = state.newest() if self._asked else state.refresh()
        self._asked = True
        self._walk.log = state.log
        self._check_same_table(newest.metadata.id)
        return newest.version

    def _check_same_table(self, now: str, before: str | None = None) -> None:
        before = before or self._shown.metadata.id
        if now != before:
            raise InvalidInput(
                f"The stream reads the table with the id {before}, and the table here has the id {now}: it was dropped and made anew, or the checkpoint is "
                "another query's. Start the query with another checkpoint",
                table=self._handle.path,
                condition=named("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
            )

    def _begin(self, newest: int) -> Position:
        """Where a query begins that has no offset yet."""
        if self._begins is None or self._begins.initial:
            options = self._options
            if options.starting_version == LATEST:
                self._begins = Position(newest + 1)
            elif options.starting_version is None and options.starting_timestamp is None:
                self._begins = Position(newest, NOTHING, initial=True)
            else:
                start = options.starting_timestamp if options.starting_version is None else options.starting_version
                self._begins = Position(first_version(self._handle, start))  # type: ignore[arg-type]
        return self._begins

    def _returned(self, text: str, newest: int) -> StreamOffset:
        """An offset of this query's checkpoint.  Raises InvalidInput where it is another table's, or one that the table has not come to."""
        offset = parse(text, self._handle.path)
        self._check_same_table(self._shown.metadata.id, offset.table_id)
        if offset.at.version > newest + 1:
            newest = self._handle.state.refresh().version
        if offset.at.version > newest + 1:
            raise InvalidInput(
                f"The stream has read the table up to version {offset.at.version - 1}, but the newest is {newest}: an older state of the table was put back. "
                "Start the query with another checkpoint",
                table=self._handle.path,
                version=newest,
            )
        return offset

    def _check_start(self, begin: Position, newest: int) -> None:
        """Looks, once, at the columns that the table had where the stream goes on."""
        if not self._checked and self._walk.changes is None and not begin.initial and begin.version <= newest:
            self._walk.check_start(begin, newest)
        self._checked = True

    # ---- the columns that the stream has come to ---------------------------------------------

    def _take_tracked(self, tracking: TrackingLog) -> None:
        """Reads with the columns of the tracking log.  Raises where it lies elsewhere, is another source's, or has a change that no option allows."""
        spark, location, path = self._handle.spark, self._options.schema_location or "", self._handle.path
        checkpoint = self._place.rpartition("/sources/")[0]
        outside = self._handle.session.settings().flag("streaming.allowSchemaLocationOutsideCheckpointLocation")
        if checkpoint and not outside and not streams.is_below(spark, location, checkpoint):
            condition = named("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT", schemaTrackingLocation=location, checkpointLocation=checkpoint)
            raise InvalidInput(f"schemaTrackingLocation {location} must lie below the query's checkpoint {checkpoint}", table=path, condition=condition)
        if tracking.current is None:
            return
        if tracking.current.source != self._place:
            raise InvalidInput(
                f"{location} is the schemaTrackingLocation of {tracking.current.source}, and this source is {self._place}: give each source a "
                "schemaTrackingLocation or streamingSourceTrackingId of its own",
                table=path,
            )
        check_allowed(tracking, self._options, self._handle.session.settings().given, self._place, path)
        self._shown, self._come_to = tracking.current.of(self._shown), tracking.current.version

    def _changes(self, commit: Commit) -> bool:
        """Whether a commit changes what the stream reads with."""
        return commit.version > self._come_to and differs(commit.metadata, commit.protocol, self._shown)

    def _track(self, version: int, begin: Position, through: int | None = None) -> None:
        """Begins the tracking log where it is empty, and keeps what a stream has come to; raises SchemaMismatch where that is not what it reads with.

        `through` is the last version of a batch that was planned before: one set of columns must do for all of it.
        """
        tracking, log = self._tracking, self._handle.state.log
        assert tracking is not None
        if tracking.current is None:
            entry = self._entry(log.at(version) if through is None else self._suits_all(version, max(version, through)))
        elif begin.initial and begin.version > max(self._come_to, tracking.current.version):
            entry = self._entry(log.at(begin.version))
            if not differs(entry.metadata, entry.protocol, self._shown):
                return
        else:
            return
        tracking.add(entry, instead=True)
        if differs(entry.metadata, entry.protocol, self._shown):
            raise evolved(entry, self._handle.path)
        self._walk.changes = self._changes

    def _entry(self, at: Snapshot) -> Tracked:
        return Tracked(at.version, at.metadata, at.protocol, self._place)

    def _suits_all(self, first: int, last: int) -> Snapshot:
        """The last version of some, under whose columns the rows of all of them can be read.  Raises SchemaMismatch."""
        log = self._handle.state.log
        found = log.at(last)
        others = [log.at(first).metadata, *(c.metadata for c in log.commits(first, last) if c.metadata is not None)]
        if any(unreadable(metadata, found) is not None for metadata in others):
            text = f"The columns change within versions {first} to {last}, which are one batch of the checkpoint: start the query with another checkpoint"
            condition = named("DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA", a=first, b=last)
            raise SchemaMismatch(text, table=self._handle.path, version=last, condition=condition)
        return found

    def committed(self, end: str) -> None:
        """Takes note that all up to an offset is written.  Raises SchemaMismatch where a change of the columns is next, which is kept for the next start."""
        if self._tracking is None or self._walk.changes is None:
            return
        at = parse(end, self._handle.path).at
        if at.index not in (CHANGE, AFTER_CHANGE):
            return
        commit = self._handle.state.log.commits(at.version - 1, at.version)[0]
        if self._changes(commit):
            entry = Tracked(at.version, commit.metadata or self._shown.metadata, commit.protocol or self._shown.protocol, self._place)
            self._tracking.add(entry)
            raise evolved(entry, self._handle.path)

    # ---- the rows of a batch ---------------------------------------------------------------

    def batch(self, start: str | None, end: str) -> DataFrame:
        """The rows between two offsets."""
        frame = self._frame(self.pieces(start, end))
        return relabelled(frame, {f.name: f.metadata for f in self.columns.fields})  # a sink that makes a table gives it the columns' comments

    def pieces(self, start: str | None, end: str) -> list[Piece]:
        """What is read between two offsets, in order."""
        newest = self._handle.state.refresh()
        self._walk.log = self._handle.state.log
        self._check_same_table(newest.metadata.id)
        to = self._returned(end, newest.version)
        begin = self._begun(to) if start is None else self._returned(start, newest.version).at
        if self._tracking is not None:
            self._track(begin.version, begin, to.at.version - (to.at.index == NOTHING))
        self._check_start(begin, newest.version)
        return self._between(begin, to.at, newest.version)

    def _begun(self, end: StreamOffset) -> Position:
        """Where the first batch began, from its end."""
        if end.start is not None:
            return end.start
        if self._options.starting_version is not None or self._options.starting_timestamp is not None:  # a checkpoint of delta-spark
            return self._begin(self._shown.version)
        return Position(end.at.version if end.at.initial else end.at.version - 1, NOTHING, initial=True)

    def _between(self, begin: Position, end: Position, newest: int) -> list[Piece]:
        found: list[Piece] = []
        at = begin
        for piece in self._walk.pieces(begin, newest) if begin < end else ():
            if piece.end > end:
                break
            found.append(piece)
            at = piece.end
            if at == end:
                break
        is_there = at == end or (at.version == end.version and max(at.index, end.index) < 0)  # a change of the columns is no place once it is taken
        if not is_there and self._options.read_change_feed and at < end and at.version == end.version:
            raise within_changes(end.version, self._handle.path)
        if not is_there and self._options.fail_on_data_loss:
            raise InvalidInput(
                f"The log leads to version {at.version}, file {at.index}, and not to version {end.version}, file {end.index}, where the checkpoint says that a "
                "batch ends: the options of the query are others than when the batch was planned, or the log was changed. Start the query as it was then, or "
                "with another checkpoint",
                table=self._handle.path,
                version=end.version,
            )
        return found

    def _frame(self, pieces: list[Piece]) -> DataFrame:
        planner = self._handle.planner
        if not self._options.read_change_feed:
            return planner.rows_of_files(self._shown, [file for piece in pieces for file in piece.files if self._takes(file)])
        vector_of, changed = self._handle.state.vectors.of, list[Changed]()
        for piece in pieces:
            changed += [Changed(piece.version, "insert", live_slice(file, vector_of)) for file in piece.files if self._takes(file)]
            if piece.changes is not None:
                changed += changed_rows(piece.changes, vector_of, self._handle.path, self._takes)
        return planner.changes(self._shown, changed, self._times({c.version for c in changed}))

    def _takes(self, file: AddFile) -> bool:
        """Whether excludeRegex leaves the file in."""
        return self._excluded is None or not self._excluded(file.log_path or encode(file.path))

    def _times(self, versions: set[int]) -> dict[int, int]:
        """When the versions were committed.  Raises VersionNotFound."""
        if not versions:
            return {}
        times = dict(self._handle.state.log.commit_times(self._handle.state.look()))
        for version in versions - set(times):
            try:
                times[version] = self._handle.state.log.at(version).timestamp_ms
            except VersionNotFound as e:
                text = f"The log no longer says when version {version} was committed, whose changes are to be read: start the query with another checkpoint"
                raise VersionNotFound(text, table=self._handle.path, version=version) from e
        return times
