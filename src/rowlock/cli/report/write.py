"""`rowlock conflicts --html FILE --trace FILE`: writes a table's history as a page, or as a trace.  Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson
from rich.console import Console
from rich.text import Text

from rowlock import clock, display
from rowlock.advice.read_history import read_history
from rowlock.cli.conflicts import summary
from rowlock.cli.report.page import html
from rowlock.cli.report.trace import trace
from rowlock.exceptions import InvalidInput
from rowlock.storage.open import open_store


def report_on(
    path: str,
    limit: int,
    console: Console,
    storage_options: Mapping[str, str] | None = None,
    *,
    page: Path | None = None,
    trace_file: Path | None = None,
    as_json: bool = False,
) -> None:
    """Writes the page and the trace of the newest `limit` commits, and says where.  Raises InvalidInput, before anything is read, where a file cannot be there."""
    for file in (page, trace_file):
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise InvalidInput(f"{file} cannot be written: {'it is a folder' if file.is_dir() else f'there is no folder {file.parent}'}.")
    history = read_history(open_store(path, storage_options), limit)
    if page is not None:
        _write(page, html(history, clock.now_ms()).encode(errors="replace"), console, as_json)
    if trace_file is not None:
        _write(trace_file, orjson.dumps(trace(history)), console, as_json)
    if as_json:
        console.file.write(orjson.dumps(summary(history), option=orjson.OPT_INDENT_2).decode() + "\n")


def _write(file: Path, data: bytes, console: Console, quiet: bool) -> None:
    file.write_bytes(data)
    if not quiet:
        console.print(Text(f"Written: {file} ({display.size(len(data))})"), soft_wrap=True)
