"""What tests share: one Spark session for the process, a place for a table, and the peers that read every table a test leaves.

I5, I9 and I10 are kept here for the whole suite: the tables that some Spark tests wrote through Rowlock, and each long form, are read,
after the test, by Rowlock, deltalake, DuckDB and, less often, delta-spark (support/peers.py), and all must find the same rows.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from servers.fixtures import azurite, chromium, dynamodb, gcs, hdfs, minio, postgres, postgres_driver
from support import budgets
from support.needs import HAS_DELTA_SPARK, INSTALLED, asks_delta_spark
from support.peers import one_test_in
from support.sessions import delta_session, session_without_delta_spark
from support.soak import mark_long_forms, runs_before_a_change_is_taken

__all__ = ["azurite", "chromium", "dynamodb", "gcs", "hdfs", "minio", "postgres", "postgres_driver"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before a change is taken the same cases are tried each time, so that a verdict is about the change; at home they are new ones.
# No case fails for its time, which others on the machine decide, too.
settings.register_profile("rowlock", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rowlock")

_PASSED = pytest.StashKey[bool]()
_READ_BY_ALL: list[str] = []
_READ_BY_WORKERS: list[int] = []
_SPENT = budgets.Spent()
_SPENT_BY_WORKERS: dict[str, float] = {}
_SPARK_TESTS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-budgets", action="store_true", help="tests/budgets.toml anew, from what each file takes in this run")
    parser.addoption("--soak-one-in", type=int, default=1, help="of the long forms (`-m soak`) run one in so many, always the same ones")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_SPENT)
    config.addinivalue_line("markers", "failing_checkpoints: the test makes checkpoints fail")
    config.addinivalue_line("markers", "usual_limits(reason): the test looks at which way is taken, so limits from the environment are set aside for it")
    config.addinivalue_line("markers", "no_peers(reason): the tables that this test leaves are not read by the other engines, and why")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Each worker begins elsewhere in a folder: what one has compiled of a new checkout, the others find, instead of all compiling the same file at once."""
    report: Any = yield
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:], os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if isinstance(collector, pytest.Directory) and report.result:
        first = len(report.result) * int(worker) // int(workers)
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """First of all, so that `-m "not soak"` and `-m "not spark"` see what is marked here: whoever asks for the session starts it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    mark_long_forms(items, all_of_a_file=not config.getoption("lf", False) and not any("::" in a for a in config.args))
    if (one_in := config.getoption("soak_one_in")) > 1:
        chosen = [not item.get_closest_marker("soak") or runs_before_a_change_is_taken(item, one_in) for item in items]
        config.hook.pytest_deselected(items=[item for item, runs in zip(items, chosen, strict=True) if not runs])
        items[:] = itertools.compress(items, chosen)
    budgets.longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` (pytest-xdist) files that share a process stay together; and one worker in three starts no shared session while there is other work."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByScope(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return budgets.scope(nodeid.partition("::")[0])

        def _assign_work_unit(self, node: Any) -> None:
            wanted = self.nodes.index(node) >= len(self.nodes) // 3
            if chosen := next((scope for scope in self.workqueue if budgets.takes_session(scope) == wanted), None):
                self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

    return ByScope(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all Spark tests of the process, with delta-spark in it, where there is one for this Spark, so that Rowlock and delta-spark share it.

    Local with 2 cores, UTC, a small heap.  A test must leave its settings as they were and must not stop it.
    """
    session = (delta_session if HAS_DELTA_SPARK else session_without_delta_spark)("rowlock tests")
    gc.collect()
    gc.freeze()  # what is there now stays; `garbage` need not look through it again and again
    yield session
    session.stop()


@pytest.fixture
def table_path(tmp_path: Path, spark: SparkSession) -> str:
    """A place for one table; the peers read what is there when the test has passed."""
    return str(tmp_path / "table")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    try:
        return (yield)
    except Exception as error:
        if asks_delta_spark(error):
            pytest.skip(f"Spark {INSTALLED}: there is no delta-spark for it")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(autouse=True)
def peers(request: pytest.FixtureRequest) -> Iterator[None]:
    """After one Spark test in four (in `make test` in sixteen), and each long form, that passed: all readers read each table below its tmp_path that Rowlock wrote."""
    if not {"spark", "table_path"} & set(request.fixturenames) or "tmp_path" not in request.fixturenames or request.node.get_closest_marker("no_peers"):
        yield
        return
    if not request.node.get_closest_marker("soak") and not one_test_in(4, request.node.nodeid):
        yield
        return
    session, folder = request.getfixturevalue("spark"), request.getfixturevalue("tmp_path")
    yield
    if not request.node.stash.get(_PASSED, False):
        return
    from interop.readers import rows_by_all, tables_of_rowlock

    without = () if HAS_DELTA_SPARK and one_test_in(12, request.node.nodeid) else ("delta-spark",)
    for table in tables_of_rowlock(folder):
        rows_by_all(session, table, without=without)
        _READ_BY_ALL.append(table)


@pytest.fixture(autouse=True)
def garbage(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every fifth Spark test: frames that only a cycle of Python objects holds are let go, and with them what they hold in the JVM."""
    yield
    if "spark" in request.fixturenames and next(_SPARK_TESTS) % 5 == 0:
        gc.collect()


@pytest.fixture(autouse=True)
def usual_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """`make soak` runs all tests with limits turned down by the environment, but for those that are about the limits' usual values."""
    if request.node.get_closest_marker("usual_limits") is None:
        yield
        return
    from rowlock.limits import Limits, set_limits

    before = set_limits(Limits())
    yield
    set_limits(before)


@pytest.fixture(autouse=True)
def checkpoints(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """I10: a checkpoint may fail without a harm to its commit; in a test none does, unless the test looks at that."""
    yield
    if request.node.get_closest_marker("failing_checkpoints"):
        return
    failed = [r.getMessage() for r in caplog.get_records("call") if r.name == "rowlock" and "the checkpoint after the commit failed" in r.getMessage()]
    assert not failed, failed[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of several processes (pytest-xdist)
        session.config.workeroutput |= {"read_by_all": len(_READ_BY_ALL), "spent": _SPENT.of_file}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    _READ_BY_WORKERS.append(output.get("read_by_all", 0))
    for file, seconds in output.get("spent", {}).items():
        _SPENT_BY_WORKERS[file] = _SPENT_BY_WORKERS.get(file, 0) + seconds


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    spent = _SPENT_BY_WORKERS or _SPENT.of_file
    if config.getoption("write_budgets"):
        budgets.write(spent)
    for line in budgets.beyond(spent):
        terminalreporter.write_line(line)
    if tables := len(_READ_BY_ALL) + sum(_READ_BY_WORKERS):
        terminalreporter.write_line(f"{tables} tables that tests left were read by Rowlock, deltalake, DuckDB and, some, delta-spark, with the same rows.")
