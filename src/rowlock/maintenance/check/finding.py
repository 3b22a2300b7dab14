"""What a check says: values, and how sure it is.  Pure.

damage      certain: something that the log names is not there, or not as it says
danger      certain: the table is, or was, written in a way that loses commits
suspicion   the evidence allows it and does not prove it; the text says what else would explain it
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
    """One thing that was found.  `code` is stable and for programs; `versions` and `files` hold all, however many the text names."""

    level: Level
    code: str
    text: str
    remedy: str = ""
    versions: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a check found.  `version` is the newest, None where no snapshot could be made; `looked_at` counts what was looked at."""

    table: str
    version: int | None
    findings: tuple[Finding, ...]
    neighbours: tuple[Neighbour, ...] = ()
    looked_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether nothing certain is wrong."""
        return not any(f.level in ("damage", "danger") for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the most serious findings first."""
        return {
            "table": self.table,
            "version": self.version,
            "sound": self.is_sound,
            "findings": [asdict(f) for f in self.findings],
            "neighbours": [asdict(n) for n in self.neighbours],
            "looked_at": dict(self.looked_at),
        }


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The most serious first; of one level in the order in which they were found."""
    return tuple(sorted(findings, key=lambda f: LEVELS.index(f.level)))


def spans(versions: Iterable[int]) -> str:
    """Version numbers for people: `version 3`, `versions 1 to 4, 7`."""
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
