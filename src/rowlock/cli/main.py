"""The command line.  An error prints one line and exits with code 2; with ROWLOCK_TRACEBACK=1 it prints the traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, ParamSpec

import typer
from rich.console import Console

P = ParamSpec("P")
app = typer.Typer(
    name="rowlock",
    help="A transaction engine for Delta Lake tables: many writers change one table, and none of them loses its work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    """Prints the version and exits, if the option is given."""
    if wanted:
        from rowlock.version import VERSION

        print(f"rowlock {VERSION}")
        raise typer.Exit


@app.callback()
def _options(_: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False) -> None:
    """A transaction engine for Delta Lake tables: many writers change one table, and none of them loses its work."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Prints an exception as one line on standard error and exits with code 2."""
    from rowlock import extras
    from rowlock.exceptions import RowlockError

    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        raise typer.Exit(130) from None
    except Exception as error:
        if os.environ.get("ROWLOCK_TRACEBACK"):
            raise
        if isinstance(error, ModuleNotFoundError) and (remedy := extras.remedy(error.name or "")) is not None:
            error = RowlockError(f"this command needs the package {error.name}, which is not installed: {remedy}")
        text = " ".join(str(error).split()) if isinstance(error, RowlockError) else f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        Console(stderr=True).print(f"[bold red]error[/]: {_escaped(text)}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


def command(*, of: typer.Typer = app, name: str | None = None, hidden: bool = False) -> Callable[[Callable[P, object]], Callable[P, None]]:
    """Registers a function as a command: an exception becomes one line and exit code 2, a return value of False exit code 1."""

    def registered(function: Callable[P, object]) -> Callable[P, None]:
        @wraps(function)
        def run(*given: P.args, **named: P.kwargs) -> None:
            with plain_errors():
                if function(*given, **named) is False:
                    raise typer.Exit(1)

        return of.command(name, hidden=hidden)(run)

    return registered


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


def _storage(given: list[str] | None) -> dict[str, str] | None:
    """Parses KEY=VALUE options.  Raises InvalidInput without the values, since one may be a secret."""
    from rowlock.exceptions import InvalidInput

    if bad := [o for o in given or () if "=" not in o]:
        raise InvalidInput(f"--storage-option takes KEY=VALUE; one of {len(bad)} has no '='")
    return dict(o.split("=", 1) for o in given) if given else None


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _needs_checkout(package: str) -> None:
    """Raises InvalidInput if a package for testing or measuring Rowlock itself is not installed."""
    from rowlock.exceptions import InvalidInput

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
    columns = tuple(name.strip() for name in key.split(",") if name.strip())
    choices = Choices(seconds=seconds, policy=policy, path=path, keep=keep, rows=rows, source=source, key=columns, split=split)
    return run(choices, _console())


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
        return of_bench.write(_console())
    return of_bench.bench(_console(), suites or [], quick=quick, rounds=rounds or (1 if quick else 3), results=results, seed=seed)


@command()
def history(
    path: TablePath,
    limit: Commits = 20,
    ids: Annotated[bool, typer.Option("--ids", help="Print the txnId of each commit, which receipts and errors name.")] = False,
    storage_option: StorageOption = None,
) -> None:
    """List the commits of a table, newest first."""
    from rowlock.cli.inspect import history_of

    history_of(path, limit, _console(), _storage(storage_option), ids=ids)


@command()
def show(
    path: TablePath,
    limit: Annotated[int, typer.Option(help="How many rows to show.", min=0)] = 10,
    version: Annotated[int | None, typer.Option(help="Show the table as of this version.", min=0)] = None,
    storage_option: StorageOption = None,
) -> None:
    """Show a table's properties, size and first rows."""
    from rowlock.cli.inspect import show_table

    show_table(path, limit, version, _console(), _storage(storage_option))


@command()
def vacuum(
    path: TablePath,
    retention_hours: Annotated[
        float | None, typer.Option(help="Keep files that were removed within this many hours. Default: the table's retention.", min=0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow a retention shorter than the table's; may delete files that a reader or writer still needs.")
    ] = False,
    storage_option: StorageOption = None,
) -> None:
    """Delete the files in a table's folder that no version within the retention needs."""
    from rowlock.cli.inspect import vacuum_table

    vacuum_table(path, retention_hours, dry_run, unsafe, _console(), _storage(storage_option))


@command()
def optimize(
    path: TablePath,
    where: Annotated[str | None, typer.Option(metavar="CONDITION", help="Rewrite only partitions for which this is true, such as \"region = 'eu'\".")] = None,
    zorder: Annotated[str, typer.Option(metavar="COL[,COL]", help="Rewrite all files, in the Z-order of these columns.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Rewrite all files of a table with clustering columns in their order.")] = False,
    memory: Annotated[int, typer.Option(help="The JVM's heap in MB.", min=512)] = 2048,
    storage_option: StorageOption = None,
) -> None:
    """Rewrite the small files of a table, and files with many deleted rows, into fewer. No other writer fails because of it."""
    from rowlock.cli.inspect import optimize_table

    columns = [name.strip() for name in zorder.split(",") if name.strip()]
    optimize_table(path, where, columns, full, memory, _console(), _storage(storage_option))


@command()
def conflicts(
    path: TablePath,
    limit: Commits = 1000,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML page instead: who wrote when, who met whom, and what to set.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the commits and their phases as a trace for ui.perfetto.dev.")] = None,
    storage_option: StorageOption = None,
) -> None:
    """Show which operations conflicted, when, over which files and keys, and at what cost."""
    from rowlock.cli.conflicts import conflicts_of

    conflicts_of(path, limit, as_json, _console(), _storage(storage_option), page=html, trace_file=trace)


@command()
def advise(path: TablePath, limit: Commits = 1000, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Recommend table properties (lock, conflict policy, ...) by the conflicts in a table's history, with reasons and figures."""
    from rowlock.cli.conflicts import advise_on

    advise_on(path, limit, as_json, _console(), _storage(storage_option))


@command()
def check(
    path: TablePath,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    commits: Annotated[int, typer.Option(help="How many of the newest commits to read.", min=1)] = 100,
    files: Annotated[int, typer.Option(help="How many live files to look for, evenly spaced over all.", min=0)] = 1_000,
    footers: Annotated[int, typer.Option(help="For how many files to compare the footer with the statistics.", min=0)] = 20,
    deep: Annotated[
        bool, typer.Option("--deep", help="Open every version and read every live file, to compare the log with the files and their contents.")
    ] = False,
    storage_option: StorageOption = None,
) -> bool:
    """Find damage in a table and risky writers, and list which engines may write it. Exit code 1 if something is certainly wrong."""
    from rowlock.cli.inspect import check_table

    return check_table(path, _console(), _storage(storage_option), json=json, commits=commits, files=files, footers=footers, deep=deep)


@command()
def repair(
    path: TablePath,
    yes: Annotated[bool, typer.Option("--yes", help="Write the repairs; without, they are only printed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    storage_option: StorageOption = None,
) -> bool:
    """Repair a damaged table as far as possible without losing a row. Exit code 1 if a damage remains."""
    from rowlock.cli.inspect import repair_table

    return repair_table(path, _console(), _storage(storage_option), json=json, yes=yes)


@command()
def settle(
    path: TablePath,
    txn: Annotated[str | None, typer.Option(metavar="ID", help="With --as: the transaction that a person has decided.")] = None,
    outcome: Annotated[
        Literal["committed", "aborted"] | None,
        typer.Option("--as", help="With --txn: what became of it, where the table whose log decides it is gone for good."),
    ] = None,
    storage_option: StorageOption = None,
) -> bool:
    """Roll forward, or give up, what transactions over several tables have left open in a table. Exit code 1 if something is still open."""
    from rowlock.cli.inspect import settle_table

    return settle_table(path, _console(), _storage(storage_option), txn_id=txn, outcome=outcome)


arbiter = typer.Typer(help="The DynamoDB arbiter, for tables that are shared with Spark jobs through S3DynamoDBLogStore.", no_args_is_help=True)
app.add_typer(arbiter, name="arbiter")


@arbiter.callback()
def _arbiter() -> None:
    """The DynamoDB arbiter, for tables that are shared with Spark jobs through S3DynamoDBLogStore."""


@command(of=arbiter, name="create")
def arbiter_create(
    name: Annotated[str | None, typer.Option(help="The DynamoDB table's name. Default: DELTA_DYNAMO_TABLE_NAME, else delta_log.")] = None,
    storage_option: StorageOption = None,
) -> None:
    """Create the arbiter's DynamoDB table if it does not exist. AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, ... in the options or environment say where."""
    from rowlock.cli.inspect import create_arbiter

    create_arbiter(name, _console(), _storage(storage_option))


@command(of=arbiter, name="forget")
def arbiter_forget(path: Annotated[str, typer.Argument(help="The path of a Delta table that was deleted.")], storage_option: StorageOption = None) -> None:
    """Delete the entries of a Delta table that was deleted, so that another can be created there; refused while its log exists."""
    from rowlock.cli.inspect import forget_entries

    forget_entries(path, _console(), _storage(storage_option))


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
) -> bool:
    """Run the real code in simulated worlds, where a seed decides the schedule and the faults. Exit code 1 if an invariant was violated."""
    _needs_checkout("rowlock_simulation")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # threads of libraries are not in the schedule
    from rowlock_simulation.command import Choices, simulate as run

    left_out = tuple(name.strip() for name in without.split(",") if name.strip())
    return run(Choices(world, seed, seeds, minutes, results, trace, left_out, smaller, processes), _console())


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
    run(choices, _console())


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
    if program is None or not Path(program).is_file():
        Console(stderr=True).print(f"[bold red]error[/]: there is no program {_escaped(program or '')!r}: rowlock run PROGRAM ARGUMENTS", highlight=False)
        raise typer.Exit(2)
    raise typer.Exit(running.run(program, context.args))


@command()
def prepare() -> None:
    """Make later sessions on this machine start faster: stores Spark's classes in an archive (200 MB) in the user's cache. Takes about a minute, once."""
    from rowlock.cli.prepare import prepare as run

    run(_console())


@command()
def version() -> None:
    """Print the versions of Rowlock, pyspark, pyarrow and Python."""
    import platform
    from importlib.metadata import version as version_of

    from rowlock import extras
    from rowlock.version import VERSION

    parts = [f"{name} {version_of(name)}" for name in ("pyspark", "pyarrow") if extras.is_installed(name)]
    _console().print(f"rowlock {VERSION} ({', '.join([*parts, f'Python {platform.python_version()}'])})", highlight=False)


def _console() -> Console:
    return Console()


if __name__ == "__main__":
    app()
