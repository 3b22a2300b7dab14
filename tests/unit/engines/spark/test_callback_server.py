"""Java's calls of Python: the server accepts them as soon as it is said to be started (a refused call failed an INSERT in CI)."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from rowlock.engines.spark.sql import parsing


def test_the_server_accepts_a_connection_before_its_thread_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        def started_but_not_yet_run(gateway: Any) -> None:
            gateway._callback_server = SimpleNamespace(server_socket=bound)

        monkeypatch.setattr(parsing, "ensure_callback_server_started", started_but_not_yet_run)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(bound.getsockname())
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace()))
        parsing.start_callback_server(spark)
        socket.create_connection(bound.getsockname()).close()
