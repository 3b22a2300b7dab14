"""Limits turned down for one test, so that the ways of large data run on a few rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowlock import limits


def turn_down(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    """Sets limits of the process until the test ends; -1 is allowed here: not even nothing is within it."""
    monkeypatch.setattr(limits, "_current", replace(limits.limits(), **values))
