"""Version checksums (`.crc`): compared with the log's snapshot of their version, and written if a table's properties ask for them.

A checksum decides nothing: rows come from the log.  One that differs is damage, of the log or of the checksum itself, and a warning names
it.  Writing one takes one small object after the commit; all of its content is known by then.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import orjson

from rowlock.exceptions import ChecksumWarning, StorageError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import commits, names
from rowlock.protocol.action_json import domain_json, metadata_from, metadata_json, protocol_from, protocol_json, txn_json
from rowlock.storage.store import ObjectStore

logger = logging.getLogger("rowlock")


def checksum(snapshot: Snapshot) -> bytes:
    """The checksum file of a version.  Its cost does not depend on the number of files."""
    out: dict[str, Any] = {} if snapshot.txn_id is None else {"txnId": snapshot.txn_id}
    out |= {
        "tableSizeBytes": snapshot.files.total_size_bytes,
        "numFiles": len(snapshot.files),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [txn_json(t) for t in snapshot.txns.values()],
        "domainMetadata": [domain_json(d) for d in snapshot.domains.values()],
        "metadata": metadata_json(snapshot.logged),
        "protocol": protocol_json(snapshot.protocol),
    }
    if commits.first_version(snapshot.metadata.configuration) is not None:
        out["inCommitTimestampOpt"] = snapshot.timestamp_ms
    return orjson.dumps(out)


def write(store: ObjectStore, snapshot: Snapshot) -> None:
    """Writes the checksum of a version, if the table's properties ask for it.  Raises StorageError; no commit depends on it."""
    if snapshot.properties.writes_checksums:
        store.put(names.checksum_key(snapshot.version), checksum(snapshot))


def verify(store: ObjectStore, snapshot: Snapshot) -> None:
    """Reads the checksum of a version, and warns if it differs from the log's snapshot.  One that was deleted meanwhile is ignored."""
    key = names.checksum_key(snapshot.version)
    try:
        data = store.get(key)
    except StorageError:
        return
    if differing := differences(data, snapshot):
        text = (
            f"{store.root}: the checksum {key} differs from the log of version {snapshot.version}: {'; '.join(differing)}. The log counts. If its files were changed "
            "or copied by hand, restore them; else delete the checksum, which other engines may refuse to go on from"
        )
        logger.warning("%s", text)
        warnings.warn(text, ChecksumWarning, stacklevel=2)


def differences(data: bytes, snapshot: Snapshot) -> list[str]:
    """The differences between a checksum and the snapshot of its version, as texts; fields that it lacks are not compared."""
    try:
        raw = orjson.loads(data)
        pairs: dict[str, tuple[Any, Any]] = {
            "numFiles": (raw.get("numFiles"), len(snapshot.files)),
            "tableSizeBytes": (raw.get("tableSizeBytes"), snapshot.files.total_size_bytes),
            "txnId": (raw.get("txnId"), snapshot.txn_id),
        }
        if raw.get("metadata") is not None:
            recorded = metadata_from(raw["metadata"])
            pairs["metadata"] = (metadata_json(recorded), metadata_json(snapshot.logged))
        if raw.get("protocol") is not None:
            pairs["protocol"] = (protocol_json(protocol_from(raw["protocol"])), protocol_json(snapshot.protocol))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        return [f"it cannot be read ({type(e).__name__}: {e})"]
    differing = {name: both for name, both in pairs.items() if None not in both and both[0] != both[1]}
    return [f"{name} is {a!r} and not {b!r}" if name.startswith(("num", "table", "txn")) else f"{name} is another" for name, (a, b) in differing.items()]
