"""Runs cases on two engines, each in a process of its own, and compares after each statement."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from model.differential.case import Case, Step
from model.differential.compare import Difference, Meant, differences

HERE = Path(__file__).parents[3]
NAMES_VERSIONS = re.compile(r"VERSION AS OF|restoreToVersion|[vV]ersionAsOf|[sS]tartingVersion|history\(|HISTORY|table_changes|readStream")
"""Statements whose answer depends on the numbers of versions."""


class Process:
    """An engine's process; one that is to run for `long` has both of Java's compilers.  Lanes of it are asked beside each other."""

    def __init__(self, name: str, folder: Path, *, long: bool = False) -> None:
        self.name = name
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE / 'tests'}", "ROWLOCK_GENERATED_CODE": "no", "TZ": "UTC"}
        environment |= {"JAVA_TOOL_OPTIONS": "-XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=512m"} if long else {}
        self.errors = (place / "stderr").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "model.differential.engine", name],
            cwd=place, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip

        self._asking = Lock()
        self._answers: defaultdict[int, SimpleQueue[dict[str, Any] | None]] = defaultdict(SimpleQueue)
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            given = json.loads(line)
            self._answers[given["lane"]].put(given["said"])
        for queue in list(self._answers.values()):
            queue.put(None)

    def ask(self, lane: int = 0, **given: Any) -> None:
        """Sends a line."""
        assert self.process.stdin is not None
        with self._asking:
            self.process.stdin.write(json.dumps({"lane": lane, **given}) + "\n")
            self.process.stdin.flush()

    def answer(self, lane: int = 0) -> dict[str, Any]:
        """The next answer."""
        said = self._answers[lane].get()
        if said is None:
            raise RuntimeError(f"{self.name} ended: {Path(self.errors.name).read_text()[-2000:]}")
        return said

    def end(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


class Asked(Protocol):
    """What can be asked: a process, or a lane of one."""

    def ask(self, **given: Any) -> None:
        """Sends a line."""

    def answer(self) -> dict[str, Any]:
        """The next answer."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a process."""

    process: Process
    number: int

    def ask(self, **given: Any) -> None:
        """Sends a line."""
        self.process.ask(self.number, **given)

    def answer(self) -> dict[str, Any]:
        """The next answer."""
        return self.process.answer(self.number)


def _by_deltalake(origin: Path) -> Path:
    """A copy of a table's rows that deltalake writes, one commit and file for each row; the table itself where it cannot."""
    import deltalake

    import rowlock

    copy = origin.parent / "copy"
    try:
        rows = rowlock.to_arrow(str(origin), time_zone="UTC")
        table = deltalake.DeltaTable(str(origin))
        if '"variant"' in table.schema().to_json():  # it would write a struct
            return origin
        head = table.metadata()
        kept = {k: v for k, v in head.configuration.items() if k in ("delta.enableChangeDataFeed", "delta.appendOnly", "delta.checkpointInterval")}
        for n in range(max(1, rows.num_rows)):
            deltalake.write_deltalake(str(copy), rows.slice(n, 1), mode="append", partition_by=head.partition_columns or None, configuration=kept)
    except Exception:
        return origin
    return copy


def ask_all(engines: Mapping[str, Asked], given: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Asks several engines at once; their answers."""
    for name, engine in engines.items():
        engine.ask(**given[name])
    return {name: engine.answer() for name, engine in engines.items()}


@dataclass(slots=True)
class Result:
    """What came of a case."""

    case: Case
    void: str = ""
    """Why the case could not be run: its table cannot be made."""
    statements: int = 0
    failed_alike: int = 0
    found: list[tuple[Step, Difference, str | None]] = field(default_factory=list)
    """Each difference with the reason why it is meant, if it is."""

    @property
    def unmeant(self) -> list[tuple[Step, Difference]]:
        """The differences that the list does not name."""
        return [(step, difference) for step, difference, reason in self.found if reason is None]


class Runner:
    """Both engines, or a lane of each, and the folder of their tables."""

    def __init__(self, folder: Path, meant: Meant, engines: Mapping[str, Asked]) -> None:
        self.folder = folder
        self.meant = meant
        self.engines = engines
        self.tables = 0

    def run(self, case: Case, *, stop: bool = False) -> Result:
        """Runs a case; with `stop` until the first difference that is not meant."""
        result = Result(case)
        root = self.folder / "cases" / str(case.seed)
        shutil.rmtree(root, ignore_errors=True)
        try:
            origin = self._made(case, root, result)
            if origin is not None:
                self._steps(case, root, origin, result, stop=stop)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return result

    def _made(self, case: Case, root: Path, result: Result) -> Path | None:
        """The folder of the case's table as its maker made it; delta-spark makes it where Rowlock refuses to."""
        for maker in dict.fromkeys((case.maker, "delta-spark")):
            if maker == "deltalake":
                continue
            place = root / f"made by {maker}"
            engine = self.engines[maker]
            texts = [text.replace("{root}", str(place)) for text in case.table]
            engine.ask(open=case.seed, settings={"spark.sql.session.timeZone": "UTC"}, root=str(place), before=texts)
            said = engine.answer()
            if "error" not in said:
                if result.void:
                    self._take(result, Step("; ".join(case.table), "table"), Difference("the table", "is made", result.void))
                return _by_deltalake(place / "t") if case.maker == "deltalake" else place / "t"
            result.void = f"{maker}: {said['error'][0]} [{said['condition']}] {said['text'][:300]}"
        return None

    def _steps(self, case: Case, root: Path, origin: Path, result: Result, *, stop: bool) -> None:
        result.void = ""
        roots = {name: root / name for name in self.engines}
        said = ask_all(
            self.engines, {name: {"open": case.seed, "settings": case.settings, "root": str(roots[name]), "before": list(case.before)} for name in self.engines}
        )
        broken = [f"{name}: {s}" for name, s in said.items() if "error" in s]
        if broken:
            result.void = "; ".join(broken)[:500]
            return
        self._attach(origin, roots)
        ours = roots["rowlock"]
        numbered_alike = True
        for step in case.steps:
            if not numbered_alike and NAMES_VERSIONS.search(step.text):  # one engine made a commit that the other did not: a number names two things
                self._attach(roots["delta-spark"] / f"t{self.tables}", roots)
                numbered_alike = True
            said = ask_all(self.engines, {name: {"do": step.text} for name in self.engines})
            found = list(differences(said["delta-spark"], said["rowlock"]))
            result.statements += 1
            result.failed_alike += all("error" in s for s in said.values())
            for one in found:
                self._take(result, step, one)
            numbered_alike &= not any(one.is_of_versions for one in found)
            if stop and result.unmeant:
                return
            if not all(one.is_slight for one in found):  # both go on from copies of delta-spark's table
                self._attach(roots["delta-spark"] / f"t{self.tables}", roots)
                numbered_alike = True
        read = ask_all(self.engines, {name: {"read": str(ours / f"t{self.tables}")} for name in self.engines})
        if read["delta-spark"] != read["rowlock"]:
            self._take(result, case.steps[-1], Difference("what each reads of Rowlock's table", str(read["delta-spark"]["rows"]), str(read["rowlock"]["rows"])))

    def _take(self, result: Result, step: Step, found: Difference) -> None:
        result.found.append((step, found, self.meant.reason(step, result.case.settings, found, result.case.table)))

    def _attach(self, origin: Path, roots: dict[str, Path]) -> None:
        """Copies a table for each engine into a folder that was not there, and gives it the name `t`."""
        self.tables += 1
        for root in roots.values():
            shutil.copytree(origin, root / f"t{self.tables}")
        ask_all(self.engines, {name: {"attach": str(roots[name] / f"t{self.tables}")} for name in self.engines})
