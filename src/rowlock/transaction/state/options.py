"""The options of a transaction: conflict policy, isolation, granularity, locks.

Each knob is a table property and an argument; the argument wins.  Where a table does not set
`rowlock.isolation`, Delta's own `delta.isolationLevel` sets its level.  A value that this version does
not know or does not support is refused by name when it is set, never when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rowlock import arguments
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, WrongType
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.properties import DELTA_LEVELS, LOCKLESS_ALONE, Granularity, Isolation, Lock, OnConflict, TableProperties, validate_properties

__all__ = ["Granularity", "Isolation", "Lock", "OnConflict", "Options", "WriteMode", "application"]

WriteMode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
"""What `rowlock.write` does where there is a table already."""

_PROPERTY = {"on_conflict": "rowlock.onConflict", "isolation": "rowlock.isolation", "granularity": "rowlock.granularity", "lock": "rowlock.lock"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None means: as the table's property.

    lock_timeout: for how many seconds a writer waits for a lease before it goes on without one.
    lane: take the in-process commit lane around the last rebase and the put.  It saves rounds and
    decides nothing (I7); schedules that interleave at every phase switch it off.
    group_commit: a blind append may share its version with others that wait for the same table.
    turns: announce a turn after lost puts and honour those of others; None: as `lane`.
    """

    on_conflict: OnConflict | None = None
    isolation: Isolation | None = None
    granularity: Granularity | None = None
    lock: Lock | None = None
    lock_timeout: float | None = None
    lane: bool = True
    group_commit: bool = True
    turns: bool | None = None

    def __post_init__(self) -> None:
        for name in _PROPERTY:
            if (value := getattr(self, name)) is not None:
                arguments.text(value, name)
        given = {_PROPERTY[k]: v for k in _PROPERTY if (v := getattr(self, k)) is not None}
        validate_properties(given)
        if self.on_conflict == "lockless" and self.isolation is not None:
            raise InvalidInput(LOCKLESS_ALONE)
        if self.lock_timeout is not None and not arguments.real(self.lock_timeout, "lock_timeout", "seconds") >= 0:
            raise InvalidInput(f"lock_timeout is a number of seconds, 0 or more, not {self.lock_timeout!r}")

    @property
    def takes_turns(self) -> bool:
        """Whether a turn is announced after lost puts."""
        return self.lane if self.turns is None else self.turns

    @property
    def raises(self) -> bool:
        """Whether a conflict is raised and not repaired: to the caller (`fail`), or to the loop that runs the statement again (`rerun`)."""
        return self.on_conflict in ("fail", "rerun")

    @property
    def raises_by_file(self) -> bool:
        """Whether a conflict is raised as soon as both change one file."""
        return self.raises and self.granularity == "file"

    @property
    def raises_by_row(self) -> bool:
        """Whether a conflict is raised only where both change one row."""
        return self.raises and self.granularity == "row"

    def resolved(self, properties: Mapping[str, str]) -> Options:
        """The options with every None filled from the table's properties, else by the default.

        Raises InvalidInput where the table's property has a value that this version does not carry out.
        """
        table = TableProperties(properties)
        policy = self.on_conflict or table.on_conflict
        if policy == "lockless" and self.isolation is not None:
            raise InvalidInput(LOCKLESS_ALONE)
        level = None if policy == "lockless" else self.isolation or table.isolation
        return replace(
            self,
            on_conflict=policy,
            isolation=level,
            granularity=self.granularity or table.granularity,
            group_commit=self.group_commit and table.group_commit,
            lock=self.lock or table.lock,
            lock_timeout=table.lock_timeout_s if self.lock_timeout is None else self.lock_timeout,
        )

    @property
    def delta_level(self) -> str:
        """The isolation level that commitInfo names, in Delta's words; `lockless` reads one version, and promises no more than snapshot isolation."""
        return DELTA_LEVELS[self.isolation or "snapshot"]


def asked(
    isolation: Isolation | None = None,
    on_conflict: OnConflict | None = None,
    granularity: Granularity | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    lock: Lock | None = None,
    lock_timeout: float | None = None,
    user_metadata: str | None = None,
) -> tuple[Options, SetTransaction | None, str | None]:
    """What the arguments of a transaction of several statements ask for: options, the step of an application, the user's text.  Raises InvalidInput, WrongType."""
    options = Options(isolation=isolation, on_conflict=on_conflict, granularity=granularity, lock=lock, lock_timeout=lock_timeout)
    arguments.optional(arguments.text, user_metadata, "user_metadata")
    return options, application(app_id, app_version), user_metadata


def application(app_id: str | None, app_version: Any) -> SetTransaction | None:
    """The SetTransaction of `app_id` and `app_version`, None if neither is given.  Raises InvalidInput where one is missing or wrong."""
    if app_id is None and app_version is None:
        return None
    if app_id is None or app_version is None:
        text = "app_id and app_version go together: the name of the application, and the number of this step of it"
        raise InvalidInput(text, condition=named("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", reason="both txnVersion and txnAppId must be set"))
    if not isinstance(app_version, int) or isinstance(app_version, bool) or app_version < 0:
        raise InvalidInput(f"app_version is the number of a step, 0 or more, not {app_version!r}")
    if not isinstance(app_id, str):
        raise WrongType(f"app_id must be a string, not {type(app_id).__name__}")
    return SetTransaction(app_id, app_version)
