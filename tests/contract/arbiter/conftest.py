"""One arbiter's table for a process; each test has a Delta table of its own in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from contract.arbiter.world import TABLE, World
from rowlock.storage import MemoryStore
from rowlock.storage.dynamodb import create_table
from servers.dynamodb import DynamoDb


@pytest.fixture(scope="session")
def client(dynamodb: DynamoDb) -> Iterator[Any]:
    config = Config(max_pool_connections=20, retries={"mode": "standard", "total_max_attempts": 3}, read_timeout=20)
    made = boto3.client("dynamodb", config=config, **dynamodb.client_arguments)
    create_table(client=made, name=TABLE)
    yield made
    made.close()


@pytest.fixture
def world(client: Any) -> Callable[..., World]:
    """A fresh Delta table; the arguments are World's."""

    def make(**how: Any) -> World:
        how.setdefault("store", MemoryStore(f"s3://bucket/{uuid.uuid4()}"))
        return World(client=client, **how)

    return make
