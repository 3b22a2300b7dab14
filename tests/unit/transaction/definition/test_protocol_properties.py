"""Protocol versions and features among the properties: they raise the protocol, never lower it, and are not stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import InvalidInput
from rowlock.protocol.features import reader_features, writer_features
from rowlock.storage.open import open_store
from rowlock.transaction.definition import creation
from rowlock.transaction.state.shared import SharedState, state_of

ROWS = pa.table({"a": [1]})
NO_VECTORS = {"delta.enableDeletionVectors": "false"}


def made(path: Path, **properties: str) -> SharedState:
    rowlock.append(str(path), ROWS, properties=NO_VECTORS | {f"delta.{k}": v for k, v in properties.items()})
    return state_of(open_store(str(path)))


def versions(state: SharedState) -> tuple[int, int]:
    head = state.refresh()
    assert not {k for k in head.metadata.configuration if k.startswith(("delta.min", "delta.feature."))}
    return head.protocol.min_reader_version, head.protocol.min_writer_version


def test_an_existing_table(tmp_path: Path) -> None:
    state = made(tmp_path / "t")
    assert versions(state) == (1, 2)
    creation.set_properties(state, {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "delta.columnMapping.mode": "name"})
    assert versions(state) == (2, 5) and state.refresh().schema.fields[0].column_id == 1
    for lower in ({"delta.minReaderVersion": "1"}, {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}, {"delta.minWriterVersion": "4"}):
        assert creation.set_properties(state, lower).version is None
    creation.set_properties(state, {"delta.minWriterVersion": "6", "mine": "1"})
    assert versions(state) == (2, 6)
    before = writer_features(state.refresh().protocol)
    creation.set_properties(state, {"delta.feature.vacuumProtocolCheck": "supported"})
    assert versions(state) == (3, 7) and writer_features(state.refresh().protocol) == before | {"vacuumProtocolCheck"}
    assert reader_features(state.refresh().protocol) == {"columnMapping", "vacuumProtocolCheck"}
    assert rowlock.append(str(tmp_path / "t"), ROWS).version == state.refresh().version


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"minReaderVersion": "2", "minWriterVersion": "5"}, (2, 5)),
        ({"minReaderVersion": "2", "minWriterVersion": "4"}, (1, 4)),
        ({"minReaderVersion": "1", "minWriterVersion": "1", "enableChangeDataFeed": "true"}, (1, 7)),
        ({"minWriterVersion": "7", "enableDeletionVectors": "true"}, (3, 7)),
    ],
)
def test_a_new_table(tmp_path: Path, properties: dict[str, str], expected: tuple[int, int]) -> None:
    state = made(tmp_path / "t", **properties)
    assert versions(state) == expected
    assert rowlock.append(str(tmp_path / "t"), ROWS).version == 1


@pytest.mark.parametrize(("name", "value"), [("delta.minReaderVersion", "4"), ("delta.minWriterVersion", "0")])
def test_versions_that_do_not_exist(tmp_path: Path, name: str, value: str) -> None:
    state = made(tmp_path / "t")
    with pytest.raises(InvalidInput, match=name):
        creation.set_properties(state, {name: value})
    assert versions(state) == (1, 2)


def test_the_highest_id_of_a_column_is_the_tables_own(tmp_path: Path) -> None:
    """I5: an id that is given twice shows the values of a dropped column in a new one."""
    state = made(tmp_path / "t", **{"columnMapping.mode": "name"})
    for change in (lambda n: creation.set_properties(state, {n: "0"}), lambda n: creation.unset_properties(state, [n])):
        with pytest.raises(InvalidInput, match="maxColumnId"):
            change("delta.columnMapping.maxColumnId")
    assert state.refresh().version == 0


def test_a_comment_among_the_properties_is_the_description(tmp_path: Path) -> None:
    """As delta-spark has it, when a table is made and later."""
    rowlock.append(str(tmp_path / "t"), ROWS, properties={"comment": "made", "mine": "1"})
    state = state_of(open_store(str(tmp_path / "t")))
    assert state.refresh().metadata.description == "made"
    creation.set_properties(state, {"comment": "set"})
    assert state.refresh().metadata.description == "set"
    creation.set_properties(state, {"mine": "2"})
    assert state.refresh().metadata.description == "set"
    creation.unset_properties(state, ["comment"])
    assert state.refresh().metadata.description is None
    assert "comment" not in state.refresh().metadata.configuration and state.refresh().metadata.configuration["mine"] == "2"
