"""Which ways through the code a run took: each data path is a function, and when its result says that the path was taken.

A function that was renamed makes the run fail here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rowlock.limits import limits

Taken = Callable[[Any, tuple[Any, ...]], bool]


def _always(_result: Any, _args: tuple[Any, ...]) -> bool:
    return True


def _is_small(evaluator: Any, piece: Any) -> bool:
    return bool(evaluator.num_rows(piece.file) <= limits().local_rows)


def _in_files(wanted: bool) -> Taken:
    return lambda result, _: any(bool(b.payload.files) is wanted for b in result)


PATHS: tuple[tuple[str, str, str, Taken], ...] = (
    ("statement on the driver", "rowlock.engines.spark.driver_rows", "evaluate", _always),
    ("statement by a scan", "rowlock.engines.spark.driver_rows", "scan", lambda r, _: r.num_rows > 0),
    ("rows found by a mask or key", "rowlock.engines.spark.driver_rows", "read_matching", lambda r, _: bool(r[0])),
    ("mask of a condition", "rowlock.engines.spark.statements.row_statements", "row_mask", lambda r, _: r is not None),
    ("rows found by a job", "rowlock.engines.spark.statements.row_statements", "_matching_positions", _always),
    ("DELETE by columns of its condition", "rowlock.engines.spark.statements.row_statements", "_met", lambda r, _: bool(r[0])),
    ("UPDATE written by Spark", "rowlock.engines.spark.statements.row_statements", "_write_changed", _always),
    ("append on the driver", "rowlock.engines.spark.statements.append", "append_blocks", _in_files(False)),
    ("append written by Spark", "rowlock.engines.spark.statements.append", "append_blocks", _in_files(True)),
    ("MERGE pairs on the driver", "rowlock.engines.spark.statements.merge", "MergeRun._driver_pairs", _always),
    ("MERGE pairs by a join of driver rows", "rowlock.engines.spark.statements.merge", "MergeRun._joined_pairs", _always),
    ("MERGE pairs by a scan", "rowlock.engines.spark.statements.merge", "MergeRun._scan_pairs", _always),
    ("MERGE written by Spark", "rowlock.engines.spark.statements.merge", "MergeJob.write", _always),
    ("MERGE in one outer join", "rowlock.engines.spark.statements.merge", "MergeJob._with_inserts", _always),
    ("MERGE inserts", "rowlock.engines.spark.statements.merge", "MergeRun.inserts", lambda r, _: bool(r)),
    ("OPTIMIZE moved by Arrow", "rowlock.parquet.moving", "move_rows", lambda r, _: bool(r)),
    ("OPTIMIZE sorted by Arrow", "rowlock.parquet.moving", "sort_rows", lambda r, _: bool(r[0])),
    ("OPTIMIZE written by Spark", "rowlock.engines.spark.statements.compaction", "_written", _always),
    ("copy on write on the driver", "rowlock.engines.spark.write.writer", "copy_slices", lambda _, args: any(_is_small(args[0], s) for s in args[1])),
    ("copy on write by Spark", "rowlock.engines.spark.write.writer", "_copied_by_spark", _always),
    ("changes on the driver", "rowlock.engines.spark.write.writer", "_on_driver", lambda r, _: r is not None),
    ("changes by Spark", "rowlock.engines.spark.write.writer", "_on_driver", lambda r, _: r is None),
    ("a rebase", "rowlock.transaction.rebase.onto_head", "rebase", _always),
    ("rows followed through a compaction", "rowlock.transaction.rebase.onto_head", "follow_moves", lambda r, _: r is not None and r.rows > 0),
    ("vector inline", "rowlock.transaction.state.shared", "Vectors.store_all", lambda r, _: any(d.is_inline for d in r)),
    ("vector in a file", "rowlock.transaction.state.shared", "Vectors.store_all", lambda r, _: any(not d.is_inline for d in r)),
    ("file checked by a scan", "rowlock.engines.spark.statements.constraint_checks", "check_files", _always),
    ("rows checked on the driver", "rowlock.engines.spark.statements.constraint_checks", "check_table", _always),
)


@contextlib.contextmanager
def counted(counts: Counter[str]) -> Iterator[None]:
    """Counts the paths that are taken inside."""
    undo: list[tuple[Any, str, Any]] = []
    for label, module, name, taken in PATHS:
        owner: Any = importlib.import_module(module)
        *outer, attribute = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        places = [owner] if outer else _importers(owner, attribute)
        for place in places:
            undo.append((place, attribute, getattr(place, attribute)))
            setattr(place, attribute, _counting(getattr(place, attribute), label, taken, counts))
    try:
        yield
    finally:
        for place, attribute, original in reversed(undo):
            setattr(place, attribute, original)


def _importers(owner: Any, attribute: str) -> list[Any]:
    """The module of a function, and all that have taken it in by name."""
    import sys

    function = getattr(owner, attribute)
    return [
        owner,
        *(
            m
            for m in list(sys.modules.values())
            if m is not owner and getattr(m, "__name__", "").startswith("rowlock.") and getattr(m, attribute, None) is function
        ),
    ]


def _counting(function: Any, label: str, taken: Taken, counts: Counter[str]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if taken(result, args):
            counts[label] += 1
        return result

    return call
