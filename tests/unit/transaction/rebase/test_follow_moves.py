"""Effects follow compactions in one order, whatever the hashes of paths are: a schedule of the simulation is the same in every process."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor
from rowlock.transaction.rebase.follow_moves import follow_moves


def test_deletion_vectors_are_read_in_the_order_of_their_files_paths() -> None:
    asked: list[str] = []

    def vector_of(file: AddFile) -> BitMap64:
        asked.append(file.path)
        return BitMap64()

    file = AddFile("", {}, 1, 0, True, None, DeletionVectorDescriptor("u", "vector", 1, 1, 1))
    known = {path: replace(file, path=path) for path in ("b", "c", "a")}
    follow_moves(Effects(), (), known, known, known, vector_of)
    assert asked[:3] == ["a", "b", "c"]
