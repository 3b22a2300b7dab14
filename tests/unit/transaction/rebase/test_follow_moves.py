"""Effects follow compactions in one order, whatever the hashes of paths are: a schedule of the simulation is the same in every process."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects
from rowlock.protocol.actions import AddFile, Commit, Placement, RemoveFile
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor
from rowlock.transaction.rebase.follow_moves import follow_moves


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
