"""An S3 server whose conditional puts hold under a race: MinIO."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from servers.process import Process, run, status
from servers.programs import program

BUCKET = "tables"
ACCESS_KEY, SECRET_KEY = "rowlock-tests", "rowlock-tests-secret"


@dataclass(frozen=True)
class Minio:
    process: Process
    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        return options(self.endpoint)

    def fresh_root(self) -> str:
        """A place for one table that nobody has used."""
        return f"s3://{BUCKET}/{uuid.uuid4()}"


def options(endpoint: str) -> dict[str, str]:
    """What a client of this server, or of a proxy before it, must know, under the names of delta-rs."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


def start() -> Minio:
    """Raises Missing where there is no MinIO."""
    binary = program("minio")

    def command(port: int, folder: object) -> list[str]:
        return [binary, "server", "--quiet", "--address", f"127.0.0.1:{port}", f"{folder}/data"]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/minio/health/ready") == 200

    settings = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off", "GOMEMLIMIT": "400MiB"}
    process, port = run("minio", command, answers, environment=settings)
    server = Minio(process, f"http://127.0.0.1:{port}")
    make_bucket(server.endpoint, BUCKET)
    return server


def make_bucket(endpoint: str, bucket: str) -> None:
    import boto3

    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
    s3.create_bucket(Bucket=bucket)
