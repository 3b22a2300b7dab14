"""`python -m rowlock`: the command line."""

from rowlock.cli.main import app

app(prog_name="rowlock")
