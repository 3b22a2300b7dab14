"""A case as a program that a person can paste, and the shrinking that comes before it."""

from __future__ import annotations

from collections.abc import Callable

from model.differential.case import Case, Step
from model.differential.compare import Difference
from model.differential.runner import Result, Runner
from model.differential.statements import draw_case

_HEAD = '''\
"""Run with the argument delta-spark, then with rowlock (from the root of the repository, PYTHONPATH=src:tests)."""
import sys, tempfile

from pyspark.sql import functions as F
from support.sessions import delta_session, session_without_delta_spark

if sys.argv[1] == "rowlock":
    import rowlock
    from rowlock.tables import DeltaTable

    spark = rowlock.enable(session_without_delta_spark("case"))
else:
    from delta.tables import DeltaTable

    spark = delta_session("case")
root = tempfile.mkdtemp()
spark.sql(f"CREATE DATABASE d LOCATION '{root}/wh'")
spark.sql("USE d")


def run(text):
    print(text)
    try:
        text = text.replace("{root}", root)
        if text.startswith("py:"):
            out = eval(text[3:])
        elif text.startswith("call:") and sys.argv[1] == "rowlock":
            out = rowlock.sql(spark, text[5:])
        else:
            out = spark.sql(text.removeprefix("call:"))
        for row in out.collect() if hasattr(out, "collect") else []:
            print("   ", row)
    except Exception as e:
        print("    failed:", type(e).__name__, str(e)[:600])

'''


def program(case: Case) -> str:
    """The case as a program; its table is made by the engine that runs it."""
    lines = [f"run({text!r})" for text in case.table]
    lines += [f'spark.conf.set("{k}", "{v}")' for k, v in case.settings.items()]
    lines += [f"run({text!r})" for text in case.before]
    for step in case.steps:
        lines += [f"run({step.text!r})", 'run("SELECT * FROM t")']
    return _HEAD + "\n".join(lines) + "\n"


def kind_of(step: Step, found: Difference) -> tuple[str, str, str]:
    """What must stay the same while a case shrinks: the kind of the statement, the aspect, and the errors."""
    sides = [side.split("]")[0] if found.aspect in ("failed", "condition") and "[" in side[:60] else "" for side in (found.delta_spark, found.rowlock)]
    return step.kind.split()[0], found.aspect.rstrip("0123456789"), " ".join(sides)


def shrink(runner: Runner, seed: int, wanted: tuple[str, str, str], *, at_most: int = 120) -> Result | None:
    """The smallest case found that differs in the same way; None where the difference does not come again."""
    tries = 0

    def differs(case: Case) -> Result | None:
        nonlocal tries
        tries += 1
        result = runner.run(case, stop=True)
        return result if any(kind_of(*found) == wanted for found in result.unmeant) else None

    fixed: dict[str, int] = {}
    case, taken = draw_case(seed)
    best = differs(case)
    if best is None:
        return None
    last = next(step for step, found in best.unmeant if kind_of(step, found) == wanted)
    kept = _fewest_steps(case, last, differs)
    best = differs(_of(case, kept)) or best
    for name in sorted((n for n, taken_at in taken.items() if taken_at), key=lambda n: (n.count("."), n)):
        if tries >= at_most:
            break
        if name not in taken or name == "statements" or name.endswith(".kind") or (name.startswith("statement") and int(name.split(".")[0][9:]) not in kept):
            continue
        smaller, taken_now = draw_case(seed, fixed | {name: 0})
        trial = _of(smaller, kept)
        if len(trial.steps) == len(kept) and trial != best.case and (found := differs(trial)) is not None:
            fixed[name] = 0
            best, taken = found, taken_now
    return _without_parts(best, differs)


def _of(case: Case, kept: list[int]) -> Case:
    return case.only(tuple(case.steps[n] for n in kept if n < len(case.steps)))


def _fewest_steps(case: Case, last: Step, differs: Callable[[Case], Result | None]) -> list[int]:
    """The places of the steps that the difference needs: often the last alone."""
    at = case.steps.index(last)
    if differs(_of(case, [at])):
        return [at]
    kept = list(range(at + 1))
    for n in reversed(range(at)):
        without = [k for k in kept if k != n]
        if differs(_of(case, without)):
            kept = without
    return kept


def _without_parts(best: Result, differs: Callable[[Case], Result | None]) -> Result:
    """Leaves out settings, views and statements of the table that the difference does not need."""
    from dataclasses import replace

    for name in list(best.case.settings):
        fewer = {k: v for k, v in best.case.settings.items() if k != name}
        best = differs(replace(best.case, settings=fewer)) or best
    for text in best.case.table[1:]:
        best = differs(replace(best.case, table=tuple(t for t in best.case.table if t != text))) or best
    for text in best.case.before:
        best = differs(replace(best.case, before=tuple(t for t in best.case.before if t != text))) or best
    return best
