"""PostgreSQL in a folder of its own.  Run by root it becomes another user, for it will not be root."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from servers.process import DidNotStart, Process, fresh_folder, run
from servers.programs import Missing, program

USER = "rowlock"


@dataclass(frozen=True)
class Postgres:
    process: Process
    port: int

    @property
    def dsn(self) -> str:
        """What psycopg.connect takes."""
        return f"host=127.0.0.1 port={self.port} user={USER} dbname=postgres"


def start() -> Postgres:
    """Raises Missing where there is no PostgreSQL."""
    postgres, initdb = _binary("postgres"), _binary("initdb")
    user = _other_user() if os.geteuid() == 0 else None
    folder = fresh_folder("postgres", user)
    made = subprocess.run(
        [initdb, "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"],
        capture_output=True,
        text=True,
        cwd="/",
        **({} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}),
    )
    if made.returncode:
        raise DidNotStart(f"initdb failed: {made.stderr}")

    def command(port: int, place: Path) -> list[str]:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(place), "shared_buffers": "16MB", "fsync": "off", "max_connections": "60"}
        return [postgres, "-D", str(place / "data"), "-p", str(port), *(a for k, v in settings.items() for a in ("-c", f"{k}={v}"))]

    process, port = run("postgres", command, _answers, folder=folder, stop_signal=signal.SIGQUIT, user=user)
    return Postgres(process, port)


def _answers(port: int) -> bool:
    """Asks for encryption, which a server that is ready to talk declines with one letter."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        s.sendall((8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"))
        return s.recv(1) in (b"N", b"S")


def _binary(name: str) -> str:
    """Debian keeps them off the PATH."""
    try:
        return program(name)
    except Missing:
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]) if p.parts[-3].isdigit() else 0)
        if not found:
            raise Missing("PostgreSQL is not on this machine: install the package postgresql (apt, dnf, brew)") from None
        return str(found[-1])


def _other_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
