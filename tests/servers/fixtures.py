"""A fixture for each server, started when the first test of a process asks for it.

Where a server's program is not on the machine its tests skip and say why; in CI they fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from servers import (
    azurite as azurite_server,
    chromium as browser,
    dynamodb as dynamodb_server,
    gcs as gcs_server,
    hdfs as hdfs_server,
    minio as minio_server,
    postgres as postgres_server,
)
from servers.azurite import Azurite
from servers.chromium import Chromium
from servers.dynamodb import DynamoDb
from servers.gcs import Gcs
from servers.hdfs import Hdfs
from servers.minio import Minio
from servers.postgres import Postgres
from servers.programs import Missing, jars, required


def _found(find: Callable[[], Any]) -> Any:
    try:
        return find()
    except Missing as e:
        if required():
            pytest.fail(f"in CI nothing may be missing: {e}")
        pytest.skip(str(e))


def _running(start: Callable[[], Any]) -> Iterator[Any]:
    server = _found(start)
    yield server
    server.process.stop()


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    return _found(browser.find)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def minio() -> Iterator[Minio]:
    yield from _running(minio_server.start)


@pytest.fixture(scope="session")
def gcs() -> Iterator[Gcs]:
    yield from _running(gcs_server.start)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    yield from _running(azurite_server.start)


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[DynamoDb]:
    yield from _running(dynamodb_server.start)


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    yield from _running(hdfs_server.start)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    yield from _running(postgres_server.start)


@pytest.fixture(scope="session")
def postgres_driver() -> str:
    """The folder of PostgreSQL's driver for Java."""
    return str(_found(lambda: jars("postgresql")))
