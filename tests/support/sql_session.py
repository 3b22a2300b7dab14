"""Statements in a Spark session of their own, with Rowlock enabled and without delta-spark: `rowlock.enable` changes a session for good.

A step is a text of SQL, [text, args], or a Python expression after `py:`.  What came of each step is told as a dict: its rows or
its error, and what lay in the folders that the caller watches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SRC, TESTS = str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])

_SCRIPT = """
import json, os, sys
import rowlock
from pyspark.sql import functions as F
from rowlock.tables import DeltaTable, IdentityGenerator
from support.outcomes import outcome_of
from support.sessions import without_generated_code

given = json.load(sys.stdin)
spark = rowlock.enable(rowlock.spark(cores=1, memory_mb=768))
for key, value in without_generated_code().items():
    spark.conf.set(key, value)
rowlock.enable(spark)  # a second time changes nothing

def files(folder):
    return sorted(f"{os.path.join(at, n)} {os.path.getsize(os.path.join(at, n))}" for at, _, names in os.walk(folder) for n in names)

def rows_of(answer):
    return [list(r) for r in answer.collect()] if hasattr(answer, "collect") else answer

told = []
for step in given["steps"]:
    text, args = step if isinstance(step, list) else (step, None)
    try:
        if text.startswith("py:"):
            answer = rows_of(eval(text[3:]))
        else:
            answer = rows_of(spark.sql(text) if args is None else spark.sql(text, args))
        said = {"rows": answer}
    except BaseException as e:
        said = outcome_of(e)
    told.append(said | {"files": [files(f) for f in given["watched"]]})
print(json.dumps(told, default=str))
"""


def run_steps(folder: Path, steps: Sequence[Any], watched: Sequence[str]) -> list[dict[str, Any]]:
    """What came of each step, in one new process in `folder`, which holds the session's warehouse."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((SRC, TESTS)), "PYSPARK_PYTHON": sys.executable}
    given = json.dumps({"steps": list(steps), "watched": list(watched)})
    done = subprocess.run([sys.executable, "-c", _SCRIPT], cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    told: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return told
