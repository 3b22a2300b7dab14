"""Chromium without a window: what it makes of a page, as a document and as a picture.  It is asked, and ends; nothing is left running."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from servers.programs import Missing, program

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_S = 120  # a machine that builds and tests beside


@dataclass(frozen=True, slots=True)
class Chromium:
    """The browser at `path`."""

    path: str

    def document(self, page: Path, width: int, height: int = 900) -> str:
        """The page's document once it is laid out and its scripts have run, as HTML."""
        return self._run(page, width, height, "--dump-dom").decode()

    def picture(self, page: Path, file: Path, width: int, height: int = 900) -> bytes:
        """The page as a PNG of `width` by `height` pixels, kept in `file`."""
        self._run(page, width, height, f"--screenshot={file}")
        return file.read_bytes()

    def _run(self, page: Path, width: int, height: int, *what: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="rowlock-chromium-") as profile:
            quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run")
            command = [self.path, *quiet, f"--user-data-dir={profile}", f"--window-size={width},{height}", *what, page.as_uri()]
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout


def find() -> Chromium:
    """The browser of this machine.  Raises Missing."""
    for name in _NAMES:
        try:
            return Chromium(program(name))
        except Missing:
            continue
    raise Missing("chromium is not on this machine: `make servers` installs it where apt can (else: apt, dnf or brew install chromium)")
