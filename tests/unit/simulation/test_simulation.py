"""Schedules of the real code in simulated worlds: they keep every promise (I1 to I8), repeat by seed, and show a check that was taken out."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import orjson
import pytest
from typer.testing import CliRunner

from rowlock.cli.main import app
from rowlock.transaction.publish import outcome
from rowlock_simulation import judge
from rowlock_simulation.campaign import Summary, campaign, campaign_of_processes, covered, replay_command
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import FaultKind, World
from rowlock_simulation.plans import WORLDS, plan_of
from rowlock_simulation.roles import ALONE
from rowlock_simulation.run import run
from rowlock_simulation.shrink import shrink

SEEDS = int(os.environ.get("ROWLOCK_SIMULATED_SEEDS", "12"))
_HASHES = """
import sys
from rowlock_simulation.plans import plan_of
from rowlock_simulation.roles import ALONE
from rowlock_simulation.run import run
print([run(plan_of(sys.argv[1], int(seed))).trace_hash for seed in sys.argv[2:]])
"""


@functools.cache
def _first_schedules(world: World) -> Summary:
    return campaign([world], iter(range(SEEDS)))


@pytest.mark.parametrize("world", WORLDS)
def test_schedules_keep_every_promise(world: World) -> None:
    summary = _first_schedules(world)
    assert summary.failed == [], [replay_command(w, seed) for w, seed, _ in summary.failed]
    assert summary.schedules == len(summary.hashes) == SEEDS  # no two seeds are one schedule


@pytest.mark.soak("2,000 schedules", ci=True)
def test_many_schedules_keep_every_promise(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    summary = campaign_of_processes(min(4, os.cpu_count() or 1), WORLDS, 1000, 1501, results=results)
    assert summary.failed == [], [replay_command(w, seed) for w, seed, _ in summary.failed]
    assert summary.schedules == 2004 and summary.short < 300
    assert all(kind in covered(results)[-1] for kind in get_args(FaultKind))  # each of them comes


@pytest.mark.parametrize("world", WORLDS)
def test_a_schedule_is_no_toy(world: World) -> None:
    least = 3 if world == "tables" else 4  # half of the schedules over several tables are small
    assert all(len(plan.actors) >= least or plan.theme == ALONE for plan in (plan_of(world, seed) for seed in range(100)))
    assert _first_schedules(world).short <= SEEDS // 4  # where a power cut or a crash came early


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.short("local", ci=("s3", "dynamodb", "tables"), why="two processes each; what may differ between them is outside of the worlds")
def test_a_seed_is_one_schedule_in_every_process(world: World) -> None:
    """Other hashes of text, another order of seeds, another process: the same traces."""
    said = []
    for hash_seed, seeds in (("1", ["3", "4"]), ("2", ["4", "3"])):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", _HASHES, world, *seeds], env=environment, capture_output=True, text=True, check=True, timeout=120)
        said.append(orjson.loads(done.stdout.replace("'", '"')))
    assert said[0] == said[1][::-1] == [run(plan_of(world, seed)).trace_hash for seed in (3, 4)]


def test_a_check_that_is_taken_out_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that was lost and is taken for won, because nobody reads the log back (I2)."""
    monkeypatch.setattr(outcome, "_is_own_commit", lambda *_: True)
    found = next(r for r in (run(draw("s3", seed)) for seed in range(10)) if r.violations)
    gone, smaller = shrink(found.plan, most_runs=8)
    assert smaller.violations and gone and len(smaller.trace) < len(found.trace)


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    assert campaign(["s3"], iter(range(2)), results=results).schedules == 2
    with results.open("ab") as f:
        f.write(b'{"world": "s3", "se')  # it was killed
    assert campaign(["s3"], iter(range(2)), results=results).schedules == 0
    assert campaign(["s3"], iter(range(5)), until_s=0.0, results=results).schedules == 0
    assert {orjson.loads(line)["seed"] for line in results.read_bytes().splitlines()[:2]} == {0, 1}


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    one = runner.invoke(app, ["simulate", "--world", "s3", "--seed", "3", "--trace"])
    assert one.exit_code == 0 and "actor a0 in process" in one.output and "before_put" in one.output
    less = runner.invoke(app, ["simulate", "--world", "s3", "--seed", "3", "--without", "a0,f0"])
    assert less.exit_code == 0 and "trace" in less.output and less.output.splitlines()[-1] not in one.output
    shared = runner.invoke(app, ["simulate", "--world", "s3", "--seeds", "0:2", "--processes", "2", "--results", str(tmp_path / "r.jsonl")]).output
    assert "2 schedules (s3 2), 2 distinct" in shared and "2 distinct, 0 with violations" in shared and "statements committed" in shared
    assert "2 schedules, 2 distinct, 0 with violations" in runner.invoke(app, ["simulate", "--world", "s3", "--seeds", "0:2"]).output
    for wrong in (["--world", "mars"], ["--seeds", "7"], ["--seeds", "9:3"]):
        assert runner.invoke(app, ["simulate", *wrong]).exit_code == 2


def test_a_broken_promise_is_told_with_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_check_head", lambda verdict, table: verdict.violations.append("I0: made up"))
    told = CliRunner().invoke(app, ["simulate", "--world", "s3", "--seed", "4"])
    assert told.exit_code == 1 and "I0: made up" in told.output and "rowlock simulate --world s3 --seed 4 --trace" in told.output
