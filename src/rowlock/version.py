"""Rowlock's own version, as it stands in commits."""

VERSION = "0.1.0"
ENGINE_INFO = f"Rowlock/{VERSION}"
