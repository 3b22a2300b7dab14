"""A server that speaks Google Cloud Storage: fake-gcs-server.  It knows no credentials."""

from __future__ import annotations

import json
import urllib.request
import uuid
from dataclasses import dataclass

from servers.process import Process, run, status
from servers.programs import program

BUCKET = "tables"


@dataclass(frozen=True)
class Gcs:
    process: Process
    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        """A service account's key is where a client of GCS learns of another server."""
        key = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)}

    def fresh_root(self) -> str:
        return f"gs://{BUCKET}/{uuid.uuid4()}"


def start() -> Gcs:
    """Raises Missing where there is no fake-gcs-server."""
    binary = program("fake-gcs-server")

    def command(port: int, folder: object) -> list[str]:
        here = f"127.0.0.1:{port}"
        return [binary, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", here, "-external-url", f"http://{here}", "-backend", "memory", "-log-level", "error"]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/storage/v1/b?project=tests") == 200

    process, port = run("gcs", command, answers)
    endpoint = f"http://127.0.0.1:{port}"
    make = urllib.request.Request(f"{endpoint}/storage/v1/b?project=tests", json.dumps({"name": BUCKET}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(make, timeout=10):
        return Gcs(process, endpoint)
