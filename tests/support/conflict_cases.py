"""The peers' conflict cases, fed straight to the rules: setup, reads, winner, ours, and what must come of it.

A case is one JSON object of `conflict_cases.json`.  `unfit` says why a case is not for the rules (it
needs an engine, or is told in words); `judge` gives what the rules say.  Where the peers differ,
Rowlock has chosen, and `CHOICES` are its choices as code: each can be undone, so that a
case that depends on one is known by its outcome and not by its name.

Some actions are told in few words; `_spoken` knows those few.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from rowlock.conflict import rules
from rowlock.protocol import action_json
from rowlock.protocol.actions import Action, AddFile, Commit, CommitInfo, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.features import MAX_READER_VERSION, MAX_WRITER_VERSION
from rowlock.protocol.predicates import Predicate
from rowlock.protocol.properties import Isolation
from rowlock.protocol.schema import StructType, parse_schema
from support.conflict_filters import Filter, read_filter

Case = Mapping[str, Any]
Json = dict[str, Any]

CURRENT_PROTOCOL = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", "appendOnly", "invariants", "domainMetadata"}))
_INT_MAX = (1 << 31) - 1
_TYPES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_ISOLATION: Mapping[str, Isolation] = {"writeserializable": "write_serializable", "snapshotisolation": "snapshot", "serializable": "serializable"}
_READ_KINDS = frozenset({"filter", "wholeTable", "files", "txnVersion", "metadata"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case: `success`, `conflict` under a rule, or `error`; and the live paths after a success."""

    kind: str
    rule: str = ""
    files: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Delta's names for the conflict, the usual one first."""
        return _NAMES.get(self.rule, ())

    def __str__(self) -> str:
        return " ".join([self.kind, *self.names[:1]])


_NAMES: Mapping[str, tuple[str, ...]] = {
    "protocol": ("ProtocolChanged",),
    "metadata": ("MetadataChanged",),
    "domain": ("ConcurrentTransaction", "ConcurrentDomainMetadata"),
    "application": ("ConcurrentTransaction",),
    "added files": ("ConcurrentAppend",),
    "removed files": ("ConcurrentDeleteRead",),
    "removed by both": ("ConcurrentDeleteDelete",),
}
_ANY_CONFLICT = frozenset({"", "CommitConflict", "CommitFailed", "Conflict", "error"})
"""Names under which a peer reports any conflict."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A case in the terms of the rules.

    filters    one for each scan; None is the whole table
    read_ids   application ids whose version was read
    """

    protocol: Protocol
    metadata: Metadata
    schema: StructType
    live: tuple[AddFile, ...]
    winners: tuple[Commit, ...]
    ours: Commit
    filters: tuple[Filter | None, ...]
    read_files: frozenset[str]
    read_ids: frozenset[str]
    isolation: Isolation
    written_ids_count: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """`passed`: the outcome is what was expected, or what Rowlock chose; `chosen` then says which choices it rests on."""

    passed: bool
    expected: str
    outcome: Outcome
    chosen: tuple[str, ...] = ()


def _as_data_change(scene: Scene) -> Scene:
    changed = (
        replace(w, adds=tuple(replace(a, data_change=True) for a in w.adds), removes=tuple(replace(r, data_change=True) for r in w.removes))
        for w in scene.winners
    )
    return replace(scene, winners=tuple(changed))


def _without_statistics(scene: Scene) -> Scene:
    bare = (replace(w, adds=tuple(replace(a, stats=None) for a in w.adds)) for w in scene.winners)
    return replace(scene, winners=tuple(bare), live=tuple(replace(a, stats=None) for a in scene.live))


def _only_read_ids(scene: Scene) -> Scene:
    return replace(scene, written_ids_count=False)


CHOICES: tuple[tuple[str, Callable[[Scene], Scene]], ...] = (
    ("a removal with dataChange=false of a file that was read is no conflict", _as_data_change),
    ("statistics may prove that a file is outside what was read", _without_statistics),
    ("the same application id always conflicts", _only_read_ids),
)
"""What Rowlock chose where peers differ, and what undoes it.  (Of concurrent creations one wins: any two
commits of a protocol conflict, which no peer's rule contradicts; delta-rs creates again in its operation.)"""


def unfit(case: Case) -> str | None:
    """Why a case is not for the rules; None where it is."""
    if case.get("level") != "actions":
        return f"a case of level {case.get('level')}"
    for part in ("setup", "winning", "ours"):
        for n, action in enumerate(_flat(case.get(part) or [])):
            try:
                _actions(action, f"{part} {n}")
            except (KeyError, ValueError, TypeError, AttributeError):
                return f"{part} is told in words: {orjson.dumps(action).decode()}"
    for read in case.get("txn_reads") or []:
        if not isinstance(read, dict) or not read.keys() <= _READ_KINDS:
            return f"a read is told in words: {orjson.dumps(read).decode()}"
    return None


def judge(case: Case) -> Verdict:
    """What the rules say to a case, against what it expects."""
    scene = scene_of(case)
    outcome = decide(scene)
    undone = [(reason, decide(undo(scene))) for reason, undo in CHOICES]
    chosen = tuple(reason for reason, other in undone if (other.kind, other.rule) != (outcome.kind, outcome.rule))
    expected = " ".join(filter(None, (case["expected"], case.get("exception"))))
    passed = _agrees(outcome, case) or any(_agrees(other, case) for reason, other in undone if reason in chosen)
    return Verdict(passed, expected, outcome, chosen)


def _agrees(outcome: Outcome, case: Case) -> bool:
    if outcome.kind != case["expected"]:
        return False
    if outcome.kind == "conflict":
        name = (case.get("exception") or "").removesuffix("Exception")
        return name in _ANY_CONFLICT or name in outcome.names
    return "final_files" not in case or outcome.kind != "success" or outcome.files == frozenset(case["final_files"])


def decide(scene: Scene) -> Outcome:
    """The rules' answer."""
    for winner in scene.winners:
        if winner.protocol and (winner.protocol.min_reader_version > MAX_READER_VERSION or winner.protocol.min_writer_version > MAX_WRITER_VERSION):
            return Outcome("error", "unsupported protocol")
    found = rules.first_conflict(
        rules.RULES, reads_of(scene), list(scene.winners), rules.TableState(scene.protocol, scene.metadata, scene.schema, _matcher(scene))
    )
    if found is not None:
        return Outcome("conflict", found.rule)
    live = {a.path for a in scene.live}
    for commit in (*scene.winners, scene.ours):
        live = (live - {r.path for r in commit.removes}) | {a.path for a in commit.adds}
    return Outcome("success", files=frozenset(live))


def reads_of(scene: Scene) -> rules.Reads:
    """What ours has read and writes.  Without a change of data it is taken at snapshot isolation, as in Delta."""
    ours = scene.ours
    matched = {a.path for f in scene.filters for a in scene.live if f is None or f.may_match(a)}
    changes_data = any(a.data_change for a in ours.adds) or any(r.data_change for r in ours.removes)
    other_actions = ours.protocol or ours.metadata or ours.txns or rules.domains_of(ours.domains)
    return rules.Reads(
        predicates=tuple(None if f is None else f.predicate for f in scene.filters),
        files=frozenset(matched) | scene.read_files,
        removes=frozenset(r.path for r in ours.removes),
        changes_data=changes_data or bool(other_actions),
        app_ids=scene.read_ids | (frozenset(t.app_id for t in ours.txns) if scene.written_ids_count else frozenset()),
        isolation=scene.isolation,
        domains=rules.domains_of(ours.domains),
        changes_protocol=ours.protocol is not None,
        changes_metadata=ours.metadata is not None,
    )


def _matcher(scene: Scene) -> Callable[[Predicate | None, Sequence[AddFile]], Sequence[AddFile]]:
    filters = [f for f in scene.filters if f is not None]
    return lambda predicate, files: [a for a in files if predicate is None or any(f.may_match(a) for f in filters if f.predicate is predicate)]


def scene_of(case: Case) -> Scene:
    """A case in the terms of the rules; raises ValueError or KeyError where it is told in words."""
    setup = [a for n, raw in enumerate(case.get("setup") or []) for a in _actions(raw, f"setup {n}")]
    metadata = next((a for a in reversed(setup) if isinstance(a, Metadata)), None) or _metadata({}, "setup")
    schema, columns = parse_schema(metadata.schema_string), metadata.partition_columns
    live: dict[str, AddFile] = {}
    for action in setup:
        if isinstance(action, AddFile):
            live[action.path] = action
        elif isinstance(action, RemoveFile):
            live.pop(action.path, None)
    reads = case.get("txn_reads") or []
    filters = [None if r.get("wholeTable") else read_filter(r["filter"], schema, columns) for r in reads if r.get("wholeTable") or "filter" in r]
    return Scene(
        protocol=next((a for a in reversed(setup) if isinstance(a, Protocol)), CURRENT_PROTOCOL),
        metadata=metadata,
        schema=schema,
        live=tuple(live.values()),
        winners=tuple(_winners(case)),
        ours=_commit(0, [a for n, raw in enumerate(case.get("ours") or []) for a in _actions(raw, f"ours {n}")], None),
        filters=tuple(filters),
        read_files=frozenset(path for r in reads for path in ([r["files"]] if isinstance(r.get("files"), str) else r.get("files", ()))),
        read_ids=frozenset(r["txnVersion"] for r in reads if "txnVersion" in r),
        isolation=_isolation(case.get("isolation") or "", metadata),
    )


def _isolation(text: str, metadata: Metadata) -> Isolation:
    """The level that a case names; where it names the default, the table's property."""
    folded = text.lower()
    if "default" in folded:
        folded = metadata.configuration.get("delta.isolationLevel", folded).lower()
    return next((level for name, level in _ISOLATION.items() if name in folded), "serializable")


def _winners(case: Case) -> Iterable[Commit]:
    """Plain actions are one commit; each list in the list, and each action told in words, is a commit of its own."""
    winning: Sequence[Any] = case.get("winning") or []
    apart = any(isinstance(w, list | str) for w in winning)
    groups = [w if isinstance(w, list) else [w] for w in winning] if apart else [winning]
    reads = any("filter" in r or "wholeTable" in r or "files" in r for r in case.get("winning_reads") or [])
    version = 0
    for n, group in enumerate(groups):
        stated: Json = next((raw["commitInfo"] for raw in group if isinstance(raw, dict) and "commitInfo" in raw), {})
        for actions in _commits_of(group, f"winning {n}"):
            version += 1
            only_adds = bool(actions) and all(isinstance(a, AddFile | SetTransaction) for a in actions)
            yield _commit(version, actions, CommitInfo({"isBlindAppend": only_adds and not reads, **stated}))


def _commits_of(group: Sequence[Any], place: str) -> Iterable[list[Action]]:
    if len(group) == 1 and isinstance(group[0], str) and (several := re.fullmatch(r"(\d+) (append)s", group[0])):
        return [_actions(several[2], f"{place} {n}") for n in range(int(several[1]))]
    return [[a for n, raw in enumerate(group) for a in _actions(raw, f"{place} {n}")]]


def _commit(version: int, actions: Sequence[Action], info: CommitInfo | None) -> Commit:
    def of(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(a for a in actions if isinstance(a, kind))

    return Commit(
        version=version,
        info=info,
        protocol=next(iter(of(Protocol)), None),
        metadata=next(iter(of(Metadata)), None),
        adds=of(AddFile),
        removes=of(RemoveFile),
        txns=of(SetTransaction),
        domains=of(DomainMetadata),
    )


def _flat(actions: Iterable[Any]) -> Iterable[Any]:
    for action in actions:
        yield from action if isinstance(action, list) else [action]


def _actions(raw: Any, place: str) -> list[Action]:
    """The actions that one entry is; raises KeyError or ValueError for one that says something else."""
    if isinstance(raw, str):
        return _spoken(raw, place)
    out: list[Action] = []
    for name, body in raw.items():
        if name != "commitInfo":
            out.append(_READERS[name](body, place))
    return out


def _add(body: Json, place: str) -> AddFile:
    known: Json = {"size": 1, "modificationTime": 0, **body}
    known.pop("dv", None)  # the rules go by path
    return action_json.add_from({**known, "stats": _statistics(body.get("stats"))})


def _statistics(stats: Any) -> str | None:
    """Statistics as the log has them; `min.value` is the minimum of the column `value`."""
    if stats is None or isinstance(stats, str):
        return stats
    out: Json = {}
    for key, value in stats.items():
        head, _, column = key.partition(".")
        kind = _BOUNDS.get(head.lower())
        if kind is None or not column:
            out[key] = value
            continue
        into = out.setdefault(kind, {})
        *parents, leaf = column.split(".")
        for parent in parents:
            into = into.setdefault(parent, {})
        into[leaf] = value
    return orjson.dumps(out).decode()


_BOUNDS = {"min": "minValues", "minvalues": "minValues", "max": "maxValues", "maxvalues": "maxValues", "nullcount": "nullCount", "nulls": "nullCount"}


def _metadata(body: Json, place: str) -> Metadata:
    """Metadata whose id is its place: the peers make it with a new one each time."""
    raw = {k: v for k, v in body.items() if k != "schema"}
    schema = body.get("schema") or {}
    if "schemaString" not in raw:
        fields = [{"name": n, "type": _TYPES.get(t, t) if isinstance(t, str) else t, "nullable": True, "metadata": {}} for n, t in schema.items()]
        raw["schemaString"] = orjson.dumps({"type": "struct", "fields": fields}).decode()
    return action_json.metadata_from({"id": place, **raw})


def _protocol(body: Any, place: str) -> Protocol:
    if isinstance(body, str):
        if found := re.fullmatch(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)", body):
            return Protocol(int(found[1]), int(found[2]))
        if "INT_MAX" in body:
            return Protocol(_INT_MAX if "minReader" in body else 1, _INT_MAX if "minWriter" in body else 2)
        raise ValueError(body)
    if "minReaderVersion" in body or "minWriterVersion" in body:
        return action_json.protocol_from({"minReaderVersion": 1, "minWriterVersion": 2, **body})
    return CURRENT_PROTOCOL


def _domain(body: Json, place: str) -> DomainMetadata:
    configuration = body.get("configuration") or ""
    text = configuration if isinstance(configuration, str) else orjson.dumps(configuration).decode()
    return action_json.domain_from({**body, "configuration": text})


_READERS: Mapping[str, Callable[[Any, str], Action]] = {
    "add": _add,
    "remove": lambda body, place: action_json.remove_from(body),
    "metaData": _metadata,
    "protocol": _protocol,
    "txn": lambda body, place: action_json.txn_from({"version": 0, **body}),
    "domainMetadata": _domain,
}


def _spoken(words: str, place: str) -> list[Action]:
    """The few phrases that mean plain actions; raises ValueError for any other."""
    if words in ("empty", "no table", "table with rows", "table", "empty table") or re.fullmatch(r"\w+ supported", words):
        return []
    if found := re.fullmatch(r"files? ([\w.=/-]+(?:, *[\w.=/-]+)*)", words):
        return [_add({"path": p.strip()}, place) for p in found[1].split(",")]
    if found := re.fullmatch(r"(removed? )?(domain\w*|delta\.rowTracking)( removed)?", words):
        return [DomainMetadata(found[2], "", bool(found[1] or found[3]))]
    if re.fullmatch(r"(\d+ )?appends?", words):
        return [_add({"path": f"{place.replace(' ', '-')}.parquet"}, place)]
    if found := re.fullmatch(r"ADD COLUMN (\w+)", words):
        return [_metadata({"schema": {found[1]: "string"}}, place)]
    if words == "create table":
        return [CURRENT_PROTOCOL, _metadata({}, place)]
    raise ValueError(words)
