"""What differs between two engines' outcomes of one statement, and which differences are meant."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.differential.case import Step

MEANT = Path(__file__).parent / "meant.toml"
FIELDS = {"aspect", "kind", "statement", "setting", "table", "delta_spark", "rowlock", "same_without", "reason", "open"}

_OWN_NUMBERS = re.compile(
    r"^(delta\.columnMapping\.maxColumnId|delta\.rowTracking\.materialized.*|delta\.feature\..*|rowlock\..*|delta\.inCommitTimestampEnablement.*)$"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One aspect in which outcomes differ, with each engine's side."""

    aspect: str
    delta_spark: str
    rowlock: str

    @property
    def is_slight(self) -> bool:
        """Whether the tables hold the same for all that: a case can go on."""
        return self.aspect.startswith(("condition", "class", "answer", "a commit without", "property", "comment", "commits"))

    @property
    def is_of_versions(self) -> bool:
        """Whether one engine made commits that the other did not."""
        return self.aspect.startswith(("a commit without", "changed", "commits"))

    def text(self) -> str:
        """For people."""
        return f"{self.aspect}\n    delta-spark: {self.delta_spark}\n    rowlock:     {self.rowlock}"


def definition(folder: Path) -> dict[str, Any]:
    """What a table's log says of the table: schema, partitioning, properties, clustering."""
    meta: dict[str, Any] = {}
    domains: dict[str, str] = {}
    for commit in sorted(p for p in (folder / "_delta_log").glob("*.json") if p.stem.isdigit()):
        for line in commit.read_text().splitlines():
            if line.startswith('{"metaData"'):
                meta = json.loads(line)["metaData"]
            elif line.startswith('{"domainMetadata"') and "delta.clustering" in line:
                found = json.loads(line)["domainMetadata"]
                domains["clustering"] = "" if found.get("removed") else found["configuration"]
    configuration = {k: v for k, v in meta.get("configuration", {}).items() if not _OWN_NUMBERS.match(k)}
    mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
    return {
        "schema": json.dumps(_plain_schema(json.loads(meta.get("schemaString", "{}")))),
        "partitioning": json.dumps(meta.get("partitionColumns")),
        "properties": json.dumps(dict(sorted(configuration.items()))),
        "comment": str(meta.get("description")),
        "clustering": "" if mapped else json.dumps(sorted(json.loads(domains["clustering"]).items())) if domains.get("clustering") else "",
    }


def _plain_schema(node: Any) -> Any:
    """A schema without the ids and names that each engine draws for itself."""
    if isinstance(node, dict):
        return {k: _plain_schema(v) for k, v in sorted(node.items()) if not k.startswith(("delta.columnMapping.", "parquet.field"))}
    return [_plain_schema(v) for v in node] if isinstance(node, list) else node


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    """What differs, the weightiest first.  Each side is an outcome of `engine.py`; its tables have their definition in them."""
    for side, other in ((theirs, ours), (ours, theirs)):
        if "error" in side and side.get("tables") and not ("error" in other and side["tables"] == other.get("tables")):
            yield Difference("changed by a failed statement", _shown(theirs, full=True), _shown(ours, full=True))
            return
        if ("error" in side) and "error" not in other:
            yield Difference("failed", _shown(theirs), _shown(ours))
            return
    if "error" in theirs:
        if theirs["condition"] != ours["condition"]:
            yield Difference("condition", _shown(theirs), _shown(ours))
        elif theirs["error"][0] not in ours["error"]:  # what `except` of a program written for delta-spark catches
            yield Difference("class", _shown(theirs), f"{_shown(ours)}; {', '.join(ours['error'])}")
        return
    yield from _of_tables(theirs.get("tables", {}), ours.get("tables", {}))
    if (theirs.get("answer"), sorted(theirs.get("rows", []))) != (ours.get("answer"), sorted(ours.get("rows", []))):
        yield Difference("answer", _shown(theirs), _shown(ours))


def _of_tables(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    for side, other in ((theirs, ours), (ours, theirs)):
        for folder in sorted(set(side) - set(other)):
            aspect = f"{'a commit without a change to' if side[folder]['unchanged'] else 'changed'} {folder}"
            yield Difference(aspect, *("yes" if folder in tables else "no" for tables in (theirs, ours)))
    for folder in sorted(set(theirs) & set(ours)):
        one, other = theirs[folder], ours[folder]
        for aspect in ("rows", "schema", "partitioning", "clustering", "properties", "comment", "feed"):
            a, b = one.get(aspect), other.get(aspect)
            if a != b and aspect == "properties":
                one_by_one, other_by_one = json.loads(a), json.loads(b)
                for name in sorted(set(one_by_one) | set(other_by_one)):
                    if one_by_one.get(name) != other_by_one.get(name):
                        yield Difference(f"property {name} of {folder}", str(one_by_one.get(name)), str(other_by_one.get(name)))
            elif a != b:
                yield Difference(f"{aspect} of {folder}", *_apart(a, b))
        if one["commits"] != other["commits"]:
            yield Difference(f"commits to {folder}", str(one["commits"]), str(other["commits"]))


def _apart(a: Any, b: Any) -> tuple[str, str]:
    """Two values; of lists, what only one of them has."""
    if isinstance(a, list) and isinstance(b, list):
        left, right = list(a), list(b)
        for row in a:
            if row in right:
                left.remove(row)
                right.remove(row)
        return f"{len(a)} rows, alone: {left[:8]}", f"{len(b)} rows, alone: {right[:8]}"
    return str(a), str(b)


def _shown(outcome: Mapping[str, Any], *, full: bool = False) -> str:
    if "error" in outcome:
        shown = f"{outcome['error'][0]} [{outcome['condition']}] {' '.join(outcome['text'].split())[:400]}"
    else:
        shown = f"{outcome.get('answer', '')[:900]} {sorted(outcome.get('rows', []))[:12]}"
    return shown + (f"; changed {sorted(outcome.get('tables', {}))}" if full else "")


def _same_without(entry: Mapping[str, str], found: Difference) -> bool:
    """Whether both sides have the same words, in whatever order, once what `same_without` matches is left out; true of an entry that does not say it."""
    if "same_without" not in entry:
        return True
    one, other = (sorted(re.findall(r"[^\s\[\](),'\"]+", re.sub(entry["same_without"], "", side))) for side in (found.delta_spark, found.rowlock))
    return one == other


class Meant:
    """The list of differences that are meant (`meant.toml`); what it names must match in every field that it gives."""

    def __init__(self, file: Path = MEANT, *, pass_over: str = "") -> None:
        self.pass_over = pass_over
        self.entries: list[dict[str, str]] = tomllib.loads(file.read_text()).get("meant", []) if file.exists() else []
        for entry in self.entries:
            wrong = set(entry) - FIELDS
            if wrong or not (entry.get("reason") or entry.get("open")) or not (entry.get("rowlock") or entry.get("delta_spark")):
                raise ValueError(f"meant.toml: {entry} has no reason, names neither engine's side, or has unknown fields {wrong}")

    def reason(self, step: Step, settings: Mapping[str, str], found: Difference, table: Sequence[str] = ()) -> str | None:
        """Why a difference is meant, in a case whose table is made by the statements of `table`; None where the list does not name it."""
        if self.pass_over and re.search(self.pass_over, found.aspect):
            return "passed over"
        chosen = " ".join(f"{k}={v}" for k, v in settings.items())
        sides = {
            "aspect": found.aspect,
            "kind": step.kind,
            "statement": step.text,
            "setting": chosen,
            "table": "; ".join(table),
            "delta_spark": found.delta_spark,
            "rowlock": found.rowlock,
        }
        for entry in self.entries:
            if all(re.search(entry[name], text, re.DOTALL) for name, text in sides.items() if name in entry) and _same_without(entry, found):
                return entry.get("reason") or f"open: {entry['open']}"
        return None
