"""Conversion of single actions to and from their JSON objects.

Owns the field names of the log.  Unknown fields are dropped; unknown actions are handled by the caller.  A number or a truth value where a text
belongs is taken for its text, as in delta-spark.  A field that is required and missing, or that holds a value of another kind than its own, raises
KeyError, TypeError or ValueError, which `commits` turns into CorruptLog.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.column_mapping import is_mapped, unmapped
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor, checked_kind

Json = dict[str, Any]
NO_COLUMNS = '{"type":"struct","fields":[]}'


def _text(raw: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := raw[name], str):
        raise TypeError(f"{name} is {value!r}, not a text")
    return value


def _text_or_none(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _text_map(raw: Mapping[str, Any], name: str) -> Json | None:
    value = _mapping(raw, name)
    return value if value is None or all(type(v) is str for v in value.values()) else string_values(value, nulls=True)


def _mapping(raw: Mapping[str, Any], name: str) -> Json | None:
    if (value := raw.get(name)) is not None and not isinstance(value, dict):
        raise TypeError(f"{name} is {value!r}, not a map")
    return value


def _texts(raw: Mapping[str, Any], name: str) -> list[str] | None:
    if (value := raw.get(name)) is not None and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        raise TypeError(f"{name} is {value!r}, not a list of texts")
    return value


def _number(raw: Mapping[str, Any], name: str) -> int:
    value = raw[name]
    if (isinstance(value, float) and not value.is_integer()) or not -(1 << 63) <= int(value) < 1 << 63:
        raise ValueError(f"{name} is {value!r}, not a whole number of 64 bits")
    return int(value)


def _number_or_none(raw: Mapping[str, Any], name: str) -> int | None:
    return None if raw.get(name) is None else _number(raw, name)


def vector_from(raw: Mapping[str, Any] | None, root: str | None = None) -> DeletionVectorDescriptor | None:
    """The deletion vector descriptor of a JSON object; None for null or an empty object."""
    if not raw:
        return None
    place = checked_kind(_text(raw, "storageType"), root), _text(raw, "pathOrInlineDv"), _number_or_none(raw, "offset")
    return DeletionVectorDescriptor(*place, _number(raw, "sizeInBytes"), _number(raw, "cardinality"))


def vector_json(vector: DeletionVectorDescriptor) -> Json:
    """The JSON object of a deletion vector descriptor."""
    placed = {"storageType": vector.storage_type, "pathOrInlineDv": vector.path_or_inline_dv, "offset": vector.offset}
    return _without_nulls({**placed, "sizeInBytes": vector.size_bytes, "cardinality": vector.cardinality})


def add_from(raw: Json, root: str | None = None) -> AddFile:
    """The `add` action of a JSON object, for the table at `root`."""
    path, log_path = paths.decode_with_spelling(_text(raw, "path"), root)
    return AddFile(
        path,
        _text_map(raw, "partitionValues") or {},
        _number(raw, "size"),
        _number_or_none(raw, "modificationTime") or 0,
        bool(raw.get("dataChange", True)),
        _text_or_none(raw, "stats"),
        vector_from(_mapping(raw, "deletionVector"), root),
        _text_map(raw, "tags"),
        _number_or_none(raw, "baseRowId"),
        _number_or_none(raw, "defaultRowCommitVersion"),
        _text_or_none(raw, "clusteringProvider"),
        log_path,
    )


def add_json(add: AddFile) -> Json:
    """The JSON object of an `add` action."""
    fields = {
        "path": add.log_path or paths.encode(add.path),
        "partitionValues": dict(add.partition_values),
        "size": add.size_bytes,
        "modificationTime": add.modification_time_ms,
        "dataChange": add.data_change,
        "stats": add.stats,
    }
    return _without_nulls({**fields, **_of_file(add), "clusteringProvider": add.clustering_provider})


def remove_from(raw: Json, root: str | None = None) -> RemoveFile:
    """The `remove` action of a JSON object, for the table at `root`."""
    path, log_path = paths.decode_with_spelling(_text(raw, "path"), root)
    return RemoveFile(
        path=path,
        deletion_timestamp_ms=_number_or_none(raw, "deletionTimestamp"),
        data_change=bool(raw.get("dataChange", True)),
        extended_file_metadata=None if (extended := raw.get("extendedFileMetadata")) is None else bool(extended),
        partition_values=_text_map(raw, "partitionValues"),
        size_bytes=_number_or_none(raw, "size"),
        deletion_vector=vector_from(_mapping(raw, "deletionVector"), root),
        stats=_text_or_none(raw, "stats"),
        tags=_text_map(raw, "tags"),
        base_row_id=_number_or_none(raw, "baseRowId"),
        default_row_commit_version=_number_or_none(raw, "defaultRowCommitVersion"),
        log_path=log_path,
    )


def remove_json(remove: RemoveFile) -> Json:
    """The JSON object of a `remove` action."""
    fields = {
        "path": remove.log_path or paths.encode(remove.path),
        "deletionTimestamp": remove.deletion_timestamp_ms,
        "dataChange": remove.data_change,
        "extendedFileMetadata": remove.extended_file_metadata,
        "partitionValues": None if remove.partition_values is None else dict(remove.partition_values),
        "size": remove.size_bytes,
        "stats": remove.stats,
    }
    return _without_nulls({**fields, **_of_file(remove)})


def _of_file(file: AddFile | RemoveFile) -> Json:
    """The fields that both actions on files have at their end."""
    return {
        "tags": None if file.tags is None else string_values(file.tags),
        "deletionVector": None if file.deletion_vector is None else vector_json(file.deletion_vector),
        "baseRowId": file.base_row_id,
        "defaultRowCommitVersion": file.default_row_commit_version,
    }


def metadata_from(raw: Json) -> Metadata:
    """The `metaData` action of a JSON object."""
    form = _mapping(raw, "format") or {}
    found = Metadata(
        id=_text(raw, "id"),
        schema_string=_text(raw, "schemaString") if raw.get("schemaString") else NO_COLUMNS,  # a table that was created without columns
        partition_columns=tuple(_texts(raw, "partitionColumns") or ()),
        configuration=string_values(_mapping(raw, "configuration") or {}),
        name=_text_or_none(raw, "name"),
        description=_text_or_none(raw, "description"),
        format_provider=_text_or_none(form, "provider") or "parquet",
        format_options=string_values(_mapping(form, "options") or {}),
        created_time_ms=_number_or_none(raw, "createdTime"),
    )
    return found if is_mapped(found.configuration) else unmapped(found)


def metadata_json(metadata: Metadata) -> Json:
    """The JSON object of a `metaData` action."""
    fields = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.format_provider, "options": dict(metadata.format_options)},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": string_values(metadata.configuration),
        "createdTime": metadata.created_time_ms,
    }
    return _without_nulls(fields)


def _without_nulls(fields: Json) -> Json:
    """The fields without those that are null, which an action leaves out."""
    return {name: value for name, value in fields.items() if value is not None}


def protocol_from(raw: Json) -> Protocol:
    """The `protocol` action of a JSON object.  An empty list of features below reader version 3 and writer version 7 is none: delta-spark refuses it there."""
    reader, writer = frozenset(_texts(raw, "readerFeatures") or ()), frozenset(_texts(raw, "writerFeatures") or ())
    versions = _number(raw, "minReaderVersion"), _number(raw, "minWriterVersion")
    return Protocol(*versions, reader if reader or versions[0] >= 3 else None, writer if writer or versions[1] >= 7 else None)


def protocol_json(protocol: Protocol) -> Json:
    """The JSON object of a `protocol` action."""
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    versions = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    return versions | {name: sorted(listed) for name, listed in features.items() if listed is not None}


def txn_from(raw: Json) -> SetTransaction:
    """The `txn` action of a JSON object."""
    return SetTransaction(_text(raw, "appId"), _number(raw, "version"), _number_or_none(raw, "lastUpdated"))


def txn_json(txn: SetTransaction) -> Json:
    """The JSON object of a `txn` action."""
    return _without_nulls({"appId": txn.app_id, "version": txn.version, "lastUpdated": txn.last_updated_ms})


def domain_from(raw: Json) -> DomainMetadata:
    """The `domainMetadata` action of a JSON object."""
    return DomainMetadata(_text(raw, "domain"), _text(raw, "configuration") if raw.get("configuration") else "", bool(raw.get("removed")))


def domain_json(domain: DomainMetadata) -> Json:
    """The JSON object of a `domainMetadata` action."""
    return {"domain": domain.domain, "configuration": domain.configuration, "removed": domain.removed}


def string_values(values: Mapping[str, Any], *, nulls: bool = False) -> dict[str, Any]:
    """The mapping with every value as text: other engines' DESCRIBE HISTORY fails on a nested value.  Without `nulls` those are left out."""
    as_text = {key: value if value is None or isinstance(value, str) else orjson.dumps(value).decode() for key, value in values.items()}
    return {key: text for key, text in as_text.items() if nulls or text is not None}
