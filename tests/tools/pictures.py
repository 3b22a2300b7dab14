"""Writes docs/pictures/figures.svg: the table of figures in README.md as bars.  `make pictures`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "figures.svg"

_HEADING = "| commits a second | Rowlock | peer |"
_LEFT, _WIDTH, _ROW, _TOP = 330, 800, 64, 40
_STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { fill: #59636e; font-size: 12px } .ours { fill: #3949ab } .peer { fill: #b0b7c3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9aa4b0 } .ours { fill: #8c9eff } .peer { fill: #6b7480 } }"""


class Figure(NamedTuple):
    """A row of the table: commits a second, by Rowlock and by its peer."""

    work: str
    ours: float
    theirs: float
    peer: str


def figures(readme: str) -> list[Figure]:
    """The rows of the table in the README.  Raises ValueError where a row has another form."""
    lines = readme.splitlines()
    rows = []
    for line in lines[lines.index(_HEADING) + 2 :]:
        if not line.startswith("|"):
            break
        found = re.fullmatch(r"\| (.+) \| ([\d.]+) \| ([\d.]+) \((.+)\) \|", line)
        if not found:
            raise ValueError(f"the row of figures {line!r} has another form")
        rows.append(Figure(found[1], float(found[2]), float(found[3]), found[4]))
    return rows


def picture(rows: list[Figure]) -> str:
    """The rows as an SVG of bars, on a logarithmic scale: their ratios are from 9 to 68."""
    least, greatest = 0.05, max(row.ours for row in rows) * 1.3
    scale = (_WIDTH - _LEFT - 130) / math.log10(greatest / least)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_TOP + _ROW * len(rows) + 10}" role="img">',
        f"<title>Commits a second, Rowlock beside its peers</title><style>{_STYLE}</style>",
        f'<text x="{_LEFT}" y="22" class="small">commits a second, logarithmic scale: a longer bar is better</text>',
    ]
    for nth, row in enumerate(rows):
        y = _TOP + nth * _ROW
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 32}" text-anchor="end">{escape(row.work)}</text>')
        for offset, value, name, style in ((4, row.ours, "Rowlock", "ours"), (30, row.theirs, row.peer, "peer")):
            width = round(scale * math.log10(value / least), 1)
            parts.append(f'<rect x="{_LEFT}" y="{y + offset}" width="{width}" height="20" rx="3" class="{style}"/>')
            parts.append(f'<text x="{_LEFT + width + 8}" y="{y + offset + 15}" class="small">{escape(name)} {value:g}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Writes the picture."""
    PICTURE.write_text(picture(figures((ROOT / "README.md").read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
