"""One line for each statement on how its rows were found and written (`Receipt.ways`)."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock import display
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.addressed_rows import Found
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.limits import limits


class Ways:
    """The ways of the statements of a transaction, in their order.  Those of its rebases are not recorded."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.told: list[str] = []

    def whole_files(self, number: int) -> None:
        self._tell(f"{display.count(number, 'file')} deleted as a whole, without reading rows")

    def small_files(self, found: Sequence[Found]) -> None:
        if found:
            self._tell(f"{_rows(found)} of {display.count(len(found), 'file')} read on the driver (at most {limits().local_rows:,}: local_rows)")

    def candidates(self, found: Sequence[Found], by: str, files: int) -> None:
        """Files whose rows were chosen on the driver by the columns of a condition; of some of them no row was left."""
        if files:
            self._tell(f"{display.count(files, 'file')} searched on the driver by {by}: {_rows(found)} may be meant")

    def job(self, slices: Sequence[Slice], what: str = "") -> None:
        number, size = display.count(len(slices), "file"), display.size(sum(s.file.size_bytes for s in slices))
        self._tell(f"Spark job over {number}, {size}, {display.count(self._evaluator.physical_rows(slices), 'row')}{what}")

    def written_by_spark(self, what: str) -> None:
        self._tell(f"{what} written by Spark (more than {limits().driver_rows:,}: driver_rows)")

    def _tell(self, way: str) -> None:
        self.told.append(way)


def _rows(found: Sequence[Found]) -> str:
    return display.count(sum(table.num_rows for _, table, _ in found), "row")
