"""The rules one by one, on commits made by hand; cases of the peers' suites that are told in words are here by their sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowlock import exceptions
from rowlock.conflict import rules
from rowlock.conflict.rules import Reads
from rowlock.protocol.actions import AddFile, Commit, CommitInfo, DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.delta_properties import DELTA_PROPERTIES
from rowlock.protocol.predicates import Unknown
from rowlock.protocol.schema import StructType

FEATURES = frozenset({"deletionVectors", "appendOnly", "invariants"})
PROTOCOL = Protocol(3, 7, frozenset({"deletionVectors"}), FEATURES)
METADATA = Metadata("id", '{"type":"struct","fields":[]}', configuration={"delta.checkpointInterval": "10"})
STATE = rules.TableState(PROTOCOL, METADATA, StructType(()), lambda predicate, files: files)
VECTOR = DeletionVectorDescriptor("i", "x", None, 1, 1)
A, B = Unknown(), Unknown()


def add(path: str, data_change: bool = True) -> AddFile:
    return AddFile(path, {}, 1, 0, data_change, None)


def remove(path: str, data_change: bool = True) -> RemoveFile:
    return RemoveFile(path, 0, data_change)


def winner(*, blind: bool | None = None, **actions) -> Commit:
    info = {"operation": "WRITE", "timestamp": 0, "txnId": "w"} | ({} if blind is None else {"isBlindAppend": blind})
    return Commit(version=7, info=CommitInfo(info), **actions)


def found(reads: Reads, *winners: Commit, state: rules.TableState = STATE) -> str | None:
    conflict = rules.first_conflict(rules.RULES, reads, list(winners), state)
    return conflict.rule if conflict else None


def having(**configuration: str | None) -> Metadata:
    """The metadata with these properties; None takes one away.  `__` stands for a dot."""
    named = {k.replace("__", "."): v for k, v in configuration.items()}
    merged: dict[str, str | None] = {**METADATA.configuration, **named}
    return replace(METADATA, configuration={k: v for k, v in merged.items() if v is not None})


def with_features(*names: str) -> Protocol:
    return replace(PROTOCOL, writer_features=FEATURES | set(names))


# the order of the rules


def test_order_is_that_of_delta() -> None:
    everything = winner(
        protocol=Protocol(1, 2),
        metadata=replace(METADATA, id="other"),
        domains=(DomainMetadata("d", ""),),
        txns=(SetTransaction("app", 1),),
        adds=(add("new"),),
        removes=(remove("read"), remove("both")),
    )
    reads = Reads(predicates=(A,), files=frozenset({"read"}), removes=frozenset({"both"}), app_ids=frozenset({"app"}), domains=frozenset({"d"}))
    order, rest = [], rules.RULES
    while conflict := rules.first_conflict(rest, reads, [everything], STATE):
        order.append(conflict.rule)
        rest = rest[[r(reads, everything, STATE) == conflict for r in rest].index(True) + 1 :]
    assert order == ["protocol", "metadata", "domain", "application", "added files", "removed files", "removed by both"]


def test_first_winner_names_the_conflict() -> None:
    reads = Reads(predicates=(A,), files=frozenset({"a"}))
    conflict = rules.first_conflict(
        rules.RULES, reads, [replace(winner(removes=(remove("a"),)), version=3), replace(winner(adds=(add("b"),)), version=4)], STATE
    )
    assert conflict is not None and (conflict.version, conflict.rule) == (3, "removed files")


# protocol


@pytest.mark.parametrize("name", ["domainMetadata", "rowTracking", "v2Checkpoint", "inCommitTimestamp", "columnMapping"])
def test_a_feature_that_acts_later_is_no_conflict(name: str) -> None:
    assert found(Reads(), winner(protocol=with_features(name))) is None


@pytest.mark.parametrize("name", ["icebergCompatV2", "aFeatureOfTomorrow"])
def test_a_feature_that_staged_work_cannot_meet_is_a_conflict(name: str) -> None:
    assert found(Reads(), winner(protocol=with_features(name))) == "protocol"


def test_both_change_the_protocol() -> None:
    """Two enablements at once, of deletion vectors, in-commit timestamps or one of each: both carry a protocol."""
    assert found(Reads(changes_protocol=True), winner(protocol=with_features("inCommitTimestamp"))) == "protocol"
    assert found(Reads(changes_protocol=True), winner(protocol=PROTOCOL)) == "protocol"


def test_a_feature_that_is_dropped_is_a_conflict() -> None:
    assert found(Reads(), winner(protocol=replace(PROTOCOL, writer_features=FEATURES - {"invariants"}))) == "protocol"
    assert found(Reads(), winner(protocol=Protocol(1, 2))) == "protocol"


# metadata: which properties may change beneath a writer


def test_one_harmless_key_and_one_that_is_not() -> None:
    assert found(Reads(), winner(metadata=having(delta__checkpointInterval="20", delta__appendOnly="true"))) == "metadata"


def test_two_harmless_keys() -> None:
    assert found(Reads(), winner(metadata=having(delta__checkpointInterval="20", delta__targetFileSize="1mb"))) is None


def test_every_property_says_whether_its_change_is_harmless() -> None:
    """How files, checkpoints and the log are laid out may change beneath a writer; what says something of rows may not."""
    changed = {
        name
        for name, known in DELTA_PROPERTIES.items()
        if found(Reads(), winner(metadata=replace(METADATA, configuration={**METADATA.configuration, name: "x"})))
    }
    assert {name for name, known in DELTA_PROPERTIES.items() if not known.harmless} - changed == {
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }  # set once, while others write
    assert {"delta.appendOnly", "delta.columnMapping.mode", "delta.enableChangeDataFeed", "delta.isolationLevel", "delta.enableRowTracking"} <= changed
    assert not {"delta.parquet.compression.codec", "delta.checkpoint.writeStatsAsStruct", "delta.enableFullRetentionRollback"} & changed


def test_a_key_is_removed() -> None:
    """A harmless key may go; any other asks something of writers by going."""
    assert found(Reads(), winner(metadata=having(delta__checkpointInterval=None))) is None
    before = replace(STATE, metadata=having(delta__enableDeletionVectors="true"))
    assert found(Reads(), winner(metadata=METADATA), state=before) == "metadata"


def test_v2_checkpoints_are_turned_on() -> None:
    supported = winner(metadata=having(delta__checkpointPolicy="v2"), protocol=with_features("v2Checkpoint"))
    assert found(Reads(), supported) is None


def test_v2_checkpoints_are_turned_off() -> None:
    before = replace(STATE, metadata=having(delta__checkpointPolicy="v2"), protocol=with_features("v2Checkpoint"))
    assert found(Reads(), winner(metadata=having(delta__checkpointPolicy="classic")), state=before) == "metadata"
    assert found(Reads(), winner(metadata=METADATA), state=before) == "metadata"


ICT = "delta__enableInCommitTimestamps"
SINCE = "delta__inCommitTimestampEnablementVersion"
SINCE_MS = "delta__inCommitTimestampEnablementTimestamp"


def test_in_commit_timestamps_are_turned_on() -> None:
    assert found(Reads(), winner(metadata=having(**{ICT: "true"}), protocol=with_features("inCommitTimestamp"))) is None


def test_in_commit_timestamps_without_their_feature() -> None:
    assert found(Reads(), winner(metadata=having(**{ICT: "true"}))) == "metadata"


def test_in_commit_timestamps_are_turned_off() -> None:
    before = replace(STATE, metadata=having(**{ICT: "true"}), protocol=with_features("inCommitTimestamp"))
    assert found(Reads(), winner(metadata=having(**{ICT: "false"})), state=before) == "metadata"
    assert found(Reads(), winner(metadata=METADATA), state=before) == "metadata"


@pytest.mark.parametrize("key", [SINCE, SINCE_MS])
def test_since_when_there_are_in_commit_timestamps(key: str) -> None:
    """The first word on it stands; it may come while others write, and may not change."""
    assert found(Reads(), winner(metadata=having(**{key: "5"}))) is None
    before = replace(STATE, metadata=having(**{key: "5"}))
    assert found(Reads(), winner(metadata=having(**{key: "6"})), state=before) == "metadata"


def test_a_catalog_names_the_table() -> None:
    assert found(Reads(), winner(metadata=having(io__unitycatalog__tableId="7"))) is None
    assert found(Reads(), winner(metadata=having(io__unitycatalog__tableId="7", delta__appendOnly="true"))) == "metadata"


def test_deletion_vectors() -> None:
    assert found(Reads(), winner(metadata=having(delta__enableDeletionVectors="true"))) is None
    assert found(Reads(), winner(metadata=having(delta__enableDeletionVectors="false"))) == "metadata"
    assert (
        found(Reads(), winner(metadata=having(delta__enableDeletionVectors="true"), protocol=Protocol(1, 2)), state=replace(STATE, protocol=Protocol(1, 2)))
        == "metadata"
    )


def test_type_widening_is_toggled() -> None:
    assert found(Reads(), winner(metadata=having(delta__enableTypeWidening="true"))) == "metadata"


def test_both_change_the_metadata() -> None:
    """A harmless change is one no more where both write the whole metadata: the second would undo the first."""
    harmless = winner(metadata=having(delta__checkpointInterval="20"))
    assert found(Reads(), harmless) is None
    assert found(Reads(changes_metadata=True), harmless) == "metadata"


# domains and applications


def test_domains() -> None:
    ours = Reads(domains=frozenset({"a"}))
    assert found(ours, winner(domains=(DomainMetadata("b", ""),))) is None
    assert found(ours, winner(domains=(DomainMetadata("a", "", removed=True),))) == "domain"
    conflict = rules.first_conflict(rules.RULES, ours, [winner(domains=(DomainMetadata("a", ""),))], STATE)
    assert conflict is not None and isinstance(conflict.exception("t"), exceptions.ConcurrentTransactionException)


def test_the_domain_of_row_tracking_is_merged() -> None:
    both = (DomainMetadata("delta.rowTracking", "{}"),)
    assert rules.domains_of(both) == frozenset()
    assert found(Reads(domains=frozenset({"delta.rowTracking"})), winner(domains=both)) is None


def test_application_ids() -> None:
    assert found(Reads(app_ids=frozenset({"a"})), winner(txns=(SetTransaction("a", 1),))) == "application"
    assert found(Reads(app_ids=frozenset({"a"})), winner(txns=(SetTransaction("b", 1),))) is None
    assert found(Reads(), winner(txns=(SetTransaction("a", 1),), adds=(add("f"),))) is None


# added files, by isolation

APPEND = winner(blind=True, adds=(add("f"),))


@pytest.mark.parametrize(
    ("isolation", "by", "expected"),
    [
        ("serializable", APPEND, "added files"),
        ("write_serializable", APPEND, None),
        ("write_serializable", winner(blind=False, adds=(add("f"),)), "added files"),
        ("write_serializable", winner(adds=(add("f"),)), "added files"),
        ("write_serializable", winner(blind=True, adds=(add("f"),), removes=(remove("g"),)), "added files"),
        ("write_serializable", winner(blind=True, adds=(replace(add("f"), deletion_vector=VECTOR),)), "added files"),
        ("snapshot", APPEND, None),
        ("snapshot", winner(adds=(add("f"),)), None),
    ],
)
def test_added_files_by_isolation(isolation, by: Commit, expected: str | None) -> None:
    assert found(Reads(predicates=(A,), isolation=isolation), by) == expected


def test_blind_appends_count_where_the_metadata_changes() -> None:
    assert found(Reads(predicates=(A,), isolation="write_serializable", changes_metadata=True), APPEND) == "added files"


def test_what_only_moves_rows_reads_at_snapshot_isolation() -> None:
    assert found(Reads(predicates=(A,), changes_data=False), APPEND) is None
    assert found(Reads(predicates=(A,), changes_data=False, files=frozenset({"f"})), winner(removes=(remove("f"),))) == "removed files"


def test_only_where_it_was_read() -> None:
    state = replace(STATE, matching=lambda predicate, files: [a for a in files if predicate is A and a.path == "f"])
    assert found(Reads(predicates=(A,)), APPEND, state=state) == "added files"
    assert found(Reads(predicates=(B,)), winner(adds=(add("g"),)), state=state) is None
    assert found(Reads(), APPEND) is None


# removed files


def test_moved_rows_are_no_conflict_for_a_reader() -> None:
    moved = winner(removes=(remove("f", data_change=False),), adds=(add("g", data_change=False),))
    assert found(Reads(predicates=(A,), files=frozenset({"f"})), moved) is None
    assert found(Reads(predicates=(None,), files=frozenset({"f"})), moved) is None
    assert found(Reads(predicates=(A,), files=frozenset({"f"}), removes=frozenset({"f"})), moved) == "removed by both"


def test_a_file_that_was_read_and_is_removed_by_both_is_named_by_the_reading() -> None:
    reads = Reads(predicates=(A,), files=frozenset({"f"}), removes=frozenset({"f"}))
    assert found(reads, winner(removes=(remove("f"),))) == "removed files"


def test_a_read_of_the_whole_table_sees_any_removal() -> None:
    assert found(Reads(predicates=(None,)), winner(removes=(remove("unheard of"),))) == "removed files"
    assert found(Reads(predicates=(A,)), winner(removes=(remove("unheard of"),))) is None


def test_files_are_compared_by_path_whatever_their_vectors() -> None:
    again = winner(removes=(remove("f"),), adds=(replace(add("f"), deletion_vector=VECTOR),))
    assert found(Reads(removes=frozenset({"f"})), again) == "removed by both"


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda r: r.__name__)
def test_nothing_is_found_in_an_empty_commit(rule: rules.Rule) -> None:
    assert rule(Reads((None,), frozenset("f"), frozenset("f"), True, frozenset("a"), domains=frozenset("d")), winner(), STATE) is None
