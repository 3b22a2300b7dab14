"""Options of a stream that reads a table: each has its effect or is refused by name (I9)."""

from __future__ import annotations

import pytest

from rowlock.api.stream_source.options import LATEST, StreamOptions, parse, storage_options
from rowlock.exceptions import InvalidInput, SettingWarning, UnsupportedFeature


def test_by_default() -> None:
    assert parse({"path": "/t"}, "/t") == StreamOptions(max_files=1000)


def test_names_are_written_in_any_case() -> None:
    given = {"STARTINGVERSION": "3", "maxfilespertrigger": "5", "skipChangeCommits": "TRUE", "ignoreDeletes": "true", "IGNORECHANGES": "true"}
    said = parse(given, "/t")
    assert said == StreamOptions(starting_version=3, max_files=5, skip_change_commits=True, ignore_deletes=True, ignore_changes=True)


def test_the_old_name_of_ignoreChanges() -> None:
    """delta-spark takes it, too."""
    assert parse({"ignoreFileDeletion": "true"}, "/t").ignore_changes


def test_where_a_stream_begins() -> None:
    assert parse({"startingVersion": "latest"}, "/t").starting_version == LATEST
    assert parse({"startingTimestamp": "2026-01-01"}, "/t").starting_timestamp == "2026-01-01"


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("10b", 10), ("3k", 3 << 10), ("3KB", 3 << 10), ("500m", 500 << 20), ("2 g", 2 << 30), ("1tb", 1 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    said = parse({"maxBytesPerTrigger": text}, "/t")
    assert (said.max_bytes, said.max_files) == (size, None), "a limit of bytes takes the place of that of files"


def test_both_limits() -> None:
    said = parse({"maxBytesPerTrigger": "5", "maxFilesPerTrigger": "2"}, "/t")
    assert (said.max_bytes, said.max_files) == (5, 2)


def test_the_change_feed_under_both_names() -> None:
    assert parse({"readChangeFeed": "true"}, "/t").read_change_feed and parse({"readChangeData": "true"}, "/t").read_change_feed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxFilesPerTrigger", "0"),
        ("maxFilesPerTrigger", "many"),
        ("maxBytesPerTrigger", "0"),
        ("maxBytesPerTrigger", "-1"),
        ("maxBytesPerTrigger", "3x"),
        ("startingVersion", "-1"),
        ("startingVersion", "first"),
        ("startingVersion", "LATEST"),
        ("skipChangeCommits", "yes"),
        ("failOnDataLoss", "1"),
    ],
)
def test_values_that_are_none(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=name) as raised:
        parse({name: value}, "/t")
    assert raised.value.condition is not None and raised.value.condition.name == "DELTA_ILLEGAL_OPTION", "as delta-spark calls it"


@pytest.mark.parametrize("name", ["versionAsOf", "timestampAsOf", "ignoreDelete", "fs.s3a.access.key"])
def test_a_version_a_misspelt_name_and_keys_of_a_store_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=name):
        parse({name: "true"}, "/t")


@pytest.mark.parametrize("name", ["withEventTimeOrder", "endingVersion", "mergeSchema"])
def test_what_has_no_effect_is_named_in_a_warning(name: str) -> None:
    with pytest.warns(SettingWarning, match=f"The option {name} of a stream has no effect"):
        assert parse({name: "true"}, "/t") == StreamOptions()


@pytest.mark.parametrize("name", ["ignoreDeletes", "ignoreChanges", "skipChangeCommits"])
def test_what_has_no_effect_on_the_change_feed_is_named_in_a_warning(name: str) -> None:
    """delta-spark passes over it, too."""
    with pytest.warns(SettingWarning, match=f"{name} of a stream has no effect beside readChangeFeed"):
        assert parse({"readChangeFeed": "true", name: "true"}, "/t").read_change_feed
    assert parse({"readChangeFeed": "true", name: "false"}, "/t").read_change_feed


def test_where_the_columns_are_tracked() -> None:
    given = {"schemaLocation": "/cp/columns", "streamingSourceTrackingId": "two", "ALLOWSOURCECOLUMNDROP": "7", "excludeRegex": "part"}
    said = parse(given, "/t")
    assert (said.schema_location, said.source_id, said.allowed, said.exclude_regex) == ("/cp/columns", "two", {"allowSourceColumnDrop": "7"}, "part")
    with pytest.raises(InvalidInput, match="failOnDataLoss"):
        parse(given | {"failOnDataLoss": "false"}, "/t")


def test_both_starts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        parse({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "/t")


def test_how_to_reach_a_cloud() -> None:
    given = {"path": "/t", "rowlock.storage.aws_region": "eu"}
    assert storage_options(given) == {"aws_region": "eu"} and parse(given, "/t") == StreamOptions()
    assert storage_options({"path": "/t"}) is None
