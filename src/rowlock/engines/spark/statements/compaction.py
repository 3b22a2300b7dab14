"""Compaction: rewrites small files, and files with many dead rows, into few files, in their present order or in Z-order.

In present order an output holds its input files one after the other, each without its dead rows.  Arrow moves the rows where it can (`parquet.moving`).
Where Spark writes them, their origin is read back from the new files (`stored_origin`), never concluded from the order in which Spark got them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
from pyroaring import BitMap64
from pyspark import inheritable_thread_target
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rowlock import progress
from rowlock.boundary.effects import RowBlock
from rowlock.boundary.provenance import Origin
from rowlock.conditions import named
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.bridge import analyzed, bare, nullable
from rowlock.engines.spark.catalyst.types import marked, padded
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.row_ids import moving_frame
from rowlock.engines.spark.read.scan import PATH, POSITION, Scanner, empty_frame, local_frame, table_schema, wrap_session
from rowlock.engines.spark.read.stored_origin import stored_origin, with_hashed_path
from rowlock.engines.spark.statements.row_order import ordered_frame
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import CorruptLog, StatementRefused
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import file_block
from rowlock.parquet.curves import Order
from rowlock.parquet.moving import Living, move_rows, moved_origin, sort_rows
from rowlock.parquet.physical import Doubtful, names_in_files
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import with_clustering
from rowlock.protocol.deletion_vector import positions_except
from rowlock.protocol.schema import quote
from rowlock.threads import side_by_side
from rowlock.transaction.state.call import settings

_INPUT_NUMBER = "__rowlock_n"
_MOST_BINS = 15
"""Bins that executors write at the same time, at most; each has a thread of the driver."""


def files_where(evaluator: Evaluator, snapshot: Snapshot, condition: str | None) -> list[AddFile]:
    """The live files whose partition values meet `condition`; all live files where it is None.  No job.  Raises AnalysisException, StatementRefused."""
    files = list(snapshot.files.adds())
    if condition is None:
        return files
    session, fields = wrap_session(evaluator.spark, evaluator.statement_session()), nullable(table_schema(snapshot)).fields
    wanted = StructType([f for f in fields if f.name in snapshot.partition_columns])
    check_partition_condition(evaluator, snapshot, condition)
    stored = [names_in_files(snapshot)[n] for n in wanted.names]
    held = sorted({tuple(f.partition_values.get(n) for n in stored) for f in files}, key=repr)
    texts = [pa.array([values[n] or None for values in held], pa.string()) for n in range(len(stored))]
    table = pa.table([*texts, pa.array(range(len(held)), pa.int64())], names=[*wanted.names, _INPUT_NUMBER])
    frame = local_frame(session, table, StructType([*(StructField(n, StringType()) for n in wanted.names), StructField(_INPUT_NUMBER, LongType())]))
    typed = frame.select(*(marked(padded(F.col(quote(f.name)).cast(bare(f.dataType)), f), f) for f in wanted.fields), _INPUT_NUMBER)  # as a scan has them
    chosen = typed.where(condition).select(_INPUT_NUMBER)
    kept = {held[row[0]] for row in chosen.collect()}
    return [f for f in files if tuple(f.partition_values.get(n) for n in stored) in kept]


WITHOUT_CHANGE = "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET"


def check_partition_condition(evaluator: Evaluator, snapshot: Snapshot, condition: str | Column, why: str = "DELTA_NON_PARTITION_COLUMN_REFERENCE") -> None:
    """Raises StatementRefused, with the error condition `why`, for a condition that names a column by which the table is not partitioned, AnalysisException for one that cannot be resolved."""
    session, fields = wrap_session(evaluator.spark, evaluator.session()), nullable(table_schema(snapshot)).fields
    resolved = analyzed(empty_frame(session, StructType(fields)).where(condition))
    names = {str(a.exprId()): f.name for a, f in zip(evaluator.bridge.list(resolved.output()), fields, strict=True)}  # the condition may spell them otherwise
    used = {names[str(a.exprId())] for a in evaluator.bridge.list(resolved.condition().references().toSeq())}
    if other := used - set(snapshot.partition_columns):
        listed = ", ".join(snapshot.partition_columns)
        text = f"Predicate references non-partition column '{min(other)}'. Only the partition columns may be referenced: [{listed}]"
        told = {"dataFilters": str(condition)} if why == WITHOUT_CHANGE else {"columnName": min(other), "columnList": listed}
        raise StatementRefused(text, what=str(condition), table=evaluator.store.root, condition=named(why, **told))


def predicate_text(evaluator: Evaluator, condition: str) -> str:
    """A condition as delta-spark writes it into the log for OPTIMIZE: parsed, not yet resolved.  Raises Spark's ParseException."""
    return str(evaluator.spark._jsparkSession.sessionState().sqlParser().parseExpression(condition).toString())


def run(
    evaluator: Evaluator, groups: Sequence[Sequence[str]], order: Order | None, slices: Sequence[Slice], snapshot: Snapshot, index: int
) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """Tombstones for every live row of the groups' files, and one block of moved rows for each group."""
    pieces = {s.path: s for s in slices}
    living = {p: positions_except(evaluator.num_rows(pieces[p].file), pieces[p].without) for group in groups for p in group if p in pieces}

    progress.step("rewriting files")

    def rewritten(number: int) -> RowBlock:
        inputs = [pieces[p] for p in groups[number] if p in pieces]
        moved = _moved(evaluator, inputs, living, snapshot) if order is None else _ordered(evaluator, inputs, living, order, snapshot)
        progress.one_more(len(groups), "bins")
        return replace(moved, statement=index, group=number, moved=True)

    # each bin in copies of its own of the caller's job group, tags and scheduler pool: a thread changes what it is given
    bins = [inheritable_thread_target(evaluator.spark)(functools.partial(rewritten, n)) for n in range(len(groups))]
    most = limits().file_threads if _is_local(evaluator) else _MOST_BINS
    workers = max(1, min(evaluator.spark.sparkContext.defaultParallelism, most))  # a bin is written by one task or few
    blocks = side_by_side(lambda rewrite: rewrite(), bins, workers)
    pa.default_memory_pool().release_unused()  # what row groups took, which Arrow would keep
    return {p: rows for p, rows in living.items() if rows}, blocks


def _whole_files(evaluator: Evaluator) -> Scanner:
    """A scanner whose scans read all their files in one task, none of them split, so that rows stay in the order of their file without a sort."""
    session = evaluator.session()
    session.conf().set("spark.sql.files.maxPartitionBytes", str(2**63 - 1))
    session.conf().set("spark.sql.files.minPartitionNum", "1")
    return Scanner(wrap_session(evaluator.spark, session), evaluator.root)


def _frame(scanner: Scanner, inputs: Sequence[Slice], snapshot: Snapshot) -> DataFrame:
    """The live rows of the inputs with their row ids and addresses."""
    vectors = {s.path: s.without or BitMap64() for s in inputs}
    return moving_frame(scanner, snapshot, [s.file for s in inputs], lambda f: vectors[f.path])


def _written(evaluator: Evaluator, frame: DataFrame, inputs: Sequence[Slice], living: Living, order: Order | None, snapshot: Snapshot) -> RowBlock:
    """The block of the rows that Spark writes, with the origin that their files hold.  Raises CorruptLog where these are not exactly the live rows of the inputs."""
    values = [dict(s.file.partition_values) for s in inputs]
    assert all(v == values[0] for v in values), "a bin lies within one partition"
    files = sorted((f for _, f in write_native(frame, evaluator.store, snapshot, values=values[0]) if f.num_records), key=lambda f: f.path)
    found = stored_origin(files, evaluator.store, evaluator.paths_by_hash(inputs))
    wanted = {s.path: living[s.path] for s in inputs if living[s.path]}
    num_rows = sum(map(len, wanted.values()))
    if found.num_rows != num_rows or found.bitmaps() != wanted:
        text = f"The files {', '.join(s.path for s in inputs[:3])}{'' if len(inputs) <= 3 else ' ...'} hold other rows than the log says: {found.num_rows:,}, not {num_rows:,}. See rowlock check; nothing was committed"
        raise CorruptLog(text, table=evaluator.store.root)
    return _block(files, found, order)


def _block(files: Sequence[AddFile], origin: Origin, order: Order | None = None) -> RowBlock:
    """The block of moved rows in new files, which are marked as clustered where they are."""
    clustering = None if order is None else order.clustering
    return file_block("derived", 0, files if clustering is None else [with_clustering(f, clustering) for f in files], origin=origin)


def _most_records() -> int | None:
    """How many rows a file may have by the session's setting; None where it has none."""
    return int(settings().text("spark.sql.files.maxRecordsPerFile") or 0) or None


def _moved(evaluator: Evaluator, inputs: Sequence[Slice], living: Living, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs in their present order, as a block of one file, or of several where the session says how many rows a file holds at most."""
    if _is_for_arrow(evaluator, inputs):
        with suppress(Doubtful):
            files = move_rows(evaluator.store, inputs, living, snapshot, max_records=_most_records(), case_sensitive=evaluator.rows.case_sensitive)
            return _block(files, moved_origin(inputs, living))
    frame = with_hashed_path(_frame(_whole_files(evaluator), inputs, snapshot))
    return _written(evaluator, frame.coalesce(1), inputs, living, None, snapshot)


def _is_for_arrow(evaluator: Evaluator, inputs: Sequence[Slice]) -> bool:
    """Whether the driver is to rewrite a bin.  On a cluster the executors do, if the rows are many: they are nearer to the store, and more."""
    if sum(s.file.size_bytes for s in inputs) > limits().moved_bytes:
        return False
    return _is_local(evaluator) or evaluator.physical_rows(inputs) <= limits().local_rows


def _is_local(evaluator: Evaluator) -> bool:
    return str(evaluator.spark.sparkContext.master).startswith("local")


def _ordered(evaluator: Evaluator, inputs: Sequence[Slice], living: Living, order: Order, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs sorted by `order`, in files of about `order.target_bytes`."""
    num_rows = sum(len(living[s.path]) for s in inputs)
    num_files = max(1, min(num_rows, -(-sum(map(_live_bytes, inputs)) // order.target_bytes)))
    if _is_for_arrow(evaluator, inputs):
        with suppress(Doubtful):
            case_sensitive = evaluator.rows.case_sensitive
            return _block(
                *sort_rows(evaluator.store, inputs, living, snapshot, order, num_files, max_records=_most_records(), case_sensitive=case_sensitive), order
            )
    scanner = evaluator.scanner
    place = F.create_map(*[x for n, s in enumerate(inputs) for x in (F.lit(scanner.uri(s.file)), F.lit(n))])
    frame = _frame(scanner, inputs, snapshot)
    rows = ordered_frame(frame, order, num_files, num_rows, [place[F.col(PATH)], F.col(POSITION)])
    return _written(evaluator, rows, inputs, living, order, snapshot)


def _live_bytes(piece: Slice) -> int:
    rows, live = piece.file.num_records, piece.num_rows
    return piece.file.size_bytes if not rows or live is None else piece.file.size_bytes * live // rows
