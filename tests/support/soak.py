"""What `make test` leaves to `make soak`: tests marked `soak`, and of a test marked `short` all parameters but those that it names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


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
        unused.setdefault(item.nodeid.partition("[")[0], set(short.args)).discard(parameters)
        if parameters not in short.args:
            item.add_marker(pytest.mark.soak(short.kwargs["why"]))
    if all_of_a_file and (wrong := {test: sorted(names) for test, names in unused.items() if names}):
        raise pytest.UsageError(f"@pytest.mark.short names parameters that do not exist: {wrong}")
