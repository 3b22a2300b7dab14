"""Rows that are kept of data files (I5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowlock.arrow.rows import Rows
from rowlock.protocol.actions import AddFile
from rowlock.storage.local import LocalStore
from rowlock.transaction.creation import draft_snapshot, new_metadata
from schedules.play import schema_string

NAMES = ["k", "v"]


@pytest.mark.parametrize("differing", ["size", "time", "table"])
def test_rows_of_a_file_of_the_same_name(tmp_path: Path, differing: str) -> None:
    """I5: what is kept of a file is believed for that file alone: by name, size, time of change and table."""
    check_kept(tmp_path, differing)


def test_rows_of_a_file_of_another_table(tmp_path: Path) -> None:
    """I5: the same name, size and time, as a backup that was put back has them, in a table that was made anew."""
    check_kept(tmp_path, "table")


def check_kept(tmp_path: Path, differing: str) -> None:
    rows = Rows(LocalStore(tmp_path))
    snapshot = draft_snapshot(new_metadata(schema_string([(n, "long", True) for n in NAMES]), (), {}), str(tmp_path))
    file = AddFile("part-0.parquet", {}, 0, 1, True, None)
    for first in (100, 500):
        values = np.arange(first, first + 3)
        pq.write_table(pa.table({"k": values, "v": values + 1}), tmp_path / file.path, compression="none")
        if first == 500:
            file = replace(file, modification_time_ms=2) if differing == "time" else file
            snapshot = replace(snapshot, metadata=replace(snapshot.metadata, id="another")) if differing == "table" else snapshot
        file = replace(file, size_bytes=(tmp_path / file.path).stat().st_size + (first if differing == "size" else 0))
        found = [rows.read(file, snapshot), rows.read_columns(file, NAMES, snapshot), rows.read_positions(file, np.arange(3), snapshot), rows.read_at(file, np.arange(3), NAMES, snapshot)]
        assert [t.column("k").to_pylist() for t in found if t is not None] == [values.tolist()] * 4
