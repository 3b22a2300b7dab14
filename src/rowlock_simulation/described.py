"""Judges what a commit records about itself: its level of isolation, whether it is a blind append, whether rows have the ids that they had, and what its checksum is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowlock.protocol.actions import Commit
from rowlock.protocol.properties import CHECKSUMS, MANIFESTS
from rowlock_simulation.actions import Action
from rowlock_simulation.altered import Defined
from rowlock_simulation.arrow_files import has_structs
from rowlock_simulation.definition import supports
from rowlock_simulation.history import History
from rowlock_simulation.memory.sql.script import Append, Optimize

_LEVELS = {"serializable": "Serializable", "write_serializable": "WriteSerializable", "snapshot": "SnapshotIsolation"}
_PRESERVED, PLACED = "delta.rowTracking.preserved", "compactedInto"
_STRUCTS = "delta.checkpoint.writeStatsAsStruct"
_SUSPENDED = "delta.rowTrackingSuspended"


def misdescribed(commit: Commit, action: Action, before: Defined) -> Iterator[str]:
    """What `commitInfo` says other than is true of a commit of one action, as phrases."""
    info = commit.info.raw if commit.info is not None else {}
    if action.kind == "statements":
        moves = all(isinstance(s, Optimize) for s in action.scripts)
        level = "snapshot" if moves or action.is_lockless else action.options.get("isolation", "serializable")
        if info.get("isolationLevel") != _LEVELS[level]:
            yield f"its level is {info.get('isolationLevel')}, and not {_LEVELS[level]}"
        blind = all(isinstance(s, Append) for s in action.scripts) and not commit.removes and commit.metadata is None
        if info.get("isBlindAppend") is not blind:
            yield f"isBlindAppend is {info.get('isBlindAppend')}"
    if action.kind != "foreign":
        tracked = supports(before.protocol, "rowTracking") and not before.is_on(_SUSPENDED)
        preserved = (info.get("tags") or {}).get(_PRESERVED)
        if (preserved is not None) != tracked or (preserved == "false" and before.is_on("delta.enableRowTracking")):
            yield f"{_PRESERVED} is {preserved}, where row tracking is {'assigned' if tracked else 'off'}"
    if commit.metadata == before.metadata and action.kind not in ("restore", "clone"):
        yield "it has the definition again that there was"
    if any(remove.data_change and PLACED in (remove.tags or {}) for remove in commit.removes):
        yield "a file whose rows changed says where they moved"


def unasked(history: History, versions: Sequence[Defined]) -> list[str]:
    """The first file of each kind that was written although no version of the table asks for it."""
    asked = {k for d in versions for k, v in d.metadata.configuration.items() if v == "true"}
    wrong = {
        "a checksum": [] if CHECKSUMS in asked else [k for k in history.objects if k.endswith(".crc")],
        "a manifest": [] if MANIFESTS in asked else [k for k in history.objects if k.startswith("_symlink_format_manifest")],
        "statistics as structs": []
        if _STRUCTS in asked
        else [k for k, data in history.objects.items() if ".checkpoint." in k and k.endswith(".parquet") and has_structs(data)],
    }
    return [f"{what}: {min(keys)} was written, and no version asks for it" for what, keys in wrong.items() if keys]
