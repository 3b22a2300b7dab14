"""What `make test` leaves to `make soak`: tests marked `soak`, and of a test marked `short` all parameters but those that it names.

Of those with `ci=True` on `soak`, and of the parameters that `ci` of `short` names, `make soak-ci` runs eight times as many as of the others; with `ci="always"` all.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.peers import is_one_in


def mark_long_forms(items: Sequence[pytest.Item], *, all_of_a_file: bool) -> None:
    """Marks as `soak` each item of a `short` test whose parameters the marker does not name.

    `all_of_a_file`: no test was asked for by its name, so a name in a marker that belongs to no parameters is an error (pytest.UsageError).
    """
    unused: dict[str, set[str]] = {}
    for item in items:
        short = item.get_closest_marker("short")
        if short is None:
            continue
        parameters = item.callspec.id  # type: ignore[attr-defined]
        before_a_change = short.kwargs.get("ci", ())
        unused.setdefault(item.nodeid.partition("[")[0], {*short.args, *before_a_change}).discard(parameters)
        if parameters not in short.args:
            item.add_marker(pytest.mark.soak(short.kwargs["why"], ci=parameters in before_a_change))
    if all_of_a_file and (wrong := {test: sorted(names) for test, names in unused.items() if names}):
        raise pytest.UsageError(f"@pytest.mark.short names parameters that do not exist: {wrong}")


def runs_before_a_change_is_taken(item: pytest.Item, one_in: int) -> bool:
    """Whether `make soak-ci` runs a long form: one in so many by a checksum of its node id, always the same ones; eight times as many where a mark says `ci=True`."""
    marks = [mark.kwargs.get("ci") for mark in item.iter_markers("soak")]
    return "always" in marks or is_one_in(max(one_in // 8, 1) if any(marks) else one_in, item.nodeid)
