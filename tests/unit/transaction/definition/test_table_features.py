"""Dropping features without an engine: what has to be gone first, what another writer brings back, and what becomes of the log (I3, I9)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import rowlock
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.exceptions import StatementRefused, UnsupportedFeature
from rowlock.maintenance.restore import restoration
from rowlock.protocol import row_tracking
from rowlock.protocol.feature_removal import with_properties
from rowlock.protocol.features import writer_features
from rowlock.protocol.properties import PROTECTION
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.protocol.session_settings import Settings
from rowlock.transaction.definition import creation, table_features
from rowlock.transaction.definition.head_commit import commit_from_head
from rowlock.transaction.definition.table_features import add_feature, drop_feature
from rowlock.transaction.state.call import calling
from rowlock.transaction.state.shared import SharedState
from support.appends import create, info, numbers, rows

PLAIN = {"appendOnly", "invariants"}


def made(folder: Path, **properties: str) -> SharedState:
    state = create(str(folder), StructField("id", PrimitiveType("long")), properties={"delta.enableDeletionVectors": "false", **properties})
    rowlock.append(str(folder), numbers(1, 2))
    return state


def no_rows(feature: str) -> None:
    """What a caller without an engine can do of the rows."""


def features(state: SharedState) -> set[str]:
    return set(writer_features(state.refresh().protocol))


def aged(folder: Path, days: float = 2) -> None:
    for file in (folder / "_delta_log").iterdir():
        at = file.stat().st_mtime - days * 86_400
        os.utime(file, (at, at))


def versions(folder: Path) -> list[int]:
    return sorted(int(f.name[:20]) for f in (folder / "_delta_log").glob("*.json"))


def condition_of(call: Callable[[], object]) -> str | None:
    with pytest.raises(StatementRefused) as e:
        call()
    assert e.value.condition is not None
    return e.value.condition.name


def test_a_guarded_feature_leaves_checkpoints_that_log_cleanup_keeps(tmp_path: Path) -> None:
    state = made(tmp_path, **{"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    rowlock.append(str(tmp_path), numbers(3))
    receipt = drop_feature(state, "V2CHECKPOINT", no_rows)
    assert features(state) == {*PLAIN, "checkpointProtection"}
    head = state.refresh()
    assert head.properties.protected_before == receipt.version == head.version
    log = {f.name for f in (tmp_path / "_delta_log").iterdir()}
    assert {f"{receipt.version - n:020}.checkpoint.parquet" for n in range(4)} <= log
    assert rows(str(tmp_path)) == [(1,), (2,), (3,)]
    restored = restoration(state.log.at(1), head, 0)
    assert restored is not None and restored.metadata is not None
    assert restored.metadata.configuration[PROTECTION] == str(receipt.version)  # the older version did not have it, and the log is the same
    drop = lambda: drop_feature(state, "checkpointProtection", no_rows, truncate_history=True)  # noqa: E731
    assert condition_of(drop) == "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"
    assert versions(tmp_path)[0] == 0
    aged(tmp_path)
    drop()
    assert features(state) == PLAIN
    assert versions(tmp_path)[0] >= receipt.version
    assert rows(str(tmp_path)) == [(1,), (2,), (3,)]


def test_checkpoint_protection_goes_with_the_history_alone(tmp_path: Path) -> None:
    state = made(tmp_path, **{"delta.feature.checkpointProtection": "supported"})
    assert (
        condition_of(lambda: drop_feature(state, "checkpointProtection", no_rows))
        == "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"
    )
    drop_feature(state, "checkpointProtection", no_rows, truncate_history=True)
    assert features(state) == PLAIN
    assert versions(tmp_path)[0] == 0  # nothing was protected, so nothing had to go


@pytest.mark.parametrize("fast", [True, False])
def test_history_that_uses_the_feature_is_truncated_first(tmp_path: Path, fast: bool) -> None:
    """With TRUNCATE HISTORY after a day, or without, where the session wants no checkpoint protection, after the retention of the log."""
    state = made(tmp_path, **{"delta.checkpointPolicy": "v2"})
    session = Settings({} if fast else {"tableFeatures.fastDropFeature.enabled": "false"})

    def drop() -> None:
        with calling(None, lambda: session):
            drop_feature(state, "v2Checkpoint", no_rows, truncate_history=fast)

    assert condition_of(drop) == "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
    assert state.refresh().properties.checkpoint_policy == "classic"
    assert condition_of(drop) == "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    aged(tmp_path)
    if not fast:
        assert condition_of(drop) == "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
        aged(tmp_path, 31)
    drop()
    assert features(state) == PLAIN
    assert versions(tmp_path)[0] > 2
    assert info(str(tmp_path), state.refresh().version)["operationParameters"] == {"featureName": "v2Checkpoint", "truncateHistory": str(fast).lower()}
    assert rows(str(tmp_path)) == [(1,), (2,)]


def test_row_ids_go_file_by_file(tmp_path: Path) -> None:
    state = made(tmp_path, **{"delta.enableRowTracking": "true"})
    rowlock.append(str(tmp_path), numbers(3))
    with rowlock.limits.limited(backfill_files=1):
        drop_feature(state, "rowTracking", no_rows)
    head = state.refresh()
    assert features(state) == {*PLAIN, "domainMetadata"}
    assert not head.domains
    assert not [k for k in head.metadata.configuration if "rowTracking" in k or "RowTracking" in k]
    assert all(f.base_row_id is None for f in head.files.adds())
    rowlock.append(str(tmp_path), numbers(4))
    drop_feature(state, "domainMetadata", no_rows)
    assert features(state) == PLAIN
    assert rows(str(tmp_path)) == [(1,), (2,), (3,), (4,)]


def test_a_feature_that_comes_back_meanwhile_stays(tmp_path: Path) -> None:
    state = made(tmp_path, **{"delta.enableTypeWidening": "true"})
    again = lambda feature: creation.set_properties(state, {"delta.enableTypeWidening": "true"})  # noqa: E731
    assert condition_of(lambda: drop_feature(state, "typeWidening", again)) == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    assert "typeWidening" in features(state)
    drop_feature(state, "typeWidening", no_rows)
    assert "typeWidening" not in features(state)


@pytest.fixture
def before_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Lets another writer do something right before the first commit of an operation."""

    def meet(operation: str, other: Callable[[], object]) -> None:
        commit, left = table_features.commit_from_head, [other]

        def met(state: SharedState, name: str, *given: Any) -> Any:
            if name == operation and left:
                left.pop()()
            return commit(state, name, *given)

        monkeypatch.setattr(table_features, "commit_from_head", met)

    return meet


def test_rows_that_are_tracked_again_meanwhile_keep_their_ids(tmp_path: Path, before_commit: Callable[[str, Callable[[], object]], None]) -> None:
    """I6: a RESTORE enables row tracking between the steps of dropping it."""
    state = made(tmp_path, **{"delta.enableRowTracking": "true"})
    before_commit("ROW TRACKING UNBACKFILL", lambda: commit_from_head(state, "RESTORE", {}, lambda head: restoration(state.log.at(1), head, 0)))
    assert condition_of(lambda: drop_feature(state, "rowTracking", no_rows)) == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    head = state.refresh()
    assert row_tracking.is_enabled(head.protocol, head.metadata)
    assert all(f.base_row_id is not None for f in head.files.adds())


def test_delta_sparks_writers_are_told_that_row_tracking_alone_was_enabled(tmp_path: Path) -> None:
    """They know the commits that give ids by their name, and the last one by a tag, and go on where they lose to one."""
    state = made(tmp_path)
    table_features.set_properties(state, ArrowEngine(state.store), {"delta.enableRowTracking": "true"})
    table_features.set_properties(state, ArrowEngine(state.store), {"a": "b", "delta.enableRowTracking": "true"})
    lines = [(tmp_path / "_delta_log" / f"{v:020}.json").read_bytes().splitlines()[0] for v in versions(tmp_path)[-3:]]
    told = [(info["operation"], info["tags"].get("rowTrackingEnablementOnly")) for info in (orjson.loads(line)["commitInfo"] for line in lines)]
    assert told == [("ROW TRACKING BACKFILL", None), ("SET TBLPROPERTIES", "true"), ("SET TBLPROPERTIES", None)]


@pytest.mark.parametrize("steps", ["all", "the first"])
def test_ids_are_not_given_for_ever_while_the_feature_is_dropped(
    tmp_path: Path, before_commit: Callable[[str, Callable[[], object]], None], steps: str
) -> None:
    """I8: row tracking is enabled while another writer drops the feature."""
    state = made(tmp_path)
    suspended = {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}

    def drop() -> None:
        if steps == "all":
            drop_feature(state, "rowTracking", no_rows)
        else:
            creation.change_metadata(state, "SET TBLPROPERTIES", {}, lambda head: with_properties(head.metadata, suspended))

    before_commit("ROW TRACKING BACKFILL", drop)
    with pytest.raises((StatementRefused, UnsupportedFeature), match=r"being dropped|[Ss]uspended"):
        table_features.set_properties(state, ArrowEngine(state.store), {"delta.enableRowTracking": "true"})
    assert state.refresh().version < 8


def test_the_steps_of_deltas_own_test(tmp_path: Path) -> None:
    """`test_dropFeatureSupport` of Delta's Python tests, with features of the protocol for those that only its own test runs know."""
    state = made(tmp_path)

    def drop(feature: str, truncate: bool = False) -> None:
        with calling(None, lambda: Settings({"tableFeatures.fastDropFeature.enabled": "false"})):
            drop_feature(state, feature, no_rows, truncate_history=truncate)

    add_feature(state, "domainMetadata")
    assert features(state) == {*PLAIN, "domainMetadata"}
    assert condition_of(lambda: drop("domainMetadata", True)) == "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"
    drop("domainMetadata")
    add_feature(state, "vacuumProtocolCheck")
    assert (state.refresh().protocol.min_reader_version, features(state)) == (3, {*PLAIN, "vacuumProtocolCheck"})
    drop("vacuumProtocolCheck")
    assert (state.refresh().protocol.min_reader_version, state.refresh().protocol.min_writer_version) == (1, 2)
    assert condition_of(lambda: drop("__invalid_feature__")) == "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
    assert condition_of(lambda: drop("vacuumProtocolCheck")) == "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"
    assert condition_of(lambda: drop("appendOnly")) == "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"


@pytest.mark.parametrize(("operation", "condition"), [("Domain Metadata Cleanup", "DEPENDENT_FEATURE"), ("DROP FEATURE", "CONFLICT_REVALIDATION_FAIL")])
def test_domain_metadata_stays_where_another_writer_begins_to_track_rows(tmp_path: Path, before_commit: Any, operation: str, condition: str) -> None:
    """I6: the domain with the highest row id went, and ids were given again (`s3` 170,003,385)."""
    state = made(tmp_path, **{"delta.feature.domainMetadata": "supported"})
    before_commit(operation, lambda: table_features.set_properties(state, ArrowEngine(state.store), {"delta.enableRowTracking": "true"}))
    assert condition_of(lambda: drop_feature(state, "domainMetadata", no_rows)) == f"DELTA_FEATURE_DROP_{condition}"
    assert features(state) == {*PLAIN, "domainMetadata", "rowTracking"}
    rowlock.append(str(tmp_path), numbers(3))
    bases = sorted(f.base_row_id for f in state.refresh().files.adds() if f.base_row_id is not None)
    assert bases == [0, 2]
