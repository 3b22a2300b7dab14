"""What a user chooses for a transaction: the knobs of DESIGN.md.

Each knob is a table property and an argument; the argument wins.  A value that this version does
not know or does not support is refused by name when it is set, never when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowlock.protocol.properties import validate_properties

_PROPERTY = {"on_conflict": "rowlock.onConflict", "isolation": "rowlock.isolation", "granularity": "rowlock.granularity"}
_DEFAULT = {"on_conflict": "repair", "isolation": "serializable", "granularity": "row"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None means: as the table's property says.

    lane: take the in-process commit lane around the last rebase and the put.  It saves rounds and
    decides nothing (I7); schedules that interleave at every phase switch it off.
    """

    on_conflict: str | None = None
    isolation: str | None = None
    granularity: str | None = None
    lane: bool = True

    def __post_init__(self) -> None:
        validate_properties({_PROPERTY[k]: v for k in _PROPERTY if (v := getattr(self, k)) is not None})

    def resolved(self, properties: Mapping[str, str]) -> Options:
        """The same with every None filled from the table's properties, else the default."""
        values = {k: getattr(self, k) or properties.get(_PROPERTY[k]) or _DEFAULT[k] for k in _PROPERTY}
        return Options(lane=self.lane, **values)
