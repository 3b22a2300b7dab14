"""Files that the log names in another way than Rowlock does: steps that lead nowhere, whole places, links (I3, I4, I5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import CorruptLog
from rowlock.log.table_log import TableLog
from rowlock.storage.local import LocalStore
from support.turning_down import turn_down

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake and DuckDB do not know these spellings; delta-spark is asked by the test")]
WAYS = {"driver": {}, "large": {"driver_rows": 0, "local_rows": 0, "moved_bytes": 0}}


@pytest.mark.parametrize("spelling", ["./{name}", "sub/..//{name}", "file:{root}/{name}", "{link}/{name}"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.short("driver-sub/..//{name}", "large-{link}/{name}", why="the two spellings that look least like the name, by each way")
@pytest.mark.usual_limits("it takes the one file of a table")
def test_rows_are_changed_however_the_log_spells_their_file(spark: Any, tmp_path: Path, way: str, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead rows came back, for vectors were looked up by another spelling than Spark's; large statements failed with KeyError."""
    root, link = tmp_path / "table", tmp_path / "link"
    rowlock.append(root, pa.table({"k": [1, 2, 3]}))
    link.symlink_to(root)
    (root / "sub").mkdir()
    (name,) = (p.name for p in root.glob("*.parquet"))
    commit = root / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace(f'"path":"{name}"', f'"path":"{spelling.format(name=name, link=link, root=root)}"'))
    turn_down(monkeypatch, **WAYS[way])
    table = DeltaTable.forPath(spark, str(root))
    table.delete("k = 2")
    assert sorted(r.k for r in rowlock.read(spark, str(root)).collect()) == [1, 3]
    log = TableLog(LocalStore(root))
    log.write_checkpoint(log.latest())
    table = DeltaTable.forPath(spark, str(root))
    table.update("k = 3", {"k": "30"})
    assert sorted(rowlock.to_arrow(root)["k"].to_pylist()) == [1, 30]
    assert sorted(r.k for r in rowlock.read(spark, str(root)).collect()) == [1, 30]
    assert sorted(r.k for r in spark.read.format("delta").load(str(root)).collect()) == [1, 30]


@pytest.mark.usual_limits("it takes the one file of a table")
def test_a_commit_that_adds_one_file_under_two_spellings(spark: Any, tmp_path: Path) -> None:
    """I9: delta-spark counts the file's rows twice, deltalake does not: neither is guessed, and version, file and both spellings are named."""
    root = tmp_path / "table"
    rowlock.append(root, pa.table({"k": [1, 2, 3]}))
    (name,) = (p.name for p in root.glob("*.parquet"))
    commit = root / "_delta_log" / f"{0:020}.json"
    (line,) = (text for text in commit.read_text().splitlines() if text.startswith('{"add"'))
    commit.write_text(commit.read_text() + line.replace(name, name.replace("-", "%2D")) + "\n")
    assert spark.read.format("delta").load(str(root)).count() == 6
    for look in (lambda: rowlock.to_arrow(root), lambda: rowlock.read(spark, str(root)), lambda: rowlock.append(root, pa.table({"k": [4]}))):
        with pytest.raises(CorruptLog, match=f"adds {name} twice, spelled {name} and {name.replace('-', '%2D')}: .*Restore the version before") as e:
            look()
        assert (e.value.table, e.value.version, e.value.file) == (str(root), 0, f"_delta_log/{0:020}.json")
