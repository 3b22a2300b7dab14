"""Addresses of tables on object stores: parses their URIs.  Pure.

The path after the bucket is taken as it is, never decoded: the key `a%20b` is `s3://bucket/a%20b`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import SCHEME, SCHEME_ALIASES
from rowlock.storage.options import Kind

SCHEMES: dict[str, Kind] = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gcs", "gcs": "gcs",
    "az": "azure", "azure": "azure", "abfs": "azure", "abfss": "azure", "wasb": "azure", "wasbs": "azure",
}  # fmt: skip
_URI = re.compile(rf"^(?P<scheme>{SCHEME})://(?:(?P<container>[^/@]+)@)?(?P<host>[^/]+)(?P<path>/.*)?$", re.DOTALL)
_SIGNED = re.compile(r"(?i)[?&](sig|se|sv|x-amz-\w+|x-amz-[\w-]+|x-goog-[\w-]+|awsaccesskeyid|signature)=")
_USER = re.compile(r"(?<=://).*:.*@", re.DOTALL)  # a secret key of AWS may have a slash in it
_CANONICAL_SCHEME = {**SCHEME_ALIASES, "azure": "az"}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a table's URI.  `root` is the canonical URI without a trailing slash: two spellings of one location have one root."""

    kind: Kind
    bucket: str
    prefix: str
    root: str
    account: str | None = None
    account_suffix: str | None = None


def shown(uri: str) -> str:
    """The URI for error messages, without its password and parameters."""
    place, query, _ = uri.partition("?")
    return _USER.sub("***@", place) + (f"{query}***" if query else "")


def parse(uri: str) -> Address:
    """The address of a URI; raises InvalidInput if it names no bucket or no folder in it, or holds a secret."""
    if _SIGNED.search(uri):
        raise InvalidInput("a table's URI must not contain a signature: pass it as storage_options (AZURE_STORAGE_SAS_TOKEN)", table=shown(uri))
    match = _URI.match(uri)
    if match is None or match["scheme"].lower() not in SCHEMES:
        raise InvalidInput("not a URI on an object store; expected s3://bucket/folder, gs://bucket/folder or az://container/folder", table=shown(uri))
    if ":" in (match["container"] or "") + match["host"]:
        raise InvalidInput("a table's URI must not contain a user or password: pass them as storage_options", table=shown(uri))
    scheme, path = match["scheme"].lower(), (match["path"] or "").strip("/")
    kind = SCHEMES[scheme]
    if not path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(
            "a table must be in a folder of a bucket: the path after the bucket is empty, or has a part that is empty, '.' or '..'", table=shown(uri)
        )
    if match["container"] is not None:
        if kind != "azure":
            raise InvalidInput("a table's URI must not contain a user or password: pass them as storage_options", table=f"{scheme}://{match['host']}/{path}")
        account, _, suffix = match["host"].partition(".")
        secure = "abfss" if scheme in ("abfs", "abfss", "az", "azure") else scheme
        return Address(kind, match["container"], path, f"{secure}://{match['container']}@{match['host']}/{path}", account, suffix or None)
    name = _CANONICAL_SCHEME.get(scheme, "az" if kind == "azure" else scheme)
    return Address(kind, match["host"], path, f"{name}://{match['host']}/{path}")
