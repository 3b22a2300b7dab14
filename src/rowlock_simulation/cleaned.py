"""Cleans the log up after a schedule with a night: all that is expired goes, and nothing else."""

from __future__ import annotations

from rowlock import clock
from rowlock.log.checkpoint_reader import sidecars_of
from rowlock.log.cleanup import clean_up, horizon_ms
from rowlock.log.replay import read_commit
from rowlock.log.segment import complete_checkpoints, list_log
from rowlock.log.table_log import TableLog
from rowlock.protocol import commits
from rowlock.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile
from rowlock.transaction.transaction import Table
from rowlock_simulation.responses import Folded

_OF_ANOTHER = f"{LOG_DIRECTORY}/{0:020}.checkpoint.of-another-engine"
_DAY_MS, _LATER_S, _DAYS_LATER_S = 86_400_000, 120, 3 * 86_400


def badly_cleaned(table: Table, folded: Folded) -> list[str]:
    """What is wrong with the log after a checkpoint and cleanups, without other actors; the newest version must read as before."""
    head, store = table.refresh(), table.state.store
    if head.properties.protected_before:
        return []  # then not only times count
    with_sidecars = next(iter(store.list(SIDECAR_DIRECTORY)), None) is not None
    clock.sleep(_DAYS_LATER_S if with_sidecars else _LATER_S)  # what was committed last is not within the minute that is always spared
    table.state.log.write_checkpoint(head)
    before, horizon = list_log(store), (store.modified_ms(LAST_CHECKPOINT) or 0) - head.properties.log_retention_ms
    horizon -= horizon % _DAY_MS
    first = commits.first_version(head.metadata.configuration)
    young = {v for f in before if f.kind == "commit" and first is not None and (v := f.version) >= first and _stated_ms(table, v) > horizon}
    oldest = _oldest_needed(before, horizon, young)
    sidecars, strange = {m.key for m in store.list(SIDECAR_DIRECTORY)}, head.version % 2 == 1
    if strange:  # a checkpoint of another engine, under a name of its own, may name any sidecar
        store.put(_OF_ANOTHER, b"")
    while clean_up(store, head):
        pass
    left, there = list_log(store), {m.key: m.modified_ms for m in store.list(SIDECAR_DIRECTORY)}
    wrong = [f"cleanup: {f.key} is left, and version {oldest} is the oldest that is needed" for f in left if f.version < oldest]
    wrong += [f"cleanup: {f.key} is gone, and version {oldest} is the oldest that is needed" for f in before if f.version >= oldest and f not in left]
    named = {key for checkpoint in complete_checkpoints(left) for key in sidecars_of(store, checkpoint)}
    if strange or not named <= there.keys():
        wrong += [f"cleanup: {key} is gone, and a checkpoint may name it" for key in ((sidecars if strange else named) - there.keys())]
    elif any(f.is_checkpoint for f in before if f not in left):
        until_ms = horizon_ms(store.modified_ms(LAST_CHECKPOINT) or 0, 0) - _DAY_MS
        wrong += [f"cleanup: {key} is left, and no checkpoint names it" for key, at_ms in there.items() if key not in named and at_ms < until_ms]
    return wrong[:3] or [f"after a cleanup: {text}" for text in folded.differences(TableLog(store).latest())]


def _stated_ms(table: Table, version: int) -> int:
    """The in-commit timestamp of a version of a table that has them, which a clock that was ahead may have made."""
    commit = read_commit(table.state.store, version)
    assert commit is not None and commit.info is not None and commit.info.timestamp_ms is not None
    return commit.info.timestamp_ms


def _oldest_needed(files: list[LogFile], horizon: int, young: set[int]) -> int:
    """The newest version with a checkpoint all of whose commits before it are as old as the horizon, by their files and, except the `young`, by themselves; 0 if there is none."""
    past = set[int]()
    for file in sorted((f for f in files if f.kind == "commit"), key=lambda f: f.version):
        if file.modified_ms > horizon or file.version in young:
            break
        past.add(file.version)
    return max((c[0].version for c in complete_checkpoints(files) if c[0].version in past), default=0)
