"""What all commands share: how a function becomes one, the options that several have, how text and tables are printed, and errors.

An error prints one line and exits with code 2; with ROWLOCK_TRACEBACK=1 it prints the traceback.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, ParamSpec

import orjson
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rowlock import extras
from rowlock.display import first_line
from rowlock.exceptions import InvalidInput, RowlockError

P = ParamSpec("P")
app = typer.Typer(
    name="rowlock",
    help="A transaction engine for Delta Lake tables: many writers change one table, and none of them loses its work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

TablePath = Annotated[str, typer.Argument(help="A Delta table: a folder, or a URL that begins with s3://, gs:// or az://.")]
Commits = Annotated[int, typer.Option(help="How many commits to read, newest first.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="An option for cloud storage, such as AWS_ENDPOINT_URL=...; repeatable. Others are taken from the environment.",
    ),
]


def storage(given: list[str] | None) -> dict[str, str] | None:
    """Parses KEY=VALUE options.  Raises InvalidInput without the values, since one may be a secret."""
    if bad := [o for o in given or () if "=" not in o]:
        raise InvalidInput(f"--storage-option takes KEY=VALUE; one of {len(bad)} has no '='")
    return dict(o.split("=", 1) for o in given) if given else None


def names(listed: str) -> tuple[str, ...]:
    """The names in an option such as COL[,COL]."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


@contextmanager
def plain_errors() -> Iterator[None]:
    """Prints an exception as one line on standard error and exits with code 2."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # the command line ends quietly where the reader of a pipe has ended, as `head` does
        raise
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        raise typer.Exit(130) from None
    except Exception as error:
        if os.environ.get("ROWLOCK_TRACEBACK"):
            raise
        if isinstance(error, ModuleNotFoundError) and (remedy := extras.remedy(error.name or "")) is not None:
            error = RowlockError(f"this command needs the package {error.name}, which is not installed: {remedy}")
        text = " ".join(str(error).split()) if isinstance(error, RowlockError) else f"{type(error).__name__}: {first_line(error)}"
        say(Text("error", style="bold red").append(f": {text}", style="not bold default"), Console(stderr=True))
        raise typer.Exit(2) from None


def command(name: str | None = None, *, of: typer.Typer = app, hidden: bool = False) -> Callable[[Callable[P, object]], Callable[P, None]]:
    """Registers a function as a command: an exception becomes one line and exit code 2, a return value of False exit code 1."""

    def registered(function: Callable[P, object]) -> Callable[P, None]:
        @wraps(function)
        def run(*given: P.args, **named: P.kwargs) -> None:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(errors="backslashreplace")  # a file's name need not be UTF-8, nor the terminal's code
            with plain_errors():
                if function(*given, **named) is False:
                    raise typer.Exit(1)

        return of.command(name, hidden=hidden)(run)

    return registered


def say(text: str | Text, console: Console | None = None, *, markup: bool = False) -> None:
    """Prints a line as it is: never broken, and with markup only where asked for."""
    (console or Console()).print(text, highlight=False, markup=markup, soft_wrap=True)


def say_json(value: object) -> None:
    """Prints one JSON value over several lines."""
    try:
        print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    except TypeError:  # a file's name is no UTF-8
        print(json.dumps(value, indent=2))


def plain(text: str) -> Text:
    """Text of another writer for printing: no markup, and no control characters for the terminal."""
    return Text("".join(c if c.isprintable() else "�" for c in text))


def columns(*headings: str, rows: Iterable[Sequence[RenderableType]] = (), show_header: bool = True) -> Table:
    """A table without borders; columns whose headings end with a space hold numbers and are aligned right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=show_header)
    for name in headings:
        table.add_column(name.rstrip(), justify="right" if name.endswith(" ") else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    return table
