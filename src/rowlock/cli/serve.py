"""`rowlock serve`: a Spark Connect server whose sessions have Rowlock, for clients that have PySpark alone."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

import rowlock
from rowlock.engines.spark.session.connect import (
    ConnectServer,
    ThriftServer,
    connect_settings,
    jvm_is_alive,
    keep_derby_log,
    log_one_line_for_each_mistake,
    metastore_settings,
)
from rowlock.engines.spark.session.session import start_server_session
from rowlock.exceptions import InvalidInput, RowlockError

_LOOKS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `rowlock serve`."""

    host: str
    port: int
    token: str | None = field(repr=False)
    without_token: bool
    warehouse: Path
    metastore: Path | None
    conf: Sequence[str] = field(repr=False)
    cores: int
    memory_mb: int
    thrift_port: int | None = None


def serve(choices: Choices, console: Console) -> None:
    """Starts the servers, prints how to connect, and returns at SIGTERM or SIGINT.  Raises InvalidInput, RowlockError."""
    settings = _settings(choices)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # PySpark's: errors are for the client that caused them
    end = threading.Event()
    spark = start_server_session(cores=choices.cores, memory_mb=choices.memory_mb, settings=settings)
    for number in (signal.SIGTERM, signal.SIGINT):  # after PySpark, which takes SIGINT for itself
        signal.signal(number, lambda *_: end.set())
    servers: list[ConnectServer | ThriftServer] = []
    try:
        if choices.metastore is not None:
            keep_derby_log(spark, choices.metastore.absolute())
        rowlock.enable(spark)  # before a client can connect
        log_one_line_for_each_mistake(spark)
        connect = ConnectServer(spark)
        servers.append(connect)
        if choices.thrift_port is not None:
            servers.append(ThriftServer(spark, choices.host, choices.thrift_port))
        _print_how_to_connect(choices, connect.port, console)
        while not end.wait(_LOOKS_EVERY_S):
            if not jvm_is_alive(spark):
                raise RowlockError("Spark's JVM ended by itself; its output is above")
        console.print("Stopping.", highlight=False)
    finally:
        if jvm_is_alive(spark):
            for server in reversed(servers):
                server.stop()
            spark.stop()


def _settings(choices: Choices) -> dict[str, str]:
    """The settings of the server's session.  Raises InvalidInput."""
    bad = [n for n, given in enumerate(choices.conf, 1) if not given.partition("=")[1] or not given.partition("=")[0].strip()]
    if bad:
        raise InvalidInput(f"--conf takes KEY=VALUE; number {bad[0]} of {len(choices.conf)} has no key or no '='")  # its text may be a secret
    if choices.thrift_port is not None and not (choices.without_token or _is_loopback(choices.host)):
        raise InvalidInput(f"The Thrift server does not check tokens, so one that listens on {choices.host} needs --without-token")
    if not (choices.token or choices.without_token or _is_loopback(choices.host)):
        raise InvalidInput(
            f"Every client of a Connect server can run code as the server's user, so one that listens on {choices.host} needs --token, "
            "or --without-token in a network of trusted clients"
        )
    own = connect_settings(choices.host, choices.port, choices.token) | {"spark.sql.warehouse.dir": str(choices.warehouse.absolute())}
    if choices.metastore is not None:
        if ";" in str(choices.metastore.absolute()):
            raise InvalidInput(f"--metastore cannot be {choices.metastore}: Derby takes what follows ';' for its options")
        own |= metastore_settings(choices.metastore.absolute())
    return own | {key.strip(): value for key, _, value in (given.partition("=") for given in choices.conf)}


def _is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _address_of(host: str) -> str:
    """The host for clients' URLs: for an unspecified address (0.0.0.0) the machine's own address in its network."""
    if _is_loopback(host):
        return "localhost"  # clients send a token without TLS to localhost alone, by this name
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            host = _own_address()
    return f"[{host}]" if ":" in host else host


def _own_address() -> str:
    """The machine's address in its network, its name where it has none.  Sends nothing: a datagram socket only looks up the route."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # reserved for documentation (RFC 5737)
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _print_how_to_connect(choices: Choices, port: int, console: Console) -> None:
    host = _address_of(choices.host)
    url = f"sc://{host}:{port}" + ("" if choices.token is None else "/;token=...")
    lines = [f"Rowlock serves Spark Connect at {url}", f'  spark = SparkSession.builder.remote("{url}").getOrCreate()    # pip install "pyspark[connect]"']
    if choices.thrift_port is not None:
        lines.append(f"Thrift: jdbc:hive2://{host}:{choices.thrift_port}")
    names = "are gone when the server ends" if choices.metastore is None else f"are stored in {choices.metastore.absolute()}"
    lines.append(f"Tables without a location lie in {choices.warehouse.absolute()}; their names {names}. Ctrl-C ends the server.")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
