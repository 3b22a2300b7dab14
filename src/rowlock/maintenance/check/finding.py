"""The findings of a check as values, each with a level that says how certain it is.  Pure.

damage      certain: something that the log names is missing, or not as the log says
danger      certain: the table is, or was, written in a way that loses commits
suspicion   possible but not proven by the evidence; the text says what else would explain it
note        worth knowing; nothing is wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rowlock.protocol.sharing import Neighbour

Level = Literal["damage", "danger", "suspicion", "note"]
LEVELS: tuple[Level, ...] = ("damage", "danger", "suspicion", "note")
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.  `code` is stable, for programs; `versions` and `files` are complete, though the text may name only some of them."""

    level: Level
    code: str
    text: str
    remedy: str = ""
    versions: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    version     the table's newest version; None where no snapshot could be made
    findings    the most serious first
    neighbours  the other engines, and whether each may write this table beside Rowlock
    looked_at   how many commits, files, footers and deletion vectors were examined
    """

    table: str
    version: int | None
    findings: tuple[Finding, ...]
    neighbours: tuple[Neighbour, ...] = ()
    looked_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """True unless there is damage or danger, the levels that are certain."""
        return not any(f.level in ("damage", "danger") for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values for JSON, the most serious findings first."""
        return {
            "table": self.table,
            "version": self.version,
            "sound": self.is_sound,
            "findings": [asdict(f) for f in self.findings],
            "neighbours": [asdict(n) for n in self.neighbours],
            "looked_at": dict(self.looked_at),
        }


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings sorted by level, the most serious first; within a level the order stays."""
    return tuple(sorted(findings, key=lambda f: LEVELS.index(f.level)))


def spans(versions: Iterable[int]) -> str:
    """Version numbers as readable text: `version 3`, `versions 1 to 4, 7`."""
    out: list[tuple[int, int]] = []
    for v in sorted(set(versions)):
        if out and v == out[-1][1] + 1:
            out[-1] = out[-1][0], v
        else:
            out.append((v, v))
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in out[:SHOWN]]
    if len(out) > SHOWN:
        texts.append(f"and {len(out) - SHOWN} more places")
    return f"version{'' if len(out) == 1 and out[0][0] == out[0][1] else 's'} {', '.join(texts)}"
