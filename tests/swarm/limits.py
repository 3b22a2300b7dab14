"""Turning limits down for one case."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

_CONSTANTS = {
    "small_rows": ("SMALL_ROWS",),
    "local_rows": ("LOCAL_ROWS",),
    "arrow_rows": ("ARROW_ROWS",),
    "masked_bytes": ("MASKED_BYTES", "MASKED_ROWS"),
    "append_bytes": ("_SMALL_BYTES",),
    "cross_pairs": ("_MAX_CROSS",),
    "one_task_bytes": ("ONE_TASK_BYTES",),
    "unbounded_rows": ("UNBOUNDED_ROWS",),
}


@contextlib.contextmanager
def turned_down(axes: Mapping[str, str]) -> Iterator[None]:
    """The limits of a case's draw, and those of before afterwards."""
    from rowlock.protocol import deletion_vector

    before: list[tuple[Any, str, int]] = []
    for name, constants in _CONSTANTS.items():
        value = axes[f"limit {name}"]
        if value == "default":
            continue
        found = [(m, c) for m in list(sys.modules.values()) if getattr(m, "__name__", "").startswith("rowlock.spark.") for c in constants if hasattr(m, c)]
        assert found, f"no module has {constants}"
        for module, constant in found:
            before.append((module, constant, getattr(module, constant)))
            setattr(module, constant, int(value))
    kept = deletion_vector.inline.__kwdefaults__["limit_bytes"]
    if axes["vectors"] == "spilled":
        deletion_vector.inline.__kwdefaults__["limit_bytes"] = 0
    try:
        yield
    finally:
        deletion_vector.inline.__kwdefaults__["limit_bytes"] = kept
        for module, constant, value in reversed(before):
            setattr(module, constant, value)
