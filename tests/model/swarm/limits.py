"""Turning limits down for one case: the axes `limit NAME`, NAME as in `rowlock.limits`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from rowlock.limits import NAMES, limited

HEAD = "limit "
NOT_TURNED_DOWN = frozenset(
    {"backfill_files", "cleaned_files", "group_files", "open_tables", "masked_bytes", "stream_kept_bytes", "request_threads", "file_threads"}
)
"""Limits that have no axis: of work beside the statements here, twins of one that has, and of how much is under way at once."""


def without_an_axis(axes: Mapping[str, object]) -> set[str]:
    """Limits that no axis turns down although they should have one."""
    return {name for name in NAMES if f"{HEAD}{name}" not in axes} - NOT_TURNED_DOWN


@contextlib.contextmanager
def turned_down(axes: Mapping[str, str]) -> Iterator[None]:
    """The limits of a case's draw, and those of before afterwards."""
    values = {axis.removeprefix(HEAD): int(value) for axis, value in axes.items() if axis.startswith(HEAD) and value != "default"}
    values["inline_vector_bytes"] = 1024 if axes["vectors"] == "inline" else 0
    with limited(**values):
        yield
