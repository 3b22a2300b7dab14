"""Version checksums (`.crc`): what each version of a table amounts to, compared with what its log gives, and written where a table asks for it.

A checksum decides nothing: rows come from the log.  One that says otherwise is damage, of the log or of the checksum itself, and is named by a
warning.  Writing one takes one small object after the commit; all that stands in it is known by then.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import orjson

from rowlock.exceptions import ChecksumWarning, StorageError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import in_commit, names
from rowlock.protocol.action_json import domain_json, metadata_from, metadata_json, protocol_from, protocol_json, txn_json
from rowlock.storage.store import ObjectStore

logger = logging.getLogger("rowlock")


def checksum(snapshot: Snapshot) -> bytes:
    """The checksum file of a version.  Takes as long for a table of many files as for one of few."""
    out: dict[str, Any] = {} if snapshot.txn_id is None else {"txnId": snapshot.txn_id}
    out |= {
        "tableSizeBytes": snapshot.files.total_size_bytes,
        "numFiles": len(snapshot.files),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [txn_json(t) for t in snapshot.txns.values()],
        "domainMetadata": [domain_json(d) for d in snapshot.domains.values()],
        "metadata": metadata_json(snapshot.metadata),
        "protocol": protocol_json(snapshot.protocol),
    }
    if in_commit.first_version(snapshot.metadata.configuration) is not None:
        out["inCommitTimestampOpt"] = snapshot.timestamp_ms
    return orjson.dumps(out)


def write(store: ObjectStore, snapshot: Snapshot) -> None:
    """Writes the checksum of a version, where the table asks for it.  Raises StorageError; no commit depends on it."""
    if snapshot.properties.writes_checksums:
        store.put(names.checksum_key(snapshot.version), checksum(snapshot))


def verify(store: ObjectStore, snapshot: Snapshot) -> None:
    """Reads the checksum of a version, and warns where it differs from what the log gives.  One that is gone meanwhile says nothing."""
    key = names.checksum_key(snapshot.version)
    try:
        data = store.get(key)
    except StorageError:
        return
    if found := differences(data, snapshot):
        text = (
            f"{store.root}: the checksum {key} differs from the log of version {snapshot.version}: {'; '.join(found)}. The log counts. If its files were changed "
            "or copied by hand, restore them; else delete the checksum, which other engines may refuse to go on from"
        )
        logger.warning("%s", text)
        warnings.warn(text, ChecksumWarning, stacklevel=2)


def differences(data: bytes, snapshot: Snapshot) -> list[str]:
    """What a checksum says otherwise than the snapshot of its version; what it leaves out is not compared."""
    try:
        raw = orjson.loads(data)
        said: dict[str, tuple[Any, Any]] = {
            "numFiles": (raw.get("numFiles"), len(snapshot.files)),
            "tableSizeBytes": (raw.get("tableSizeBytes"), snapshot.files.total_size_bytes),
            "txnId": (raw.get("txnId"), snapshot.txn_id),
        }
        if raw.get("metadata") is not None:
            there = metadata_from(raw["metadata"])
            said["metadata"] = (metadata_json(there), metadata_json(snapshot.metadata))
        if raw.get("protocol") is not None:
            said["protocol"] = (protocol_json(protocol_from(raw["protocol"])), protocol_json(snapshot.protocol))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        return [f"it cannot be read ({type(e).__name__}: {e})"]
    differing = {name: both for name, both in said.items() if None not in both and both[0] != both[1]}
    return [f"{name} is {a!r} and not {b!r}" if name.startswith(("num", "table", "txn")) else f"{name} is another" for name, (a, b) in differing.items()]
