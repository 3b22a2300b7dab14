"""Judges changes of a table's definition: ALTER does what it was asked and nothing else, and what is refused has a reason in a version that it met.

Shares no code with what it judges but the parsers of actions and the evaluator of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, StatementRefused
from rowlock.protocol.actions import Metadata, Protocol
from rowlock_simulation.actions import Action
from rowlock_simulation.definition import supports
from rowlock_simulation.serial import Row, value_of

CONSTRAINT = "delta.constraints."
_OURS = ("delta.rowTracking", "delta.inCommitTimestampEnablement", "delta.columnMapping.maxColumnId", "delta.feature.")
"""Properties that come and go with others, and those that become features of the protocol."""
_GUARD = "checkpointProtection"
_WITH_HISTORY = ("deletionVectors", "v2Checkpoint", _GUARD)
"""Features that are dropped only after no version that is left uses them."""
_DEFAULT, _GENERATED = "CURRENT_DEFAULT", ("delta.generationExpression", "delta.identity.start")
_OUTLIVING = ("delta.enableDeletionVectors", "delta.checkpointPolicy", "delta.enableRowTracking")
"""Properties that a table keeps when it is replaced."""
_OF_NEW_TABLES = {"delta.enableDeletionVectors": "true"}
_OF_THE_PROTOCOL = ("feature", "versions", "cluster")
_MISSING = re.compile(r"there is no column '(\w+)'")


@dataclass(frozen=True)
class Defined:
    """The definition of one version, and its rows."""

    metadata: Metadata
    protocol: Protocol
    rows: Sequence[Row]

    @cached_property
    def fields(self) -> dict[str, Mapping[str, Any]]:
        """The columns in their order, by name, as the schema has them."""
        return {f["name"]: f for f in orjson.loads(self.metadata.schema_string)["fields"]}

    @property
    def columns(self) -> list[tuple[Any, ...]]:
        """Name, type, whether it takes nulls, comment and default of each column."""
        return [(n, f["type"], f["nullable"], f["metadata"].get("comment"), f["metadata"].get(_DEFAULT)) for n, f in self.fields.items()]

    def is_on(self, name: str) -> bool:
        """Whether a boolean property is on."""
        return self.metadata.configuration.get(name) == "true"

    @property
    def properties(self) -> dict[str, str]:
        return {k: v for k, v in self.metadata.configuration.items() if not k.startswith(_OURS)}


def changed_otherwise(action: Action, operation: str, before: Defined, after: Defined) -> str | None:
    """How the definition after a commit differs from the one that was asked for, as a phrase; None if it does not.  Of several commits the last one counts."""
    columns, properties = before.columns, dict(before.properties)
    if action.kind == "alter":
        if reason := next((name for name, holds in _REFUSALS.get(action.alter[0], {}).items() if holds(action, before)), None):
            return f"{action} was carried out in spite of {reason}"
        columns, properties = _altered(columns, properties, *action.alter)
    elif action.kind == "property" and operation == "SET TBLPROPERTIES":
        properties |= {k: v for k, v in action.properties.items() if not k.startswith(_OURS)}
    elif action.kind == "drop feature" and operation == "DROP FEATURE":
        guarded = action.feature in _WITH_HISTORY and not action.truncates and not supports(before.protocol, _GUARD)
        if supports(after.protocol, action.feature) or guarded != (supports(after.protocol, _GUARD) and not supports(before.protocol, _GUARD)):
            return f"{action} makes the protocol {after.protocol} of {before.protocol}"
        return None
    elif action.kind == "statements" and action.grows and action.grows not in before.fields:
        columns.append((action.grows, "long", True, None, None))
    elif action.kind == "replace":
        wanted = tuple(name.lower() for name in action.partitioned)
        if after.metadata.partition_columns != wanted:
            return f"{action} is partitioned by {after.metadata.partition_columns}"
        if not action.anew:
            return None
        kept = {k: v for k, v in properties.items() if k in _OUTLIVING}
        columns, properties = [(c, "long", c != "k", None, None) for c in action.columns], {**_OF_NEW_TABLES, **kept, **action.properties}
    elif action.kind not in ("statements", "foreign", "read and write"):
        return None
    if columns != after.columns:
        return f"{action} makes the columns {after.columns} of {before.columns}"
    return f"{action} makes the properties {after.properties} of {before.properties}" if properties != after.properties else None


def changes_all(action: Action, met: Sequence[Defined]) -> bool:
    """Whether a change of properties or columns would leave none of the versions that it may have met as it is."""
    asked = action.kind == "property" or (action.kind == "alter" and action.alter[0] not in _OF_THE_PROTOCOL)
    return asked and all(changed_otherwise(action, "SET TBLPROPERTIES", d, d) is not None for d in met)


def _altered(columns: list[tuple[Any, ...]], properties: dict[str, str], verb: str, *names: str) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    last = names[-1] if names else None
    edits: dict[str, tuple[int, Any]] = {
        "rename": (0, last),
        "widen": (1, "long"),
        "set not null": (2, False),
        "drop not null": (2, True),
        "comment": (3, last),
        "set default": (4, last),
        "drop default": (4, None),
    }  # fmt: skip
    if verb in edits:
        at, value = edits[verb]
        return [(*c[:at], value, *c[at + 1 :]) if c[0] == names[0] else c for c in columns], properties
    own, others = [c for c in columns if names and c[0] == names[0]], [c for c in columns if not names or c[0] != names[0]]
    match verb:
        case "add":
            return [*columns, (names[0], "long", True, None, None)], properties
        case "drop":
            return others, properties
        case "move":
            return [c for other in others for c in ((other, *own) if other[0] == "w" else (other,))], properties
        case "add constraint":
            return columns, properties | {CONSTRAINT + names[0].lower(): names[1]}
        case "drop constraint":
            return columns, {k: v for k, v in properties.items() if k != CONSTRAINT + names[0].lower()}
        case "unset":
            return columns, {k: v for k, v in properties.items() if k not in names}
        case _:  # of the protocol, or of a metadata domain
            return columns, properties


Reason = Callable[[Action, Defined], bool]


def _lacks(a: Action, d: Defined) -> bool:
    return a.alter[1] not in d.fields


def _leaves_history(a: Action, d: Defined) -> bool:
    return a.truncates and a.feature in _WITH_HISTORY and supports(d.protocol, a.feature)


_NO_COLUMN: dict[str, Reason] = {"UNRESOLVED_COLUMN.WITH_SUGGESTION": _lacks}
_UNMAPPED: Reason = lambda a, d: d.metadata.configuration.get("delta.columnMapping.mode", "none") == "none"  # noqa: E731 - as those in the table
_REFUSALS: Mapping[str, Mapping[str, Reason]] = {
    "rename": {**_NO_COLUMN, "DELTA_UNSUPPORTED_RENAME_COLUMN": _UNMAPPED},
    "drop": {
        **_NO_COLUMN,
        "DELTA_UNSUPPORTED_DROP_COLUMN": _UNMAPPED,
        "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN": lambda a, d: a.alter[1] in d.metadata.partition_columns,
    },
    "widen": {
        **_NO_COLUMN,
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP": lambda a, d: (
            not _lacks(a, d) and d.fields[a.alter[1]]["type"] != "long" and not d.is_on("delta.enableTypeWidening")
        ),
    },
    "move": _NO_COLUMN,
    "comment": _NO_COLUMN,
    "drop not null": _NO_COLUMN,
    "drop default": _NO_COLUMN,
    "set not null": {**_NO_COLUMN, "ROWLOCK_CONSTRAINT_VIOLATED": lambda a, d: any(row.get(a.alter[1]) is None for row in d.rows)},
    "set default": {
        **_NO_COLUMN,
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED": lambda a, d: not supports(d.protocol, "allowColumnDefaults"),
        "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED": lambda a, d: not _lacks(a, d) and any(m in d.fields[a.alter[1]]["metadata"] for m in _GENERATED),
    },
    "add constraint": {
        "DELTA_CONSTRAINT_ALREADY_EXISTS": lambda a, d: CONSTRAINT + a.alter[1].lower() in d.metadata.configuration,
        "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION": lambda a, d: not all(value_of(a.alter[2], row) is True for row in d.rows),
    },
    "drop constraint": {"DELTA_CONSTRAINT_DOES_NOT_EXIST": lambda a, d: CONSTRAINT + a.alter[1].lower() not in d.metadata.configuration},
    "cluster": {"DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED": lambda a, d: bool(d.metadata.partition_columns)},
}
"""By the verb of ALTER, why it is refused: the condition of the error, and whether it holds in a version."""
_REFUSED_DROPS: Mapping[str, Reason] = {
    "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL": lambda a, d: True,  # by what others did meanwhile
    "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT": lambda a, d: not supports(d.protocol, a.feature),
    "DELTA_FEATURE_DROP_DEPENDENT_FEATURE": lambda a, d: a.feature == "domainMetadata" and (supports(d.protocol, "rowTracking") or supports(d.protocol, "clustering")),
    "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED": lambda a, d: a.truncates and a.feature not in _WITH_HISTORY,
    "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD": _leaves_history,
    "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST": _leaves_history,
    "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD": lambda a, d: a.feature == _GUARD and supports(d.protocol, a.feature),
}  # fmt: skip
"""Why a feature cannot be dropped."""


def refused_without_reason(action: Action, error: Exception | None, met: Sequence[Defined]) -> bool:
    """Whether an action was refused for something that is true of none of the versions that it may have met."""
    if not isinstance(error, (InvalidInput, SchemaMismatch, StatementRefused, ConstraintViolated)):
        return False
    condition = error.getCondition() or ""
    if condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY":
        return not any(d.is_on("delta.appendOnly") for d in met)
    if action.kind in ("alter", "drop feature"):
        reason = (_REFUSED_DROPS if action.kind == "drop feature" else _REFUSALS.get(action.alter[0], {})).get(condition)
        return reason is None or not any(reason(action, d) for d in met)
    if (missing := _MISSING.search(str(error))) is not None:
        return all(missing[1] in d.fields for d in met)
    return False
