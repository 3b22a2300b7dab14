"""The options of a stream that reads a table, under delta-spark's names; a misspelt one is refused (I9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowlock import arguments
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.protocol.delta_properties import bytes_of

LATEST = "latest"
STORAGE = "rowlock.storage."
"""Begins the options that say how to reach a cloud."""
_DEFAULT_FILES = 1000
_IGNORED = frozenset(("path", "serialization.format"))
_FLAGS = {"ignoreDeletes": "false", "ignoreChanges": "false", "skipChangeCommits": "false", "failOnDataLoss": "true", "readChangeFeed": "false"}
_TEXTS = (
    "excludeRegex", "schemaTrackingLocation", "streamingSourceTrackingId",
    "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange",
)  # fmt: skip
_KNOWN = ("startingVersion", "startingTimestamp", "maxFilesPerTrigger", "maxBytesPerTrigger", *_FLAGS, *_TEXTS)
_OTHER_NAMES = {"readchangedata": "readchangefeed", "schemalocation": "schematrackinglocation", "ignorefiledeletion": "ignorechanges"}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is to read, and how much at once.

    starting_version     the first version whose changes are read; LATEST: that after the newest one
    starting_timestamp   the same by a time.  Where neither is given, the table's rows are read first
    max_files, max_bytes after how many a batch ends; None for no limit
    exclude_regex        files whose path this matches (Java's syntax) are left out
    schema_location      where the columns are kept that the stream has come to, below the query's checkpoint; source_id distinguishes two sources of a query there
    allowed              non-additive changes of the columns that the stream may go on after, by the option's name: "always" or a version
    """

    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    max_files: int | None = _DEFAULT_FILES
    max_bytes: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    fail_on_data_loss: bool = True
    read_change_feed: bool = False
    exclude_regex: str | None = None
    schema_location: str | None = None
    source_id: str | None = None
    allowed: Mapping[str, str] = field(default_factory=dict, hash=False)


def parse(given: Mapping[str, str], table: str) -> StreamOptions:
    """The options of a DataStreamReader.  Warns of one without effect.  Raises InvalidInput, and UnsupportedFeature for a version and for a misspelt option."""
    options = {_OTHER_NAMES.get(k.lower(), k.lower()): v for k, v in given.items() if not k.lower().startswith(STORAGE) and k.lower() not in _IGNORED}
    if unknown := sorted(name for name in given if _OTHER_NAMES.get(name.lower(), name.lower()) in set(options) - {n.lower() for n in _KNOWN}):
        if travels := next((name for name in unknown if name.lower() in ("versionasof", "timestampasof")), None):
            text = f"The option {travels} of a stream is refused: use startingVersion or startingTimestamp"
            why = named("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS")
            raise UnsupportedFeature(text, feature=f"option {travels} of a stream", access="read", table=table, condition=why)
        arguments.pass_over(unknown, _KNOWN, "stream", "read", table)
    version, timestamp = options.get("startingversion"), options.get("startingtimestamp")
    if version is not None and timestamp is not None:
        raise InvalidInput("Give startingVersion or startingTimestamp, not both", table=table, condition=named("DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"))
    if version is not None and version != LATEST and not version.isdecimal():
        raise arguments.illegal_option("startingVersion", version, "must be a version's number or latest", table)
    flags = {n: arguments.option_is_true(n, options.get(n.lower(), _FLAGS[n]), table) for n in _FLAGS}
    for without in ("ignoreDeletes", "ignoreChanges", "skipChangeCommits"):
        if flags["readChangeFeed"] and flags[without]:
            arguments.warn_once(f"The option {without} of a stream has no effect beside readChangeFeed, which reads every change")
    texts = {n: options[n.lower()] for n in _TEXTS if n.lower() in options}
    if "schemaTrackingLocation" in texts and not flags["failOnDataLoss"]:
        raise InvalidInput("schemaTrackingLocation needs every commit, and failOnDataLoss=false passes over some: leave one of them out", table=table)
    size = options.get("maxbytespertrigger")
    files = options.get("maxfilespertrigger", None if size is not None else str(_DEFAULT_FILES))
    if files is not None and not (files.isdecimal() and int(files)):
        raise arguments.illegal_option("maxFilesPerTrigger", files, "must be a number of files, 1 or more", table)
    if size is not None and bytes_of(size) is None:
        raise arguments.illegal_option("maxBytesPerTrigger", size, "must be a size such as 500m or 10g, in bytes where it has no unit", table)
    return StreamOptions(
        starting_version=None if version is None else int(version) if version.isdecimal() else LATEST,
        starting_timestamp=timestamp,
        max_files=None if files is None else int(files),
        max_bytes=None if size is None else bytes_of(size),
        ignore_deletes=flags["ignoreDeletes"],
        ignore_changes=flags["ignoreChanges"],
        skip_change_commits=flags["skipChangeCommits"],
        fail_on_data_loss=flags["failOnDataLoss"],
        read_change_feed=flags["readChangeFeed"],
        exclude_regex=texts.get("excludeRegex"),
        schema_location=texts.get("schemaTrackingLocation"),
        source_id=texts.get("streamingSourceTrackingId"),
        allowed={name: value for name, value in texts.items() if name.startswith("allow")},
    )


def storage_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options that say how to reach a cloud."""
    return {k[len(STORAGE) :]: v for k, v in given.items() if k.lower().startswith(STORAGE)} or None
