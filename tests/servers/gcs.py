"""A server that speaks Google Cloud Storage: fake-gcs-server.  It knows no credentials.

It takes uploads by the JSON API only, and obstore sends them by the XML API; a proxy before it translates
the one request.  The condition on the generation is kept by the server, not by the proxy.
"""

from __future__ import annotations

import json
import urllib.request
import uuid
from dataclasses import dataclass, replace

from servers.process import Process, run, status
from servers.programs import program
from servers.proxy import Forward, Handle, Proxy, Request, Response

BUCKET = "tables"


@dataclass(frozen=True)
class Gcs:
    process: Process
    server: str
    proxy: Proxy

    @property
    def endpoint(self) -> str:
        return self.proxy.endpoint

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
        return [
            binary,
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            str(port),
            "-public-host",
            here,
            "-external-url",
            f"http://{here}",
            "-backend",
            "memory",
            "-log-level",
            "error",
        ]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/storage/v1/b?project=tests") == 200

    process, port = run("gcs", command, answers)
    server = f"http://127.0.0.1:{port}"
    make = urllib.request.Request(f"{server}/storage/v1/b?project=tests", json.dumps({"name": BUCKET}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(make, timeout=10):
        return Gcs(process, server, Proxy(server, _translated(f"127.0.0.1:{port}")))


def _translated(host: str) -> Handle:
    """An upload of the XML API as one of the JSON API, whose answer is given back in headers."""

    async def handle(request: Request, forward: Forward) -> Response | None:
        request = request.with_headers(Host=host)
        if request.method != "PUT":
            return await forward(request)
        bucket, _, name = request.target.lstrip("/").partition("/")  # the name is encoded as a query wants it
        condition = request.header("x-goog-if-generation-match")
        asked = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}" + (f"&ifGenerationMatch={condition}" if condition else "")
        made = await forward(replace(request, method="POST", target=asked))
        if made.status != 200:
            return made
        told = json.loads(made.body)
        return Response(200, (("ETag", told["etag"]), ("x-goog-generation", str(told["generation"]))))

    return handle
