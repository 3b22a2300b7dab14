"""How often a run reached each value of an axis, each statement and each data path."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from model.swarm.axes import AXES

if TYPE_CHECKING:
    from model.swarm.runner import Result

STATEMENTS = (
    "update", "delete", "merge", "append spark", "append arrow", "append deltalake", "append hand", "overwrite", "overwrite replace where",
    "optimize", "zorder", "restore", "add column", "rename column", "add constraint", "set property", "delete delta-spark",
)  # fmt: skip
"""What a run must have done at least once, by the labels of steps."""


class Tally:
    """Counts over the cases of a run."""

    def __init__(self) -> None:
        self.cases = 0
        self.seconds = 0.0
        self.failed: list[tuple[int, str, str]] = []
        self.axes: Counter[tuple[str, str]] = Counter()
        self.paths: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def take(self, result: Result) -> dict[str, Any]:
        """Counts a case, and gives the line that stands for it in a file of results."""
        line = {
            "seed": result.seed,
            "error": result.error,
            "again": result.again,
            "seconds": round(result.seconds, 2),
            "axes": result.axes,
            "paths": dict(result.paths),
            "steps": dict(result.steps),
        }
        self.take_line(line)
        return line

    def take_line(self, line: dict[str, Any]) -> None:
        self.cases += 1
        self.seconds += line["seconds"]
        self.axes.update(line["axes"].items())
        self.paths.update(line["paths"])
        self.steps.update(line["steps"])
        if line["error"]:
            self.failed.append((line["seed"], line["error"], line["again"]))

    def never(self) -> list[str]:
        """What no case reached."""
        from model.swarm.paths import PATHS

        out = [f"{axis}: {value}" for axis, values in AXES.items() for value in values if not self.axes[axis, value]]
        out += [f"statement: {name}" for name in STATEMENTS if not self.steps[name]]
        return out + [f"path: {label}" for label, *_ in PATHS if not self.paths[label]]

    def text(self) -> str:
        lines = [f"{axis}: " + ", ".join(f"{value} {self.axes[axis, value]}" for value in dict.fromkeys(values)) for axis, values in AXES.items()]
        lines.append("statements: " + ", ".join(f"{name} {count}" for name, count in sorted(self.steps.items())))
        from model.swarm.paths import PATHS

        lines.append("paths: " + ", ".join(f"{label} {self.paths[label]}" for label, *_ in PATHS))
        lines += [f"never reached: {what}" for what in self.never()]
        lines += [f"failed: {seed}: {error[:400]}\n   again: {again}" for seed, error, again in self.failed]
        return "\n".join([*lines, f"{self.cases} cases in {self.seconds:.0f} s, {len(self.failed)} failed"])
