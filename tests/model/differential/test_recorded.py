"""Statements drawn at random and recorded: Rowlock answers as delta-spark did.  `make differential` draws more, and runs both engines."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from model.differential.compare import Meant
from model.differential.record import first_difference, outcomes, recorded
from model.differential.runner import Process


def _unlike_the_record(engine: str, folder: Path, one_in: int = 1) -> list[str]:
    process, meant, out = Process(engine, folder), Meant(), []
    process.answer()
    for case, theirs in itertools.islice(recorded(), None, None, one_in):
        ours = (said[engine] for said in outcomes({engine: process}, case, folder / "tables"))
        kept, _, found = first_difference(case, zip(theirs, ours, strict=False), meant)
        out += [f"seed {case.seed}, {case.steps[kept].text}\n{d.text()}" for d, reason in found if reason is None]
        if all(reason for _, reason in found) and kept < len(theirs):
            out.append(f"seed {case.seed}: {kept} of {len(theirs)} statements ran; the table: {case.table}")
    process.end()
    return out


@pytest.mark.spark
def test_drawn_statements_are_as_delta_spark_had_them(tmp_path: Path) -> None:
    assert not _unlike_the_record("rowlock", tmp_path, one_in=12)


@pytest.mark.spark
@pytest.mark.soak("all of the record", ci=True)
def test_all_drawn_statements_are_as_delta_spark_had_them(tmp_path: Path) -> None:
    assert not _unlike_the_record("rowlock", tmp_path)


@pytest.mark.spark
@pytest.mark.soak("delta-spark itself, statement by statement: what it did is recorded")
def test_the_record_is_what_delta_spark_does(tmp_path: Path) -> None:
    assert not _unlike_the_record("delta-spark", tmp_path)


def test_the_record_holds_two_hundred_statements() -> None:
    cases = list(recorded())
    assert sum(len(case.steps) for case, _ in cases) >= 200
    assert all(len(case.steps) == len(theirs) for case, theirs in cases)
