"""The command line: `inspect` and `conflicts` have the commands on one table, this file all others, whose packages are imported when one runs."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rowlock import extras
from rowlock.cli import conflicts, inspect
from rowlock.cli.app import app, command, names, plain_errors, say
from rowlock.exceptions import InvalidInput
from rowlock.version import VERSION

__all__ = ["app", "conflicts", "inspect"]


def _print_version(wanted: bool) -> None:
    """Prints the version and exits, if the option is given."""
    if wanted:
        print(f"rowlock {VERSION}")
        raise typer.Exit


@app.callback()
def _options(_: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False) -> None:
    """A transaction engine for Delta Lake tables: many writers change one table, and none of them loses its work."""


def _needs_checkout(package: str) -> None:
    """Raises InvalidInput if a package for testing or measuring Rowlock itself is not installed."""
    if find_spec(package) is None:
        raise InvalidInput(f"This command tests or measures Rowlock itself and is not in its wheel: install a checkout (pip install -e .), which has {package}")


@command()
def demo(
    seconds: Annotated[float, typer.Option(help="How long the writers run, in seconds, after all of them are ready.", min=1)] = 30,
    policy: Annotated[
        str, typer.Option(help="repair: a statement that conflicts is rebased. fail: it raises, by Delta's rules for files, and is run again.")
    ] = "repair",
    path: Annotated[
        Path | None, typer.Option(help="Where to create the table; must not exist yet, and remains afterwards. Default: a temporary folder.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder: the table, the sources and the writers' logs.")] = False,
    rows: Annotated[int, typer.Option(help="How many generated orders the table starts with.", min=2)] = 100_000,
    source: Annotated[Path | None, typer.Option(help="Your own data: a CSV, JSON or Parquet file, or a folder of one kind.")] = None,
    key: Annotated[str, typer.Option(help="With --source: the columns that identify a row, COL[,COL].")] = "",
    split: Annotated[str | None, typer.Option(help="With --source: one stream for each of this column's most frequent values, up to 3.")] = None,
    streams: Annotated[bool, typer.Option("--streams", help="Instead: two streams, US and UK, merge arriving orders into one table by foreachBatch.")] = False,
    together: Annotated[bool, typer.Option("--together", help="Instead: sales change two tables at once, and one of the sellers is killed.")] = False,
) -> bool:
    """Let four processes change one table at the same time, then check it against a serial replay."""
    from rowlock.cli.demo.run import Choices, run

    if streams:
        from rowlock.cli.demo.streams import run
    elif together:
        from rowlock.cli.demo.together import run
    choices = Choices(seconds=seconds, policy=policy, path=path, keep=keep, rows=rows, source=source, key=names(key), split=split)
    return run(choices, Console())


@command(hidden=find_spec("rowlock_bench") is None)
def bench(
    suites: Annotated[
        list[str] | None, typer.Argument(help="What to measure: contended, shapes, appends, ... Default: everything.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure once, on small tables: a first impression in some minutes.")] = False,
    rounds: Annotated[int | None, typer.Option(help="How often each is measured. Default: 3, with --quick 1.", min=1, show_default=False)] = None,
    results: Annotated[Path | None, typer.Option(help="Keep each result as a line of this file, and go on with what it lacks.")] = None,
    seed: Annotated[int, typer.Option(help="Decides the order of the measurements.")] = 0,
    write: Annotated[
        bool, typer.Option("--write", help="Measure nothing: write docs/figures.md, its pictures and the README's table from docs/figures.jsonl.")
    ] = False,
) -> bool:
    """Measure Rowlock beside delta-spark, deltalake and plain Parquet on this machine."""
    _needs_checkout("rowlock_bench")
    from rowlock_bench import command as of_bench

    if write:
        return of_bench.write(Console())
    return of_bench.bench(Console(), suites or [], quick=quick, rounds=rounds or (1 if quick else 3), results=results, seed=seed)


@command(hidden=find_spec("rowlock_simulation") is None)
def simulate(
    world: Annotated[str, typer.Option(help="s3, local, dynamodb, tables (several) or all: which store's code runs, over a simulated server or disk.")] = "all",
    seed: Annotated[int | None, typer.Option(help="Run this one schedule; with --minutes: the first of them.", min=0)] = None,
    seeds: Annotated[str | None, typer.Option(metavar="FIRST:END", help="Run these seeds. Default: 0:100.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Run seeds in order for this many minutes.", min=0.01)] = None,
    results: Annotated[Path | None, typer.Option(help="Write a line of JSON for each schedule to this file, and skip schedules that are in it.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: print every step with its actor.")] = False,
    without: Annotated[str, typer.Option(help="With --seed: leave out these actors, actions and faults, such as a2,a1.0,f3.")] = "",
    smaller: Annotated[bool, typer.Option("--smaller", help="Also search for a smaller schedule that fails.")] = False,
    processes: Annotated[int, typer.Option(help="How many processes share the seeds; one for each core is the fastest.", min=1)] = 1,
    picture: Annotated[Path | None, typer.Option(help="With --seed: draw the schedule into this file, as SVG.")] = None,
) -> bool:
    """Run the real code in simulated worlds, where a seed decides the schedule and the faults. Exit code 1 if an invariant was violated."""
    _needs_checkout("rowlock_simulation")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # threads of libraries are not in the schedule
    from rowlock_simulation.command import Choices, simulate as run

    return run(Choices(world, seed, seeds, minutes, results, trace, names(without), smaller, processes, picture), Console())


@command()
def serve(
    host: Annotated[str, typer.Option("--host", "--bind", help="The address to listen on. Default: this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0: any that is free.", min=0, max=65535)] = 15002,
    token: Annotated[str | None, typer.Option(envvar="SPARK_CONNECT_AUTHENTICATE_TOKEN", help="The token that clients must send.")] = None,
    without_token: Annotated[bool, typer.Option("--without-token", help="Listen beyond this machine without a token.")] = False,
    warehouse: Annotated[Path, typer.Option(help="The folder of tables without a location.")] = Path("spark-warehouse"),
    metastore: Annotated[
        Path | None, typer.Option(help="A folder for the names of tables. Default: the names are gone when the server ends, the tables are not.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark, such as spark.master=spark://host:7077; repeatable.")] = None,
    cores: Annotated[int | None, typer.Option(help="How many tasks run at once. Default: as many as the machine has cores.", min=1)] = None,
    memory_mb: Annotated[int, typer.Option(help="The memory of Spark's JVM in MB.", min=512)] = 2048,
    thrift_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Start a Thrift server for JDBC and ODBC on this port, too.", min=1, max=65535)
    ] = None,
) -> None:
    """Start a Spark Connect server with Rowlock in it, for clients that have PySpark alone; in any language that Spark Connect has."""
    from rowlock.cli.serve import Choices, serve as run

    choices = Choices(host, port, token or None, without_token, warehouse, metastore, tuple(conf or ()), cores or os.cpu_count() or 1, memory_mb, thrift_port)
    run(choices, Console())


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False})
def run(
    context: typer.Context,
    program: Annotated[str | None, typer.Argument(metavar="PROGRAM", help="A Python program that was written for delta-spark.")] = None,
    script: Annotated[bool, typer.Option("--script", help='Print the file for spark-submit "$(rowlock run --script)" PROGRAM.')] = False,
) -> None:
    """Run a Python program that was written for delta-spark, unchanged, on Rowlock: rowlock run job.py ARGUMENTS."""
    from rowlock.cli import run as running

    if script:
        print(running.__file__)
        return
    with plain_errors():
        if program is None or not Path(program).is_file():
            raise InvalidInput(f"there is no program {program or ''!r}: rowlock run PROGRAM ARGUMENTS")
    raise typer.Exit(running.run(program, context.args))


@command()
def prepare() -> None:
    """Make later sessions on this machine start faster: stores Spark's classes in an archive (200 MB) in the user's cache. Takes about a minute, once."""
    from rowlock.cli.prepare import prepare as run

    run(Console())


@command()
def version() -> None:
    """Print the versions of Rowlock, pyspark, pyarrow and Python."""
    parts = [f"{name} {version_of(name)}" for name in ("pyspark", "pyarrow") if extras.is_installed(name)]
    say(f"rowlock {VERSION} ({', '.join([*parts, f'Python {platform.python_version()}'])})")


if __name__ == "__main__":
    app()
