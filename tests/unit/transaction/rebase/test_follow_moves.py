"""Effects follow compactions in one order, whatever the hashes of paths are: a schedule of the simulation is the same in every process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, RowBlock
from rowlock.boundary.engine import Statement
from rowlock.limits import limited
from rowlock.protocol.actions import AddFile, Commit, Placement, RemoveFile
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor
from rowlock.transaction.rebase.follow_moves import drop_overlapping_bins, follow_moves


def test_deletion_vectors_are_read_in_the_order_of_their_files_paths() -> None:
    """As the transaction has last seen the files, and as they are at the head."""
    asked: list[str] = []

    def vector_of(file: AddFile) -> BitMap64:
        asked.append(file.path)
        return BitMap64()

    file = AddFile("", {}, 1, 0, True, None, DeletionVectorDescriptor("u", "vector", 1, 1, 1))
    known, after = ({path: replace(file, path=path) for path in paths} for paths in ("bca", "zyx"))
    compacted = RemoveFile("gone", 0, False, stats='{"numRecords": 1}', tags=Placement("into", 0, 1).tags())
    winner = Commit(1, adds=(AddFile("into", {}, 1, 0, False, '{"numRecords": 1}'),), removes=(compacted,))
    assert follow_moves(Effects(), (winner,), (*known, *after), known, after, vector_of) is not None
    assert asked == ["a", "b", "c", "gone", "x", "y", "z"]


@pytest.mark.parametrize(
    ("gone", "by_compaction", "vectors", "most", "stays"),
    [
        ("a", False, True, 0, True),
        ("abc", False, True, 0, False),  # a file alone is not compacted
        ("a", True, True, 0, True),  # as an automatic compaction takes the newest files of a large bin
        ("ad", True, True, 0, False),  # three quarters of the rows: nearly all of the output would be marked
        ("ad", True, False, 9, True),  # moved anew, without them
        ("a", False, False, 9, True),
        ("a", False, False, 8, False),  # larger than what others wait for
    ],
)
def test_a_bin_stays_while_it_is_worth_its_commit(gone: str, by_compaction: bool, vectors: bool, most: int, stays: bool) -> None:
    rows = {"a": 10, "b": 10, "c": 10, "d": 80, "other": 1}
    effects = Effects({p: BitMap64(range(n)) for p, n in rows.items()}, (RowBlock("derived", 0, 110, 9, None), RowBlock("derived", 0, 1, 1, None, group=1)))
    winner = Commit(1, removes=tuple(RemoveFile(p, 0, not by_compaction) for p in gone))
    program = [Statement("move", None, only=(("a", "b", "c", "d"), ("other",)))]
    with limited(moved_again_bytes=most):
        assert drop_overlapping_bins(program, effects, (winner,), {}, vectors=vectors) == effects or not stays
        left = drop_overlapping_bins(program, effects, (winner,), {}, vectors=vectors, in_lane=True)
    assert left == effects if stays else (left.blocks, set(left.tombstones)) == (effects.blocks[1:], {"other"})
