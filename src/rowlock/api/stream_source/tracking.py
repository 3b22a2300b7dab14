"""The columns, properties and protocol that a stream reads with, kept beside its checkpoint: it stops at a change, and reads with the new ones from then on.

The files are delta-spark's, so that either engine goes on from what the other kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from rowlock.api.stream_source.options import StreamOptions
from rowlock.conditions import named
from rowlock.engines.spark.sql import streams
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import action_json
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructType, parse_schema, parts, schema_json, type_name
from rowlock.protocol.schema_fit import may_become
from rowlock.protocol.session_settings import PREFIX

_FORM = b"v1"
_KINDS = {"Rename": "RENAME COLUMN", "Drop": "DROP COLUMN", "TypeChange": "TYPE WIDENING"}
_ALLOWED_BY = {
    "Rename": ("streaming.allowSourceColumnRename", "streaming.allowSourceColumnRenameAndDrop"),
    "Drop": ("streaming.allowSourceColumnDrop", "streaming.allowSourceColumnRenameAndDrop"),
    "TypeChange": ("streaming.allowSourceColumnTypeChange",),
}
_INTERNAL = ("delta.identity.", "delta.generationExpression")


@dataclass(frozen=True, slots=True)
class Tracked:
    """What a stream reads with from a version on.  `source` is the place of the source in its query's checkpoint; `previous` the entry that counts as the one before."""

    version: int
    metadata: Metadata
    protocol: Protocol
    source: str
    previous: int | None = None

    def text(self) -> bytes:
        """The bytes of a file of delta-spark's schema log."""
        schema = parse_schema(self.metadata.schema_string)
        partitions = StructType(tuple(f for name in self.metadata.partition_columns if (f := schema.find(name)) is not None))
        fields = {
            "tableId": self.metadata.id,
            "deltaCommitVersion": self.version,
            "dataSchemaJson": self.metadata.schema_string,
            "partitionSchemaJson": schema_json(partitions),
            "sourceMetadataPath": self.source,
            "tableConfigurations": dict(self.metadata.configuration),
            "protocolJson": orjson.dumps({"protocol": action_json.protocol_json(self.protocol)}).decode(),
        }
        return _FORM + b"\n" + orjson.dumps(fields if self.previous is None else fields | {"previousMetadataSeqNum": self.previous})

    def of(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as a stream sees it that has come to this version: only its columns, properties and protocol are to be used."""
        schema = parse_schema(self.metadata.schema_string, snapshot.table)
        return replace(snapshot, version=self.version, metadata=self.metadata, protocol=self.protocol, schema=schema)


class TrackingLog:
    """The log of one source.  Raises InvalidInput where it is another table's, or damaged."""

    def __init__(self, files: streams.NumberedFiles, snapshot: Snapshot) -> None:
        self._files, self._snapshot = files, snapshot
        self._last = files.last()
        self.current = self._read(self._last)

    @property
    def previous(self) -> Tracked | None:
        """The entry that the current one is compared with."""
        return None if self.current is None else self._read(self._number_before())

    def _number_before(self) -> int:
        previous = self.current.previous if self.current is not None else None
        return self._last - 1 if previous is None else previous

    def _read(self, number: int) -> Tracked | None:
        if number < 0:
            return None
        where, table = f"{self._files.folder}/{number}", self._snapshot.table
        try:
            form, _, text = self._files.read(number).partition(b"\n")
            fields = orjson.loads(text)
            configuration, protocol = fields.get("tableConfigurations"), fields.get("protocolJson")
            newest, partitions = self._snapshot.metadata, orjson.loads(fields["partitionSchemaJson"])["fields"]
            columns = {"schemaString": str(fields["dataSchemaJson"]), "partitionColumns": [f["name"] for f in partitions]}
            given = columns if configuration is None else {**columns, "configuration": configuration}
            metadata = action_json.metadata_from({**action_json.metadata_json(newest), "id": str(fields["tableId"]), **given})
            shown = self._snapshot.protocol if protocol is None else action_json.protocol_from(orjson.loads(protocol)["protocol"])
            found = Tracked(int(fields["deltaCommitVersion"]), metadata, shown, str(fields["sourceMetadataPath"]), fields.get("previousMetadataSeqNum"))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            condition = named("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED", location=self._files.folder)
            raise InvalidInput(f"{where} is no entry of a stream's schema log: choose another schemaTrackingLocation", table=table, condition=condition) from e
        if form != _FORM:
            raise InvalidInput(f"{where} has the form {form!r}, and this version reads {_FORM!r}: choose another schemaTrackingLocation", table=table)
        if metadata.id != newest.id:
            raise InvalidInput(
                f"{where} is of the table with the id {metadata.id}, and the table here has the id {newest.id}: choose another schemaTrackingLocation",
                table=table,
                condition=named("DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID", persistedId=metadata.id, tableId=newest.id),
            )
        return found

    def add(self, entry: Tracked, *, instead: bool = False) -> None:
        """Keeps an entry; `instead`: in the place of the current one, in comparisons.  Raises InvalidInput where another source writes here."""
        if self.current is not None and instead:
            entry = replace(entry, previous=self._number_before())
        if self._last >= 0 and entry.text() == self._files.read(self._last):
            return
        if not self._files.add(self._last + 1, entry.text()):
            raise InvalidInput(
                f"Another stream writes into {self._files.folder}: give each source a schemaTrackingLocation or streamingSourceTrackingId of its own",
                table=self._snapshot.table,
                condition=named("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT", loc=self._files.folder, table=self._snapshot.table),
            )
        self._last, self.current = self._last + 1, entry

    def merge(self, log: TableLog, newest: int) -> None:
        """Goes on to the last of the changes that follow the current entry with no file between them: one stop for them all."""
        if self.current is None:
            return
        merged = self.current
        for version in range(self.current.version, newest + 1):
            commit = log.read_commit(version)  # None where the log was cleaned up since
            if commit is None or commit.adds or commit.removes or commit.cdc or (commit.metadata is None and commit.protocol is None):
                break
            merged = replace(merged, version=version, metadata=commit.metadata or merged.metadata, protocol=commit.protocol or merged.protocol)
        if merged.version != self.current.version:
            self.add(merged, instead=True)


def differs(metadata: Metadata | None, protocol: Protocol | None, shown: Snapshot) -> bool:
    """Whether columns, partitions, Delta's properties or the protocol are others than those that a stream reads with."""
    if protocol is not None and protocol != shown.protocol:
        return True
    if metadata is None:
        return False
    one, other = ({k: v for k, v in m.configuration.items() if k.startswith("delta.")} for m in (metadata, shown.metadata))
    fields, own = (_fields(orjson.loads(m.schema_string)) for m in (metadata, shown.metadata))
    return fields != own or metadata.partition_columns != shown.metadata.partition_columns or one != other


def _fields(node: Any) -> Any:
    """A schema's JSON without what only writers need."""
    if isinstance(node, dict):
        return {k: _fields(v) for k, v in node.items() if not k.startswith(_INTERNAL)}
    return [_fields(v) for v in node] if isinstance(node, list) else node


def evolved(entry: Tracked, table: str) -> SchemaMismatch:
    """The error by which a stream stops after its log got a new entry."""
    schema = ", ".join(f"{f.name} {type_name(f.type, sql=True)}" for f in parse_schema(entry.metadata.schema_string).fields)
    return SchemaMismatch(
        f"The columns, properties or protocol of the table change with version {entry.version}, and all before it is read. Start the query again: it goes on with "
        f"the columns {schema}",
        table=table,
        version=entry.version,
        condition=named(
            "DELTA_STREAMING_METADATA_EVOLUTION", schema=schema, config=dict(entry.metadata.configuration), protocol=action_json.protocol_json(entry.protocol)
        ),
    )


def check_allowed(log: TrackingLog, options: StreamOptions, settings: Mapping[str, str], source: str, table: str) -> None:
    """Raises where the columns changed otherwise than by new ones, and neither an option nor a setting lets the stream go on.  SchemaMismatch."""
    now, before = log.current, log.previous
    if now is None or before is None:
        return
    found = dict(_changes(before, now, table))
    key = f"ckpt_{_java_hash(source)}"

    def is_allowed(kind: str) -> bool:
        names = _ALLOWED_BY[kind]
        allowances = [(options.allowed.get(f"allowSourceColumn{kind}"), True)]
        allowances += [(settings.get(name), False) for name in names] + [(settings.get(f"{name}.{key}"), True) for name in names]
        return any(text is not None and (text.lower() == "always" or (once and text == str(now.version))) for text, once in allowances)

    blocked = [kind for kind in _KINDS if kind in found and not is_allowed(kind)]
    if not blocked:
        return
    names = [f"allowSourceColumn{kind}" for kind in blocked]
    raise SchemaMismatch(
        f"Between versions {before.version} and {now.version} the columns changed: {'; '.join(found.values())}. Change what reads the stream where it needs to, "
        f'then let the stream go on: by the option{"s" if names[1:] else ""} {" and ".join(names)}, "{now.version}" for this change or "always", or by the '
        f"settings of these names that begin with {PREFIX}streaming. (and end with .{key} for this stream alone)",
        table=table,
        version=now.version,
        condition=named(
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
            opType=" AND ".join(_KINDS[kind] for kind in found),
            previousSchemaChangeVersion=before.version,
            currentSchemaChangeVersion=now.version,
            columnChangeDetails="; ".join(found.values()),
        ),
    )


def _changes(before: Tracked, now: Tracked, table: str) -> Iterator[tuple[str, str]]:
    """The kinds of changes that are not additive, each with its columns.  Raises SchemaMismatch for a type that was not widened."""
    old, new = (dict(_nodes(parse_schema(t.metadata.schema_string, table))) for t in (before, now))
    both = [path for path in old if path in new]
    if renamed := [f"{old[p][0]} to {new[p][0]}" for p in both if old[p][0].rpartition(".")[2] != new[p][0].rpartition(".")[2]]:
        yield "Rename", f"renamed {', '.join(renamed)}"
    if gone := [old[p][0] for p in old if p not in new]:
        yield "Drop", f"dropped {', '.join(gone)}"
    widened = []
    for path in both:
        (name, one), (_, other) = old[path], new[path]
        if one == other or (type(one) is type(other) and isinstance(one, (StructType, ArrayType, MapType))):
            continue
        widened.append(f"{name} from {type_name(one, sql=True)} to {type_name(other, sql=True)}")
        if not may_become(one, other):
            raise SchemaMismatch(
                f"Version {now.version} has another type of column {widened[-1]}, which is not wider: start the query with another checkpoint",
                table=table,
                version=now.version,
                condition=named("DELTA_SCHEMA_CHANGED_WITH_VERSION"),
            )
    if widened:
        yield "TypeChange", f"widened {', '.join(widened)}"


def _nodes(type_: DataType, place: tuple[str, ...] = (), name: str = "") -> Iterator[tuple[tuple[str, ...], tuple[str, DataType]]]:
    """Every field at any depth, and what is in arrays and maps: the path of physical names, with the logical name and the type."""
    of_struct = [(f.physical_name, f.name, f.type) for f in type_.fields] if isinstance(type_, StructType) else []
    inner = [*of_struct, *((part, part, held) for part, held in parts(type_).items())]
    for physical, own, within in inner:
        path, full = (*place, physical), f"{name}.{own}" if name else own
        yield path, (full, within)
        yield from _nodes(within, path, full)


def _java_hash(text: str) -> int:
    """Java's hash of a text, by which delta-spark names a source in settings."""
    units, value = memoryview(text.encode("utf-16-le")).cast("H"), 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
