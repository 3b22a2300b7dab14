"""How each table feature is dropped: which properties are taken back first, what of a table still uses it, and what of its history.  Pure.

A feature that readers of older versions must know is dropped either with the history that uses it (TRUNCATE HISTORY), or behind
checkpoints that no reader goes past and that log cleanup keeps (the feature checkpointProtection).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from rowlock.conditions import Condition, named
from rowlock.exceptions import StatementRefused
from rowlock.protocol import commits, row_tracking
from rowlock.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.column_values import DEFAULTS, column_defaults
from rowlock.protocol.constraints import CONSTRAINT_PREFIX, is_constraint
from rowlock.protocol.delta_properties import find
from rowlock.protocol.features import FEATURES, READABLE, V2_CHECKPOINTS, WRITABLE, all_features
from rowlock.protocol.properties import PROTECTION, is_true
from rowlock.protocol.schema import REMOVING_MAPPING, TYPE_CHANGES, check_characters, map_fields, parse_schema, schema_json

CHECKPOINT_PROTECTION, DELETION_VECTORS, TYPE_WIDENING, COLUMN_MAPPING = "checkpointProtection", "deletionVectors", "typeWidening", "columnMapping"
_VECTORS_ON, _WIDENING_ON, _POLICY, _TIMES_ON = (
    "delta.enableDeletionVectors",
    "delta.enableTypeWidening",
    "delta.checkpointPolicy",
    "delta.enableInCommitTimestamps",
)
Action = Metadata | AddFile | RemoveFile


@dataclass(frozen=True, slots=True)
class Uses:
    """What of a table may use a feature: its metadata, the names of its metadata domains and its live files."""

    metadata: Metadata
    domains: Collection[str]
    files: Iterable[AddFile]

    def is_on(self, name: str) -> bool:
        """Whether a boolean property is on."""
        return is_true(self.metadata.configuration, name)


@dataclass(frozen=True, slots=True)
class Removal:
    """How one feature is dropped.

    trace    what of a table still uses it, as a phrase; None where nothing does
    takes    the properties that are set first where there is a trace, so that no writer begins to use it again; None unsets one
    history  whether an action of an older version uses it; None for a feature that readers of older versions need not know
    loses    the properties and the metadata domains that go with it
    asked    the trace is the user's own and is not taken away: the condition of the error
    stored   whether what is taken away was in files or columns, and older versions need the feature; a property alone may be no such trace
    """

    trace: Callable[[Uses], str | None]
    takes: Mapping[str, str | None] = field(default_factory=dict)
    history: Callable[[Action], bool] | None = None
    loses: Collection[str] = ()
    asked: Callable[[Uses], Condition | None] | None = None
    stored: Callable[[Metadata], bool] = lambda metadata: True


def has_type_changes(metadata: Metadata) -> bool:
    """Whether a column's metadata records a former type."""
    return any(TYPE_CHANGES in f.metadata for _, f in parse_schema(metadata.schema_string).all_fields())


def without_type_changes(metadata: Metadata) -> Metadata:
    """The metadata without the former types of columns."""
    plain = map_fields(parse_schema(metadata.schema_string), lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES}))
    return replace(metadata, schema_string=schema_json(plain))  # type: ignore[arg-type]


def _first(texts: Iterable[str]) -> str | None:
    return next(iter(texts), None)


def _constraints(uses: Uses) -> list[str]:
    return [key for key in uses.metadata.configuration if is_constraint(key)]


_WIDENING = Removal(
    lambda u: f"property {_WIDENING_ON} is on" if u.is_on(_WIDENING_ON) else "a column was widened" if has_type_changes(u.metadata) else None,
    {_WIDENING_ON: None},
    lambda action: isinstance(action, Metadata) and has_type_changes(action),
    stored=has_type_changes,
)
_IN_COMMIT = (_TIMES_ON, commits.ENABLEMENT_VERSION, commits.ENABLEMENT_TIMESTAMP)
REMOVALS: Mapping[str, Removal] = {
    "checkConstraints": Removal(
        lambda u: _first(f"property {key} is a CHECK constraint" for key in _constraints(u)),
        asked=lambda u: named("DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE", constraints=", ".join(k.removeprefix(CONSTRAINT_PREFIX) for k in _constraints(u))),
    ),
    DEFAULTS: Removal(lambda u: _first(f"column {n} has a default" for n in column_defaults(parse_schema(u.metadata.schema_string))), asked=lambda u: None),
    COLUMN_MAPPING: Removal(
        lambda u: "columns are mapped" if is_mapped(u.metadata.configuration) else None,
        history=lambda action: isinstance(action, Metadata) and is_mapped(action.configuration),
    ),
    DELETION_VECTORS: Removal(
        lambda u: f"property {_VECTORS_ON} is on" if u.is_on(_VECTORS_ON) else _first(f"{f.path} has one" for f in u.files if f.deletion_vector is not None),
        {_VECTORS_ON: None},
        lambda action: is_true(action.configuration, _VECTORS_ON) if isinstance(action, Metadata) else action.deletion_vector is not None,
    ),
    V2_CHECKPOINTS: Removal(
        lambda u: f"property {_POLICY} is v2" if u.metadata.configuration.get(_POLICY) == "v2" else None,
        {_POLICY: "classic"},
        lambda action: isinstance(action, Metadata) and action.configuration.get(_POLICY) == "v2",
    ),
    TYPE_WIDENING: _WIDENING,
    f"{TYPE_WIDENING}-preview": _WIDENING,
    "vacuumProtocolCheck": Removal(lambda u: None, history=lambda action: False),
    "inCommitTimestamp": Removal(
        lambda u: _first(f"property {n} = {v!r} is set" for n in _IN_COMMIT if (v := u.metadata.configuration.get(n, "false").strip().lower()) != "false"),
        {_TIMES_ON: "false", commits.ENABLEMENT_VERSION: None, commits.ENABLEMENT_TIMESTAMP: None},
    ),
    "domainMetadata": Removal(lambda u: _first(f"metadata domain {d} exists" for d in sorted(u.domains))),
    row_tracking.FEATURE: Removal(
        lambda u: "it is enabled" if u.is_on(row_tracking.ENABLED) else _first(f"{f.path} has row ids" for f in u.files if f.base_row_id is not None),
        {row_tracking.ENABLED: "false", row_tracking.SUSPENDED: "true"},
        loses=(row_tracking.ENABLED, row_tracking.SUSPENDED, row_tracking.ROW_ID_COLUMN, row_tracking.COMMIT_VERSION_COLUMN, row_tracking.DOMAIN),
    ),
    CHECKPOINT_PROTECTION: Removal(lambda u: f"property {PROTECTION} is set" if PROTECTION in u.metadata.configuration else None, {PROTECTION: None}),
}
"""The features that can be dropped, by name."""


def feature_to_drop(protocol: Protocol, name: str, table: str) -> str:
    """The feature of this name, in any case, as it is spelled.  Raises StatementRefused where it is not listed, unknown, needed by another or not to be dropped."""

    def refusal(text: str, spelled: str, condition: str, **parameters: str) -> StatementRefused:
        return StatementRefused(text, what=spelled, table=table, condition=named(condition, **parameters))

    listed = all_features(protocol)
    spelled = next((n for n in (*listed, *READABLE, *WRITABLE) if n.lower() == name.lower()), None)
    if spelled not in listed and name.lower().startswith("delta.") and find(name) is not None:
        text = f"{name} is a table property and no feature: ALTER TABLE ... UNSET TBLPROPERTIES ('{name}') unsets it"
        raise refusal(text, name, "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY", property=name)
    if spelled is None:
        raise refusal(f"Feature {name!r} is not known to this version of Rowlock", name, "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE", feature=name)
    if spelled not in listed:
        text = f"Feature {spelled} cannot be dropped: the table's protocol does not list it"
        raise refusal(text, spelled, "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", feature=spelled)
    if spelled not in REMOVALS:
        text = f"Feature {spelled} cannot be dropped, by delta-spark neither: it is part of what the table's columns and properties are"
        raise refusal(text, spelled, "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", feature=spelled)
    check_not_needed(protocol, spelled, table)
    return spelled


def check_not_needed(protocol: Protocol, name: str, table: str) -> None:
    """Raises StatementRefused where the protocol lists a feature that needs this one."""
    listed = all_features(protocol)
    if needs := sorted(f.name for f in FEATURES if f.needs == name and f.name in listed):
        condition = named("DELTA_FEATURE_DROP_DEPENDENT_FEATURE", feature=name, dependentFeatures=", ".join(needs))
        raise StatementRefused(f"Feature {name} cannot be dropped: {needs[0]} needs it", what=name, table=table, condition=condition)


def check_truncation(name: str, truncate: bool, table: str) -> None:
    """Raises StatementRefused where TRUNCATE HISTORY is given for a feature that leaves no history, or is missing for the one that is dropped by it alone."""
    if truncate and REMOVALS[name].history is None and name != CHECKPOINT_PROTECTION:
        text = f"The history need not be truncated to drop feature {name}: leave truncateHistory (TRUNCATE HISTORY) out"
        raise StatementRefused(text, what=name, table=table, condition=named("DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"))
    if name == CHECKPOINT_PROTECTION and not truncate:
        condition = named("DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION")
        text = f"Feature {name} guards what the history holds of dropped features: ALTER TABLE ... DROP FEATURE {name} TRUNCATE HISTORY deletes both"
        raise StatementRefused(text, what=name, table=table, condition=condition)


def check_own_traces(name: str, uses: Uses, table: str) -> None:
    """Raises StatementRefused for a trace that is the user's to take away: a constraint, a default, a name that only mapped columns can have."""
    removal = REMOVALS[name]
    if removal.asked is not None and (found := removal.trace(uses)):
        raise StatementRefused(f"Feature {name} cannot be dropped while the table uses it: {found}", what=name, table=table, condition=removal.asked(uses))
    if name == row_tracking.FEATURE and uses.metadata.configuration.get("rowlock.onConflict") == "lockless":
        text = "Feature rowTracking cannot be dropped from a lockless table, which finds its rows by their ids: unset rowlock.onConflict first"
        raise StatementRefused(text, what=name, table=table)
    if name == COLUMN_MAPPING:
        check_characters(parse_schema(uses.metadata.schema_string, table), table, REMOVING_MAPPING)


def with_properties(metadata: Metadata, changes: Mapping[str, str | None]) -> Metadata:
    """The metadata with these properties; None unsets one.  `comment` is the table's description, as delta-spark has it, and no property."""
    others = {k: v for k, v in metadata.configuration.items() if k not in changes}
    set_now = {k: v for k, v in changes.items() if v is not None and k != "comment"}
    return replace(metadata, description=changes.get("comment", metadata.description), configuration=others | set_now)
