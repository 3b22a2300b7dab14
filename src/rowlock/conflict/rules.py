"""Delta's conflict rules, one pure function each: those about the table, and those about files, which are asked only where conflicts are judged by file.

A rule finds a conflict or None; it changes nothing.  `RULES` are applied in the order of Delta's own checks, and the
first conflict found counts.  `TABLE_RULES` apply to statements under every policy, isolation level and granularity, but for changes of the schema, which
`transaction.rebase.onto_head` judges where rows can be rebased over them, by `table_change`.  Conflicts that
Delta resolves by rewriting actions (row ids, in-commit timestamps, type widening) need no rule, since a commit is
built again from the head for every put.

`table_change` says how winners changed the table's definition, so that staged work can be checked against it.  Columns are identified by column id on
tables with column mapping, else by name.  A change that only constrains rows (a new constraint, NOT NULL) is handled by checking the staged
rows; one that changes what a statement means, by staging it again.

Which changes a transaction must look at follows from its isolation level.  `serializable`: all.  `write_serializable`: the transaction may be ordered
before the trailing blind appends (those after the last winner that is not a blind append); their paths stay unseen until a winner follows that is not a
blind append, and must be looked at then.  `snapshot`: all, to find those that concern rows which the transaction changes itself.

Where Delta's implementations differ, `CHOICES` in tests/support/conflict_cases.py says what is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rowlock.conflict.value import Conflict, conflict_with
from rowlock.protocol import commits, delta_properties, row_tracking
from rowlock.protocol.actions import AddFile, Commit, DomainMetadata, Metadata, Protocol
from rowlock.protocol.column_mapping import MAX_ID
from rowlock.protocol.column_values import HIGH_WATER_MARK, differ_in_marks_only
from rowlock.protocol.constraints import INVARIANTS, checks_of, is_constraint
from rowlock.protocol.features import WRITABLE, all_features
from rowlock.protocol.predicates import Predicate
from rowlock.protocol.properties import Isolation, column_mapping_mode
from rowlock.protocol.schema import COLUMN_ID, PHYSICAL_NAME, DataType, StructField, StructType, nullable_type, parse_schema

Unseen = Mapping[str, AddFile | None]
"""Changed paths that a transaction has not looked at yet, each with the file as the transaction knows it; None if it knows of none."""


@dataclass(frozen=True, slots=True)
class PathsToCheck:
    """Files that winners changed, by path.

    paths   those that the transaction must look at now
    unseen  those that only trailing blind appends changed, which it may leave for a later round
    """

    paths: frozenset[str]
    unseen: Unseen = field(default_factory=dict)


def paths_to_check(level: Isolation | None, winners: Sequence[Commit], unseen: Unseen) -> PathsToCheck:
    """The changed paths that a transaction must look at under its isolation level; `unseen` are those that earlier rounds left."""
    if level != "write_serializable":
        return PathsToCheck(frozenset(unseen) | paths_of(winners))
    last = max((n for n, w in enumerate(winners) if not is_blind_append(w)), default=-1)
    trailing = dict.fromkeys(paths_of(winners[last + 1 :]))
    if last < 0:
        return PathsToCheck(frozenset(), {**unseen, **trailing})
    return PathsToCheck(frozenset(unseen) | paths_of(winners[: last + 1]), trailing)


def is_blind_append(winner: Commit) -> bool:
    """Whether the commit claims to be a blind append, and only adds files: the only claim of a commit about itself that is trusted."""
    claimed = winner.info is not None and winner.info.is_blind_append
    return claimed and not winner.removes and winner.metadata is None and winner.protocol is None and all(a.deletion_vector is None for a in winner.adds)


def paths_of(winners: Iterable[Commit]) -> frozenset[str]:
    """Every path that these commits add or remove."""
    return frozenset(p for w in winners for p in w.paths)


def linked_paths(paths: frozenset[str], winners: Iterable[Commit]) -> frozenset[str]:
    """All paths linked to `paths` by winners that touch both: rows may have been moved there, over any number of moves."""
    reached, left = set(paths), list(winners)
    while tied := [w for w in left if w.paths & reached]:
        left = [w for w in left if not w.paths & reached]
        reached |= paths_of(tied)
    return frozenset(reached)


PropertyChange = Callable[[str | None, str | None, frozenset[str]], bool]
"""(old value, new value, the table's features) -> whether the change is harmless to staged work."""


def _turned_on(feature: str) -> PropertyChange:
    return lambda old, new, features: (new or "").strip().lower() == "true" and feature in features


HARMLESS_CHANGES: Mapping[str, PropertyChange] = {
    "delta.enableDeletionVectors": _turned_on("deletionVectors"),
    "delta.enableInCommitTimestamps": _turned_on("inCommitTimestamp"),
    "delta.checkpointPolicy": lambda old, new, features: new == "v2" and "v2Checkpoint" in features,
    commits.ENABLEMENT_VERSION: lambda old, new, features: old is None,
    commits.ENABLEMENT_TIMESTAMP: lambda old, new, features: old is None,
    row_tracking.ROW_ID_COLUMN: lambda old, new, features: old is None,
    row_tracking.COMMIT_VERSION_COLUMN: lambda old, new, features: old is None,
}
"""Properties whose change is harmless in one direction: what they require is done when the commit is built from the head.  Those of any change: `DeltaProperty.harmless`."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a transaction has read and will write, as far as the rules need it.

    predicates        one per scan; None for the whole table
    files             paths of the files that were read
    removes           paths that the transaction removes
    changes_data      False if it only moves rows or writes nothing; Delta checks it under snapshot isolation then
    app_ids           application ids that it read or commits
    isolation         the requested isolation level
    domains           metadata domains that it commits
    changes_protocol  whether it commits a protocol
    changes_metadata  whether it commits metadata
    """

    predicates: tuple[Predicate | None, ...] = ()
    files: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    changes_data: bool = True
    app_ids: frozenset[str] = frozenset()
    isolation: Isolation = "serializable"
    domains: frozenset[str] = frozenset()
    changes_protocol: bool = False
    changes_metadata: bool = False

    @property
    def level(self) -> Isolation:
        """The isolation level under which added files are checked."""
        return self.isolation if self.changes_data else "snapshot"


@dataclass(frozen=True, slots=True)
class TableState:
    """The table as the transaction read it; `matching(predicate, files)` gives the files that may hold matching rows."""

    protocol: Protocol
    metadata: Metadata
    schema: StructType
    matching: Callable[[Predicate | None, Sequence[AddFile]], Sequence[AddFile]] = field(compare=False)


Rule = Callable[[Reads, Commit, TableState], "Conflict | None"]


def protocol_changed(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """A winner removed a feature, added one that Rowlock does not write, or both changed the protocol."""
    if winner.protocol is None:
        return None
    before, after = all_features(state.protocol), all_features(winner.protocol)
    lowered = winner.protocol.min_reader_version < state.protocol.min_reader_version or winner.protocol.min_writer_version < state.protocol.min_writer_version
    # A feature that is merely listed takes effect through a property or a column, which is a change of metadata, or when the commit is built from the head.
    if reads.changes_protocol or lowered or before - after or after - before - WRITABLE:
        return conflict_with(winner, "protocol")
    return None


def metadata_changed(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """A winner changed the schema, the partitioning or a property that affects writers, or both changed the metadata."""
    if winner.metadata is None:
        return None
    if _moves_marks_only(state.metadata, winner.metadata):  # our own metadata, if any, gets the marks of the head
        return None
    if not reads.changes_metadata and is_harmless(state.metadata, winner.metadata, winner.protocol or state.protocol):
        return None
    return conflict_with(winner, "metadata")


def _moves_marks_only(before: Metadata, after: Metadata) -> bool:
    """Whether a winner gave out numbers of identity columns, and changed nothing else of the table."""
    return before != after and differ_in_marks_only(before, after) and replace(before, schema_string="") == replace(after, schema_string="")


def is_harmless(before: Metadata, after: Metadata, protocol: Protocol) -> bool:
    """Whether a change of metadata cannot invalidate staged work (only harmless properties, names or comments); `protocol` is that after the change."""
    if (before.id, before.partition_columns, before.format_provider) != (after.id, after.partition_columns, after.format_provider):
        return False
    if not differ_in_marks_only(before, after):
        return False
    features = all_features(protocol)
    keys = before.configuration.keys() | after.configuration.keys()
    pairs = ((k, before.configuration.get(k), after.configuration.get(k)) for k in keys)
    return all(is_harmless_property(k, old, new, features) for k, old, new in pairs if old != new)


def is_harmless_property(key: str, old: str | None, new: str | None, features: frozenset[str]) -> bool:
    """Whether changing a property from `old` to `new` (None: unset) cannot invalidate staged work."""
    if not key.startswith("delta.") or ((known := delta_properties.find(key)) is not None and known.harmless):
        return True
    return key in HARMLESS_CHANGES and HARMLESS_CHANGES[key](old, new, features)


def domain_changed(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """Both committed the same metadata domain, other than row tracking's, whose high-water mark is merged when the commit is built."""
    both = reads.domains & domains_of(winner.domains)
    return conflict_with(winner, "domain") if both else None


def domains_of(domains: Iterable[DomainMetadata]) -> frozenset[str]:
    """The names of the domains that two concurrent commits may not both write."""
    return frozenset(d.domain for d in domains) - {row_tracking.DOMAIN}


def same_application(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """Both committed the same application id, or the winner committed one that this transaction read."""
    return conflict_with(winner, "application") if reads.app_ids & {t.app_id for t in winner.txns} else None


def added_where_read(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """A winner added rows where this transaction read; files with only moved rows do not count."""
    if reads.level == "snapshot" or not reads.predicates:
        return None
    if reads.level == "write_serializable" and not reads.changes_metadata and is_blind_append(winner):
        return None
    added = [a for a in winner.adds if a.data_change]
    matching = {a.path for p in reads.predicates for a in state.matching(p, added)}
    hit = tuple(a.path for a in added if a.path in matching)
    return conflict_with(winner, "added files", files=hit) if hit else None


def removed_what_was_read(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """A winner removed a file that this transaction read, or any file if it read the whole table; files with only moved rows do not count."""
    whole = None in reads.predicates
    hit = tuple(r.path for r in winner.removes if r.data_change and (whole or r.path in reads.files))
    return conflict_with(winner, "removed files", files=hit) if hit else None


def removed_by_both(reads: Reads, winner: Commit, state: TableState) -> Conflict | None:
    """A winner removed a path that this transaction removes too; replacing a deletion vector is a remove and an add."""
    hit = tuple(r.path for r in winner.removes if r.path in reads.removes)
    return conflict_with(winner, "removed by both", files=hit) if hit else None


TABLE_RULES: tuple[Rule, ...] = (protocol_changed, metadata_changed, domain_changed)
FILE_RULES: tuple[Rule, ...] = (same_application, added_where_read, removed_what_was_read, removed_by_both)
RULES: tuple[Rule, ...] = TABLE_RULES + FILE_RULES


def first_conflict(rules: tuple[Rule, ...], reads: Reads, winners: list[Commit], state: TableState) -> Conflict | None:
    """The first conflict that the rules find, winner by winner in log order; None if there is none."""
    return next((found for winner in winners for rule in rules if (found := rule(reads, winner, state))), None)


_DESCRIPTIVE = frozenset({"comment"})
"""Keys of a column's metadata that only people read."""
_COMPARED_ELSEWHERE = frozenset({COLUMN_ID, PHYSICAL_NAME, INVARIANTS, HIGH_WATER_MARK})
"""Keys of a column's metadata that are compared elsewhere, or that only move: staged rows have numbers of their own."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """The differences between two definitions of a table that matter to staged work.

    added       new nullable columns, as dotted names
    lost        columns that were dropped or renamed, by their old names
    retyped     columns with another type, and new columns that are NOT NULL
    moved       whether the order of columns changed
    checked     new conditions on rows: constraints, and columns that became NOT NULL
    other       everything else, by name: properties, partitioning, column metadata
    """

    added: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    moved: bool = False
    checked: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed that matters to staged work."""
        return self.same_columns and not (self.checked or self.other)

    @property
    def same_columns(self) -> bool:
        """Whether a plan that was resolved against the old columns still means the same."""
        return not (self.added or self.lost or self.retyped or self.moved)

    def affects(self, columns: Iterable[str]) -> bool:
        """Whether any of these columns (by their old names), or a field in one, was dropped or renamed."""
        given = tuple(columns)
        return any(name == c or name.startswith(f"{c}.") for name in self.lost for c in given)  # a column's own name may have a dot

    @property
    def names(self) -> tuple[str, ...]:
        """The names of everything that changed, for an error message."""
        order = ("the order of columns",) if self.moved else ()
        return (*self.lost, *self.retyped, *self.added, *self.checked, *self.other) or order


def table_change(before: Metadata, after: Metadata, protocol: Protocol) -> TableChange:
    """The differences between two definitions of a table; `protocol` is that after the change."""
    old, new = parse_schema(before.schema_string), parse_schema(after.schema_string)
    columns = _Columns(mapped=column_mapping_mode(before.configuration) != "none" and column_mapping_mode(after.configuration) != "none")
    columns.compare(old, new, ())
    features = all_features(protocol)
    keys = sorted(before.configuration.keys() | after.configuration.keys())
    pairs = [(k, before.configuration.get(k), after.configuration.get(k)) for k in keys]
    grows = {MAX_ID} if columns.mapped else set()  # the highest column id, with every new column
    other = [k for k, a, b in pairs if a != b and k not in grows and not is_constraint(k) and not is_harmless_property(k, a, b, features)]
    if _partitions(before, old, columns.mapped) != _partitions(after, new, columns.mapped):
        other.append("partitioning")
    if (before.id, before.format_provider) != (after.id, after.format_provider):
        other.append("identity of the table")
    checks = set(checks_of(after, new)) - set(checks_of(before, old))
    return TableChange(
        added=tuple(columns.added),
        lost=tuple(columns.lost),
        retyped=tuple(columns.retyped),
        moved=columns.moved,
        checked=(*columns.tightened, *sorted(c.name for c in checks)),
        other=(*columns.other, *other),
    )


def _partitions(metadata: Metadata, schema: StructType, mapped: bool) -> list[Any]:
    found = [schema.find(name) for name in metadata.partition_columns]
    return [_identity(f, mapped) for f in found if f is not None]


def _identity(field: StructField, mapped: bool) -> Any:
    return field.column_id if mapped and field.column_id is not None else field.name


class _Columns:
    """Compares two schemas column by column; the attributes are those of `TableChange`."""

    def __init__(self, *, mapped: bool) -> None:
        self.mapped = mapped
        self.added: list[str] = []
        self.lost: list[str] = []
        self.retyped: list[str] = []
        self.tightened: list[str] = []
        self.other: list[str] = []
        self.moved = False

    def compare(self, old: StructType, new: StructType, where: Sequence[str]) -> None:
        """Adds the differences between two structs at the path `where`."""
        known: Mapping[Any, StructField] = {_identity(f, self.mapped): f for f in old.fields}
        there = {_identity(f, self.mapped) for f in new.fields}
        self.lost += [_dotted(where, f) for f in old.fields if _identity(f, self.mapped) not in there]
        self.moved = self.moved or [k for k in known if k in there] != [k for f in new.fields if (k := _identity(f, self.mapped)) in known]
        for now in new.fields:
            before = known.get(_identity(now, self.mapped))
            if before is None:
                (self.added if now.nullable else self.retyped).append(_dotted(where, now))
                self.other += [_dotted(where, now)] if _writer_metadata(now) else []
            elif before.name != now.name or before.physical_name != now.physical_name:
                self.lost.append(_dotted(where, before))
            else:
                self._field(before, now, where)

    def _field(self, before: StructField, field: StructField, where: Sequence[str]) -> None:
        name = _dotted(where, field)
        if isinstance(before.type, StructType) and isinstance(field.type, StructType):
            self.compare(before.type, field.type, (*where, field.name))
        elif nullable_type(before.type) != nullable_type(field.type) or _inner_fields(before.type) != _inner_fields(field.type):
            self.retyped.append(name)
        elif before.type != field.type:
            self.tightened.append(name)
        if before.nullable and not field.nullable:
            self.tightened.append(name)
        if _writer_metadata(before) != _writer_metadata(field):
            self.other.append(name)


def _writer_metadata(field: StructField) -> dict[str, Any]:
    """The column metadata that affects writers: defaults, generation expressions, identity."""
    return {k: v for k, v in field.metadata.items() if k not in _DESCRIPTIVE | _COMPARED_ELSEWHERE}


def _inner_fields(type_: DataType) -> list[Any]:
    """(path, id, physical name) of each field inside an array or map."""
    holder = StructType((StructField("", type_),))
    return [(path, f.column_id, f.physical_name) for path, f in holder.all_fields()][1:]


def _dotted(where: Iterable[str], field: StructField) -> str:
    return ".".join((*where, field.name))
