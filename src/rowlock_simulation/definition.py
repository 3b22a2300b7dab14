"""What the log says of the table itself: its protocol lists what its properties need, its in-commit timestamps grow, and no version is empty."""

from __future__ import annotations

from rowlock.protocol.actions import Commit, Metadata, Protocol

NEEDS = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
}
"""The table feature that a property needs where it is true."""
DEFINES = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN", "ADD COLUMNS", "DROP COLUMNS", "RENAME COLUMN", "RESERVE IDENTITY")
CHANGES = ("UPDATE", "DELETE", "MERGE", "OPTIMIZE")
"""Operations that commit no version where they find nothing to do."""
SINCE = "delta.inCommitTimestampEnablementVersion"
LEGACY = {"changeDataFeed": 4, "columnMapping": 5, "checkConstraints": 3}
"""From which version of the writer on a protocol without a list of features has them."""


class Definition:
    """Protocol, metadata and the last in-commit timestamp, commit by commit."""

    def __init__(self) -> None:
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._last_ms: int | None = None
        self._with_vectors: set[str] = set()
        self._without_ids: int | None = None
        """The newest version without the feature of row ids."""
        self._bases: dict[str, int | None] = {}
        """The first row id of every live file."""

    @property
    def tracks_rows(self) -> bool:
        """Whether rows keep their ids in the newest version."""
        return self._is_true("delta.enableRowTracking")

    @property
    def has_feed(self) -> bool:
        """Whether the newest version has a change data feed."""
        return self._is_true("delta.enableChangeDataFeed")

    def lost_ids_since(self, version: int) -> bool:
        """Whether the table did without the feature of row ids in or after a version: what is restored from before has others."""
        return self._without_ids is not None and self._without_ids >= version

    def apply(self, commit: Commit) -> list[str]:
        """Takes a commit in; returns what is wrong with it."""
        stamped, append_only = self._is_true("delta.enableInCommitTimestamps"), self._is_true("delta.appendOnly")
        self._protocol, self._metadata = commit.protocol or self._protocol, commit.metadata or self._metadata
        assert self._protocol is not None and self._metadata is not None, "version 0 has both"
        wrong = [f"protocol: version {commit.version} lacks {feature}" for feature in sorted(self._needed()) if not supports(self._protocol, feature)]
        if not supports(self._protocol, "rowTracking"):
            self._without_ids = commit.version
        wrong += self._unlisted(commit)
        if commit.info is not None and commit.info.operation in CHANGES and not (commit.adds or commit.removes or commit.txns or commit.metadata):
            wrong.append(f"empty: version {commit.version} is of {commit.info.operation}, and changes nothing")
        if commit.info is not None and commit.info.operation in DEFINES and not (commit.metadata or commit.protocol):
            wrong.append(f"empty: version {commit.version} is of {commit.info.operation}, and defines nothing")
        begins = commit.version > 0 and not stamped and self._is_true("delta.enableInCommitTimestamps")
        if begins and (since := self._metadata.configuration.get(SINCE)) != str(commit.version):
            wrong.append(f"time: version {commit.version} begins in-commit timestamps, and says {since}")
        if self.tracks_rows and (bare := [path for path, base in self._bases.items() if base is None]):
            wrong.append(f"I6: version {commit.version} tracks rows, and {min(bare)} has no row ids")
        if append_only and any(remove.data_change for remove in commit.removes):
            wrong.append(f"append-only: version {commit.version} removes rows of a table that no row leaves")
        at_ms = None if commit.info is None else commit.info.raw.get("inCommitTimestamp")
        if stamped and at_ms is None and self._is_true("delta.enableInCommitTimestamps"):
            wrong.append(f"time: version {commit.version} has no in-commit timestamp")
        if at_ms is not None:
            if stamped and self._last_ms is not None and at_ms <= self._last_ms:
                wrong.append(f"time: version {commit.version} has the in-commit timestamp {at_ms}, the one before it {self._last_ms}")
            self._last_ms = int(at_ms)
        return wrong

    def _unlisted(self, commit: Commit) -> list[str]:
        """What live files hold of a feature that the protocol does not list."""
        assert self._protocol is not None
        again = {f.path for f in commit.removes} | {f.path for f in commit.adds}
        self._with_vectors = self._with_vectors - again | {f.path for f in commit.adds if f.deletion_vector is not None}
        self._bases = {p: base for p, base in self._bases.items() if p not in again} | {f.path: f.base_row_id for f in commit.adds}
        held = {"deletionVectors": self._with_vectors, "rowTracking": {p for p, base in self._bases.items() if base is not None}}
        return [
            f"protocol: version {commit.version} lacks {name}, which {min(files)} uses"
            for name, files in held.items()
            if files and not supports(self._protocol, name)
        ]

    def _is_true(self, name: str) -> bool:
        return self._metadata is not None and self._metadata.configuration.get(name) == "true"

    def _needed(self) -> set[str]:
        assert self._metadata is not None
        out = {feature for name, feature in NEEDS.items() if self._is_true(name)}
        if self._metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            out.add("columnMapping")
        if any(name.startswith("delta.constraints.") for name in self._metadata.configuration):
            out.add("checkConstraints")
        return out


def supports(protocol: Protocol, feature: str) -> bool:
    if protocol.writer_features is not None:
        return feature in protocol.writer_features
    return feature in LEGACY and protocol.min_writer_version >= LEGACY[feature]
