"""A server that speaks Azure Blob Storage: Microsoft's Azurite."""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.request
import uuid
from dataclasses import dataclass
from email.utils import formatdate

from servers.process import Process, run, status
from servers.programs import program

CONTAINER = "tables"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # every Azurite's, as its documentation says


@dataclass(frozen=True)
class Azurite:
    process: Process
    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        return {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_ENDPOINT": self.endpoint, "AZURE_ALLOW_HTTP": "true"}

    def fresh_root(self) -> str:
        return f"az://{CONTAINER}/{uuid.uuid4()}"


def start() -> Azurite:
    """Raises Missing where there is no Azurite."""
    binary = program("azurite-blob", below="azurite/node_modules/.bin")

    def command(port: int, folder: object) -> list[str]:
        return [binary, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", str(port)]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/{ACCOUNT}") > 0

    process, port = run("azurite", command, answers)
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    make_container(endpoint, CONTAINER)
    return Azurite(process, endpoint)


def make_container(endpoint: str, name: str) -> None:
    """PUT container, signed with the account's key (Shared Key Lite would not do for blobs)."""
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{k}:{v}\n" for k, v in headers.items())
    signed = "PUT" + "\n" * 12 + f"{canonical}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container", method="PUT", headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
    )
    with urllib.request.urlopen(request, timeout=10):
        pass
