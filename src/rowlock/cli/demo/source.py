"""Reads the user's own files for the demo (`--source`): checks them, splits the rows into streams, and puts them into the work folder.

Every fault of a file or a key is found here, before a table is created, and reported in one line with the remedy
(InvalidInput).
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from rowlock.cli.demo.load import Staged
from rowlock.display import first_line
from rowlock.exceptions import InvalidInput

MOST_STREAMS = 3
FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]+")  # not allowed in column names without column mapping


def stage(work: Path, *, source: Path, key: Sequence[str], split: str | None) -> list[str]:
    """Reads and checks the files, and writes their rows into the work folder.  Returns notes for the user.  Raises InvalidInput."""
    raw = read(source)
    if raw.is_empty():
        raise InvalidInput(f"{source} holds no rows. Give files with at least a few rows.")
    key = tuple(_column(raw, name, "--key") for name in key)
    by = _column(raw, split, "--split") if split else None
    rows, notes = _fitted(raw)
    renamed = dict(zip(raw.columns, rows.columns, strict=True))
    key = tuple(dict.fromkeys(renamed[name] for name in key))
    check_key(rows, key)
    streams, others = _streams(rows, renamed[by] if by else None)
    Staged.prepare(work, rows=rows, key=key, streams=streams, others=others)
    return [f"{len(rows):,} rows from {source}; streams: " + ", ".join(f"{name} ({len(part):,} rows)" for name, part in streams.items()), *notes]


def read(source: Path) -> pl.DataFrame:
    """Reads a CSV, JSON or Parquet file, or a folder of files of one of these kinds.  Raises InvalidInput."""
    if not source.exists():
        raise InvalidInput(f"There is no file or folder {source}. Check --source.")
    files = sorted(p for p in source.rglob("*") if p.is_file() and _kind(p) and not p.name.startswith((".", "_"))) if source.is_dir() else [source]
    kinds = {_kind(p) for p in files}
    if len(kinds) != 1 or None in kinds:
        problem = (
            f"holds {', '.join(sorted(map(str, kinds)))} files"
            if files and None not in kinds
            else "holds no file that can be read"
            if source.is_dir()
            else "is of no known kind"
        )
        text = f"{source} {problem}. --source takes one CSV, JSON or Parquet file (.csv, .tsv, .json, .jsonl, .ndjson, .parquet; CSV also .gz or .zip), or a folder of one kind."
        raise InvalidInput(text)
    reader = READERS[kinds.pop() or ""]
    parts = [_read_one(path, reader) for path in files]
    try:
        return pl.concat(parts, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        text = f"The files in {source} do not have the same columns: {first_line(error).rstrip('.')}. Give files of one shape, or one file."
        raise InvalidInput(text) from None


def check_key(rows: pl.DataFrame, key: tuple[str, ...]) -> None:
    """Raises InvalidInput unless the key columns are never null and together unique, as a merge needs."""
    for name in key:
        column = rows[name]
        if column.dtype.is_nested():
            raise InvalidInput(f"The key column {name} holds {column.dtype}; a key needs plain values. Choose other columns with --key.")
        missing = column.null_count() + (int(column.is_nan().sum()) if column.dtype.is_float() else 0)
        if missing:
            text = f"The key column {name} is null in {missing:,} of {len(rows):,} rows. Fill it in, remove these rows, or choose other columns with --key."
            raise InvalidInput(text)
    doubled = rows.group_by(key).len().filter(pl.col("len") > 1)
    if len(doubled):
        sample = ", ".join(f"{name}={value}" for name, value in doubled.select(key).sort(key).row(0, named=True).items())
        text = f"The key {', '.join(key)} is not unique: {len(doubled):,} values occur more than once, such as {sample}. Add columns to --key, or remove the duplicates."
        raise InvalidInput(text)


def _kind(path: Path) -> str | None:
    suffixes = [s.lower() for s in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in (".gz", ".zip"):
        suffixes.pop()
        return "csv" if suffixes and suffixes[-1] in (".csv", ".tsv") else None
    return {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".pq": "parquet"}.get(
        suffixes[-1] if suffixes else ""
    )


def _read_one(path: Path, reader: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
    try:
        return reader(path)
    except (OSError, ValueError, pl.exceptions.PolarsError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{path} cannot be read: {first_line(error).rstrip('.')}. Check that the file is complete and of the kind of its suffix.") from None


def _read_csv(path: Path) -> pl.DataFrame:
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
            if len(names) != 1:
                raise ValueError(f"the archive holds {len(names)} files instead of one")
            data = archive.read(names[0])
    elif path.suffix.lower() == ".gz":
        data = gzip.decompress(path.read_bytes())
    else:
        data = path.read_bytes()
    if b"\x00" in data[:4096]:
        raise ValueError("it is not text")
    head = data[:65536].decode("utf-8", errors="ignore").split("\n", 1)[0]
    separator = max(",;\t|", key=head.count)
    rows = pl.read_csv(io.BytesIO(data), separator=separator, infer_schema_length=None, try_parse_dates=True)
    return rows.with_columns(_numbers(column) for column in rows.get_columns() if column.dtype == pl.String)


def _numbers(column: pl.Series) -> pl.Series:
    """Converts a text column to numbers if all its values are numbers or NA (which becomes null); else returns it unchanged."""
    values = column.set(column == "NA", None)
    if values.null_count() in (column.null_count(), len(column)):
        return column
    for kind in (pl.Int64, pl.Float64):
        cast = values.cast(kind, strict=False)
        if cast.null_count() == values.null_count():
            return cast
    return column


def _read_json(path: Path) -> pl.DataFrame:
    data = path.read_bytes()
    if data.lstrip()[:1] == b"[":
        return pl.read_json(io.BytesIO(data), infer_schema_length=None)
    return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)


READERS: dict[str, Callable[[Path], pl.DataFrame]] = {"csv": _read_csv, "json": _read_json, "parquet": pl.read_parquet}


def _column(rows: pl.DataFrame, name: str, option: str) -> str:
    """The column of this name: exactly, or the only one that differs in case.  Raises InvalidInput."""
    if name in rows.columns:
        return name
    alike = [c for c in rows.columns if c.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    raise InvalidInput(f"There is no column {name} for {option}. The columns are: {', '.join(rows.columns)}.")


def _fitted(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The rows with column names and types that a Delta table allows, and notes on what was renamed."""
    names = {name: FORBIDDEN.sub("_", name.strip()) or "column" for name in rows.columns}
    lower = [n.lower() for n in names.values()]
    doubled = sorted({n for n in lower if lower.count(n) > 1})
    if doubled:
        raise InvalidInput(f"Several columns are called {', '.join(doubled)} (upper and lower case are the same in Delta). Rename them.")
    changed = [f"{old} -> {new}" for old, new in names.items() if old != new]
    notes = [f"renamed, as Delta does not allow these names: {', '.join(changed)}"] if changed else []
    return rows.rename(names).with_columns(_typed(pl.col(names[name]), kind) for name, kind in rows.schema.items()), notes


def _typed(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """The column cast to a type that Parquet, Spark and Delta agree on.  A time without a zone is taken as UTC."""
    if isinstance(kind, pl.Datetime):
        return (
            column.cast(pl.Datetime("us", kind.time_zone)).dt.convert_time_zone("UTC")
            if kind.time_zone
            else column.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        )
    if kind in (pl.UInt8, pl.UInt16, pl.UInt32):
        return column.cast(pl.Int64)
    if kind in (pl.UInt64, pl.Int128):
        return column.cast(pl.Decimal(38, 0))
    if kind in (pl.Null, pl.Time, pl.Categorical, pl.Duration) or isinstance(kind, pl.Enum):
        return column.cast(pl.String)
    return column


def _streams(rows: pl.DataFrame, by: str | None) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """One stream for each of the most frequent values of a column, and the rows of no stream; without a column, two halves."""
    if by is None:
        place = pl.int_range(pl.len()) % 2
        halves = {"one": rows.filter(place == 0), "two": rows.filter(place == 1)}
        return {name: part for name, part in halves.items() if len(part)}, rows.clear()
    if rows[by].dtype.is_nested():
        raise InvalidInput(f"The column {by} holds {rows[by].dtype}; --split needs plain values.")
    values = rows[by].drop_nulls().value_counts(sort=True).sort(["count", by], descending=[True, False])[by].head(MOST_STREAMS)
    if not len(values):
        raise InvalidInput(f"The column {by} is null in every row. Choose another with --split.")
    streams = {_stream_name(value, place): rows.filter(pl.col(by) == value) for place, value in enumerate(values)}
    return streams, rows.filter(~pl.col(by).is_in(values.implode()) | pl.col(by).is_null())


def _stream_name(value: object, place: int) -> str:
    text = re.sub(r"[^\w.+-]+", "-", str(value)).strip("-")[:20] or "stream"
    return text if text not in ("optimize", "gdpr") else f"{text}-{place + 1}"
