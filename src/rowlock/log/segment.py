"""Log segments: the files that make up a version, that is the newest complete checkpoint and the commits after it.

`_last_checkpoint` is only a hint.  A multi-part checkpoint with missing parts is ignored, as the protocol asks;
a missing commit raises CorruptLog (I9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowlock.conditions import Condition, named
from rowlock.exceptions import CorruptLog, TableNotFound, VersionNotFound
from rowlock.protocol import names
from rowlock.protocol.names import LogFile
from rowlock.storage.store import ObjectStore, json_object


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of one version: `checkpoint` is one file, all parts in order, or empty; `commits` follow it without a gap."""

    version: int
    checkpoint: tuple[LogFile, ...]
    commits: tuple[LogFile, ...]
    last_commit: LogFile | None
    """The commit file of `version`, if it still exists."""
    has_checksum: bool = False
    """Whether there is a checksum of `version`."""


def read_hint(store: ObjectStore) -> int | None:
    """The version that `_last_checkpoint` names; None if it does not exist or cannot be parsed."""
    version = (json_object(store, names.LAST_CHECKPOINT) or {}).get("version")
    return version if isinstance(version, int) and version >= 0 else None


def list_log(store: ObjectStore, from_version: int = 0) -> list[LogFile]:
    """The files of the log from a version on, sorted by version and name."""
    start = names.listing_start(from_version) if from_version else None
    listed = store.list(names.LOG_DIRECTORY, start_after=start)
    files = [f for meta in listed if (f := names.parse(meta.key, size_bytes=meta.size_bytes, modified_ms=meta.modified_ms)) is not None]
    return sorted(files, key=lambda f: (f.version, f.key))


def no_table(place: str, condition: Condition | None = None) -> TableNotFound:
    """The error for a place without a log, by default with the condition that Delta has for it."""
    condition = condition or named("DELTA_MISSING_DELTA_TABLE", tableName=f"`{place}`")
    text = "there is no Delta table here: correct the path, or create the table (rowlock.append and rowlock.write do)"
    return TableNotFound(text, table=place, condition=condition)


def list_table(store: ObjectStore) -> list[LogFile]:
    """The files of the whole log, as `list_log` sorts them.  Raises TableNotFound where none is a commit or a checkpoint."""
    files = list_log(store)
    if not any(f.kind == "commit" or f.is_checkpoint for f in files):
        raise no_table(store.root)
    return files


def find_segment(store: ObjectStore, version: int | None = None) -> Segment:
    """The segment of a version, by default the newest; raises TableNotFound, VersionNotFound or CorruptLog."""
    hint = read_hint(store)
    if hint is not None and (version is None or hint <= version):
        files = list_log(store, hint)
        if complete_checkpoints(f for f in files if version is None or f.version <= version):
            return _listed_or_found(store, files, version)
    files = list_log(store)
    if not any(f.kind == "commit" or f.is_checkpoint for f in files):
        first = names.commit_key(0)  # a listing may not show a table that was just created
        size = store.head(first)
        if size is None or (file := names.parse(first, size_bytes=size)) is None:
            raise no_table(store.root)
        files = [file]
    return _listed_or_found(store, files, version)


def _listed_or_found(store: ObjectStore, files: list[LogFile], version: int | None) -> Segment:
    """The segment of listed files; a commit that the listing lacks is looked up by its key, since a store may list a later one first."""
    while True:
        try:
            return segment_of(files, store.root, version)
        except CorruptLog as damage:
            if damage.version is None or (size := store.head(names.commit_key(damage.version))) is None:
                raise
            file = names.parse(names.commit_key(damage.version), size_bytes=size)
            if file is None:
                raise
            files = sorted([*files, file], key=lambda f: (f.version, f.key))


def newest_checkpoint(store: ObjectStore, through: int) -> tuple[LogFile, ...]:
    """The files of the newest complete checkpoint at or before a version; () if there is none."""
    hint = read_hint(store)
    files = list_log(store, hint) if hint is not None and hint <= through else []
    complete = complete_checkpoints(f for f in files if f.version <= through) or complete_checkpoints(f for f in list_log(store) if f.version <= through)
    return complete[-1] if complete else ()


def complete_checkpoints(files: Iterable[LogFile]) -> list[tuple[LogFile, ...]]:
    """Every checkpoint whose parts are all present, oldest first; within a version, single-file ones last."""
    out: list[tuple[LogFile, ...]] = []
    parts: dict[tuple[int, int], list[LogFile]] = {}
    for f in files:
        if f.kind == "multipart":
            parts.setdefault((f.version, f.parts), []).append(f)
        elif f.is_checkpoint and f.size_bytes > 0:
            out.append((f,))
    for (_, count), group in parts.items():
        if sorted(f.part for f in group) == list(range(1, count + 1)):
            out.append(tuple(sorted(group, key=lambda f: f.part)))
    rank = {"multipart": 0, "checkpoint": 1, "v2_checkpoint": 2}
    return sorted(out, key=lambda c: (c[0].version, rank[c[0].kind], c[0].key))


def segment_of(files: Sequence[LogFile], table: str, version: int | None = None) -> Segment:
    """The segment of a version (by default the newest) among listed files; raises VersionNotFound or CorruptLog."""
    usable = [f for f in files if version is None or f.version <= version]
    checkpoints = complete_checkpoints(usable)
    checkpoint = checkpoints[-1] if checkpoints else ()
    base = checkpoint[0].version if checkpoint else -1
    commits = [f for f in usable if f.kind == "commit"]
    later = [f for f in commits if f.version > base]
    newest = later[-1].version if later else base
    _check_contiguous(later, base, newest if version is None else version, table, files)
    last = next((f for f in reversed(commits) if f.version == newest), None)
    has_checksum = any(f.kind == "checksum" and f.version == newest for f in usable)
    return Segment(newest, checkpoint, tuple(later), last, has_checksum)


def _no_version(wanted: int, oldest: int, newest: int) -> Condition:
    return named("DELTA_VERSION_NOT_FOUND", userVersion=wanted, earliest=oldest, latest=newest)


def _check_contiguous(later: Sequence[LogFile], base: int, wanted: int, table: str, files: Sequence[LogFile]) -> None:
    expected = next((v for v, f in enumerate(later, base + 1) if f.version != v), base + 1 + len(later))
    if expected > wanted >= 0:
        return
    known = [f.version for f in files if f.kind == "commit"]
    if not known or wanted > max(known) or wanted < 0:
        newest = max(known, default=base)
        text = f"there is no version {wanted}; the newest version is {newest}"
        raise VersionNotFound(text, table=table, version=wanted, condition=_no_version(wanted, min(known, default=0), newest))
    if base < 0 and expected == 0:
        oldest = min([c[0].version for c in complete_checkpoints(files)], default=None)
        if oldest is not None and wanted < oldest:
            text = f"version {wanted} can no longer be built: the log was cleaned up; the oldest version is {oldest}"
            raise VersionNotFound(text, table=table, version=wanted, condition=_no_version(wanted, oldest, files[-1].version))
    raise CorruptLog(f"commit {expected} is missing from the log, although later commits exist", table=table, version=expected, file=names.commit_key(expected))
