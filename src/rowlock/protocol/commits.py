"""Parses commit files into `Commit` values, serializes them, and gives them in-commit timestamps.

One JSON object per line, commitInfo first.  Unknown actions are ignored, as the protocol asks; everything
else that cannot be parsed is reported as damage (I9).  No path is added or removed twice (I4).

In-commit timestamps always increase, whatever clocks and file systems do; a table has them from the version that its two enablement
properties name, or else from its first version.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol import action_json, names, paths
from rowlock.protocol.actions import Action, AddCdcFile, AddFile, Commit, CommitInfo, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.properties import TableProperties

_FILES = ("add", "remove")
_PARSERS: dict[str, Callable[..., Any]] = {
    "commitInfo": lambda raw: CommitInfo({**raw}),
    "protocol": action_json.protocol_from,
    "metaData": action_json.metadata_from,
    "add": action_json.add_from,
    "remove": action_json.remove_from,
    "txn": action_json.txn_from,
    "domainMetadata": action_json.domain_from,
    "cdc": lambda raw: AddCdcFile({**raw}),
}
_STRING_MAPS = ("operationParameters", "operationMetrics", "tags")


def parse_commit(version: int, data: bytes, table: str | None = None, tag: str | None = None) -> Commit:
    """The commit that these bytes of a commit file hold, with the store's tag of it; raises CorruptLog naming table, version and file."""
    file = names.commit_key(version)
    found: dict[str, list[Any]] = {name: [] for name in _PARSERS}
    try:
        for line in filter(bytes.strip, data.split(b"\n")):
            for name, raw in orjson.loads(line).items():
                if raw is not None and name in _PARSERS:
                    found[name].append(_PARSERS[name](raw, table) if name in _FILES else _PARSERS[name](raw))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as e:
        raise CorruptLog(f"a line of the commit cannot be read: {type(e).__name__}: {e}", table=table, version=version, file=file) from e
    for name in ("protocol", "metaData"):
        if len(found[name]) > 1:
            raise CorruptLog(f"the commit holds {len(found[name])} {name} actions", table=table, version=version, file=file)
    commit = Commit(
        version=version,
        info=next(iter(found["commitInfo"]), None),
        protocol=next(iter(found["protocol"]), None),
        metadata=next(iter(found["metaData"]), None),
        adds=tuple(found["add"]),
        removes=tuple(found["remove"]),
        txns=tuple(found["txn"]),
        domains=tuple(found["domainMetadata"]),
        cdc=tuple(found["cdc"]),
        size_bytes=len(data),
        tag=tag,
    )
    if problem := file_problem(commit.adds, commit.removes):
        raise CorruptLog(problem, table=table, version=version, file=file)
    return commit


def file_problem(adds: Iterable[AddFile], removes: Iterable[RemoveFile]) -> str | None:
    """A message saying how the file actions of one commit violate I4; None if they do not."""
    added: dict[str, AddFile] = {}
    for add in adds:
        if (first := added.setdefault(add.path, add)) is not add:
            return f"the commit adds {add.path} twice{_spellings(first, add)}"
    removed: set[str] = set()
    for remove in removes:
        if remove.path in removed:
            return f"the commit removes {remove.path} twice"
        removed.add(remove.path)
        if (again := added.get(remove.path)) is not None and again.key == remove.key and again.log_path == remove.log_path:
            return f"the commit adds and removes {remove.path} with the same deletion vector, and readers disagree on what that means"
    return None


def _spellings(first: AddFile, second: AddFile) -> str:
    """How two adds of one file spell it, where they differ, and what to do."""
    a, b = (add.log_path or paths.encode(add.path) for add in (first, second))
    if a == b:
        return ""
    return (
        f", spelled {a} and {b}: engines that compare spellings, as delta-spark does, count its rows twice, others once.  "
        "Restore the version before with the engine that wrote this one, and write its rows again"
    )


def serialize_commit(
    info: CommitInfo,
    *actions: Action,
    protocol: Protocol | None = None,
    metadata: Metadata | None = None,
    adds: Iterable[AddFile] = (),
    removes: Iterable[RemoveFile] = (),
    txns: Iterable[SetTransaction] = (),
    domains: Iterable[DomainMetadata] = (),
    cdc: Iterable[AddCdcFile] = (),
) -> bytes:
    """The bytes of a commit file, commitInfo first; raises InvalidInput for actions that violate I4 or the protocol.

    Actions may be given in any order, positionally or by keyword; they are written in a fixed order.
    """
    given = [*actions, *(a for a in (protocol, metadata) if a is not None), *txns, *domains, *removes, *adds, *cdc]
    found: dict[type[Action], list[Any]] = {kind: [a for a in given if type(a) is kind] for kind in _WRITERS}
    if problem := _action_problem(found):
        raise InvalidInput(problem)
    lines: list[dict[str, Any]] = [{"commitInfo": _info_json(info)}]
    for kind, (name, to_json) in _WRITERS.items():
        lines += [{name: to_json(action)} for action in found[kind]]
    return b"\n".join(orjson.dumps(line) for line in lines) + b"\n"


_WRITERS: dict[type[Action], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    Protocol: ("protocol", action_json.protocol_json),
    Metadata: ("metaData", action_json.metadata_json),
    SetTransaction: ("txn", action_json.txn_json),
    DomainMetadata: ("domainMetadata", action_json.domain_json),
    RemoveFile: ("remove", action_json.remove_json),
    AddFile: ("add", action_json.add_json),
    AddCdcFile: ("cdc", lambda cdc: dict(cdc.raw)),
}


def _action_problem(found: dict[type[Action], list[Any]]) -> str | None:
    if len(found[Protocol]) > 1 or len(found[Metadata]) > 1:
        return "a commit may hold one protocol and one metaData"
    if len({t.app_id for t in found[SetTransaction]}) < len(found[SetTransaction]):
        return "a commit may hold one txn for each appId"
    if len({d.domain for d in found[DomainMetadata]}) < len(found[DomainMetadata]):
        return "a commit may hold one domainMetadata for each domain"
    return file_problem(found[AddFile], found[RemoveFile])


def _info_json(info: CommitInfo) -> dict[str, Any]:
    """The commitInfo as JSON, with only text in the maps in which other engines expect text."""
    raw = dict(info.raw)
    for name in _STRING_MAPS:
        if isinstance(raw.get(name), dict):
            raw[name] = action_json.string_values(raw[name], nulls=name == "operationParameters")
    if "userMetadata" in raw and not isinstance(raw["userMetadata"], (str, type(None))):
        raise InvalidInput(f"userMetadata must be a string, not {type(raw['userMetadata']).__name__}")
    return raw


ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def with_commit_timestamp(info: Mapping[str, Any], configuration: Mapping[str, str], last_ms: int | None) -> dict[str, Any]:
    """The commitInfo with an in-commit timestamp later than the head's; unchanged if the table has no in-commit timestamps.

    `last_ms` is the head's timestamp, None for the first commit of a table.  Computed again for every put.
    """
    if not TableProperties(configuration).in_commit_timestamps:
        return dict(info)
    at = info["timestamp"] if last_ms is None else max(info["timestamp"], last_ms + 1)
    return {"inCommitTimestamp": at, **info, "timestamp": at}


def first_version(configuration: Mapping[str, str]) -> int | None:
    """The first version whose commit has an in-commit timestamp; None if the table has none."""
    if not TableProperties(configuration).in_commit_timestamps:
        return None
    since = configuration.get(ENABLEMENT_VERSION, "0")
    return int(since) if since.isdigit() else 0


def with_enablement(before: Metadata, after: Metadata, version: int, timestamp_ms: int) -> Metadata:
    """The metadata of commit `version`, with the enablement properties if in-commit timestamps were not on from the first version."""
    had, has = (TableProperties(m.configuration).in_commit_timestamps for m in (before, after))
    if not has:
        return after
    ours = (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
    since = {k: before.configuration[k] for k in ours if k in before.configuration} if had else dict(zip(ours, (str(version), str(timestamp_ms)), strict=True))
    others = {k: v for k, v in after.configuration.items() if k not in ours}  # RESTORE may bring back old enablement properties
    return replace(after, configuration={**others, **since})
