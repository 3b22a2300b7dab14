"""No property of Delta is accepted without effect: each does what Delta says, is refused by name, or has nothing to do, with the reason (I9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.conflict import change_feed
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.log.table_log import TableLog
from rowlock.parquet.writing import write_file
from rowlock.protocol import names, statistics
from rowlock.protocol.actions import CommitInfo, Metadata, Protocol, SetTransaction
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.delta_properties import DELTA_PROPERTIES, DeltaProperty
from rowlock.protocol.features import check_writable
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.definition import creation
from rowlock_simulation.memory.sql.script import parse
from tools import property_page

REFUSED = [p for p in DELTA_PROPERTIES.values() if p.treatment == "refused"]
LOW, HIGH = "abc" * 10 + "ab", "abc" * 10 + "a\x7f"
SOURCE = Path(__file__).resolve().parents[3] / "src" / "rowlock"


def table(**configuration: str) -> InMemory:
    made = InMemory(store=MemoryStore(f"memory://{clock.new_id()}"))
    made.create(schema_string([("k", "long", True)]), (), configuration)
    return made


def test_the_page_is_that_of_the_list() -> None:
    assert property_page.PAGE.read_text() == property_page.page(), "run `make properties`"


@pytest.mark.parametrize("one", REFUSED, ids=lambda p: p.name)
def test_what_has_no_effect_is_refused_by_name_and_tables_of_others_are_written(one: DeltaProperty) -> None:
    made = table()
    for value in ("true", "17"):
        if value not in one.only:
            with pytest.raises(InvalidInput, match=f"{one.name} = '{value}' is not possible: {one.description[:20]}"):
                creation.set_properties(made.state, {one.name: value})
            with pytest.raises(InvalidInput, match=one.name):
                table(**{one.name: value})
    for value in one.only:
        assert creation.set_properties(made.state, {one.name: value}).version is not None
    head = made.state.refresh()
    theirs = replace(head.metadata, configuration={**head.metadata.configuration, one.name: "true"})
    made.state.log.put(head.version + 1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "SET TBLPROPERTIES"}), metadata=theirs))
    assert made.run(parse("APPEND (1)")).version == head.version + 2 and [r["k"] for r in made.rows()] == [1]


@pytest.mark.parametrize("one", [p for p in DELTA_PROPERTIES.values() if p.treatment == "feature"], ids=lambda p: p.name)
def test_what_needs_a_feature_is_refused_by_the_feature(one: DeltaProperty) -> None:
    with pytest.raises(UnsupportedFeature):
        table(**{one.name: "true"})
    with pytest.raises(UnsupportedFeature):
        check_writable(Protocol(1, 2), Metadata("id", schema_string([("k", "long", True)]), (), {one.name: "true"}))


@pytest.mark.parametrize("one", [p for p in DELTA_PROPERTIES.values() if p.treatment == "effect"], ids=lambda p: p.name)
def test_what_has_an_effect_is_read_somewhere(one: DeltaProperty) -> None:
    """The list names what the code looks at: the name occurs outside of it."""
    files = [f for f in SOURCE.rglob("*.py") if f.name not in ("delta_properties.py", "rules.py")]
    assert any(f'"{one.name}"' in f.read_text() for f in files), one.name


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DELTA.checkpointinterval", "0", "at least 1"),
        ("delta.targetFileSize", "large", "a number of bytes"),
        ("delta.universalFormat.config.iceberg.metadata", "x", "writes no Iceberg metadata"),
        ("delta.noSuch", "x", "knows no property"),
        ("delta.checkpointInterval", "0", "at least 1"),
        ("delta.logRetentionDuration", "30 moons", "an interval"),
        ("delta.appendOnly", "maybe", "allowed are true, false"),
    ],
)
def test_values_are_checked(name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        creation.set_properties(table().state, {name: value})


def test_a_reader_version_that_another_writer_version_must_go_with_is_refused_alone() -> None:
    """As delta-spark does; it had no effect, and said nothing."""
    made = table(**{"delta.enableDeletionVectors": "false"})
    with pytest.raises(InvalidInput, match=r"set delta\.minWriterVersion = 7, too"):
        creation.set_properties(made.state, {"delta.minReaderVersion": "3"})
    creation.set_properties(made.state, {"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"})


def test_names_are_taken_in_any_letters_and_stored_as_delta_spells_them() -> None:
    made = table(**{"DELTA.appendonly": "false"})
    creation.set_properties(made.state, {"delta.CHECKPOINTINTERVAL": "5", "Mine.X": "1"})
    held = made.state.refresh().metadata.configuration
    assert {held["delta.appendOnly"], held["delta.checkpointInterval"], held["Mine.X"]} == {"false", "5", "1"} and len({k.lower() for k in held}) == len(held)


@pytest.mark.parametrize(
    ("retention", "left"), [(None, ["new", "old", "timeless"]), ("interval 2 days", ["new", "timeless"]), ("soon", ["new", "old", "timeless"])]
)
def test_versions_of_applications_are_kept_for_their_retention(retention: str | None, left: list[str]) -> None:
    """delta.setTransactionRetentionDuration: a checkpoint leaves the older ones out; those without a time, or all where it cannot be read, stay."""
    made, now = table(), clock.now_ms()
    metadata = made.state.refresh().metadata
    configuration = dict(metadata.configuration) | ({"delta.setTransactionRetentionDuration": retention} if retention else {})
    txns = [SetTransaction("old", 1, now - 3 * 86_400_000), SetTransaction("new", 1, now - 86_400_000), SetTransaction("timeless", 1)]
    made.state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1}), metadata=replace(metadata, configuration=configuration), txns=txns))
    made.state.log.write_checkpoint(made.state.refresh())
    for version in (0, 1):
        made.state.store.delete(names.commit_key(version))
    assert sorted(TableLog(made.state.store).latest().txns) == left


@pytest.mark.parametrize(("length", "low", "high"), [(None, LOW, HIGH), ("4", "abca", "abc\x7f"), ("0", "", None), ("few", LOW, HIGH)])
def test_bounds_of_texts_have_the_length_that_the_table_says(tmp_path: Path, length: str | None, low: str, high: str | None) -> None:
    """delta.dataSkippingStringPrefixLength, by both ways to statistics; one that cannot be read counts as 32."""
    configuration = {} if length is None else {"delta.dataSkippingStringPrefixLength": length}
    metadata = Metadata("id", schema_string([("s", "string", True)]), (), configuration)
    snapshot, rows = creation.draft_snapshot(metadata, str(tmp_path)), pa.table({"s": ["abc" * 20]})
    file, _ = write_file(LocalStore(tmp_path), rows, {}, snapshot)
    footer = pq.read_metadata(tmp_path / file.path)
    by_footer = statistics.from_parquet_metadata(footer, snapshot.stats_leaves(), text_characters=snapshot.properties.stats_text_characters)
    for text in (file.stats, by_footer):
        found = orjson.loads(text or "{}")
        assert found["minValues"]["s"] == low and found.get("maxValues", {}).get("s") == high


def test_a_feed_under_its_former_name_is_on() -> None:
    """Others may have switched it on so; without its files their readers would miss changes."""
    protocol = Protocol(1, 4)
    for configuration, expected in (
        ({change_feed.FORMER_NAME: "true"}, True),
        ({change_feed.FORMER_NAME: "true", change_feed.ENABLED: "false"}, False),
        ({change_feed.ENABLED: "true"}, True),
        ({}, False),
    ):
        assert change_feed.is_enabled(protocol, Metadata("id", "", (), configuration)) is expected
