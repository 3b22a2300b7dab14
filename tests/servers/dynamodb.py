"""DynamoDB as Amazon gives it to developers: DynamoDB Local, in memory."""

from __future__ import annotations

from dataclasses import dataclass

from servers.process import Process, run, status
from servers.programs import jars, java

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
    folder, program = jars("dynamodb"), java("DynamoDB Local")

    def command(port: int, _: object) -> list[str]:
        small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
        return [program, *small, f"-Dsqlite4java.library.path={folder}", "-cp", f"{folder}/*", main, "-inMemory", "-disableTelemetry", "-port", str(port)]

    def answers(port: int) -> bool:
        return status(f"http://127.0.0.1:{port}/") > 0

    process, port = run("dynamodb", command, answers)
    return DynamoDb(process, f"http://127.0.0.1:{port}")
