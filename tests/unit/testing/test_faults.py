"""The kit for users' tests: faults of puts in memory, and what runs in the midst of a transaction."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import InvalidInput
from rowlock.testing import LostPuts, between, memory_store


@pytest.fixture
def path() -> str:
    path = f"memory://{uuid.uuid4()}"
    rowlock.append(path, pa.table({"id": [0]}))
    return path


@pytest.mark.parametrize("kind", ["lost reply", "lost request", "told lost"])
@pytest.mark.parametrize("times", [1, 3])
def test_an_append_is_there_once_whatever_becomes_of_its_puts(path: str, kind: str, times: int) -> None:
    """I2."""
    faults = memory_store(path).faults = LostPuts(kind, times=times)  # type: ignore[arg-type]
    receipt = rowlock.append(path, pa.table({"id": [1]}))
    assert receipt.version == 1 and faults.left == (0 if kind == "lost request" else times - 1)
    assert sorted(rowlock.to_arrow(path)["id"].to_pylist()) == [0, 1]


def test_others_commit_in_between(path: str) -> None:
    with between("staged", lambda: rowlock.append(path, pa.table({"id": [1]})), times=2):
        first, second = (rowlock.append(path, pa.table({"id": [n]})) for n in (2, 3))
    assert (first.version, second.version) == (2, 4)
    assert rowlock.append(path, pa.table({"id": [9]})).version == 5  # it ended with the block


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="lost mind"):
        LostPuts("lost mind")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no phase 'lunch'"), between("lunch", print):
        pass
    with pytest.raises(InvalidInput, match="memory://orders"):
        memory_store("/lake/orders")
