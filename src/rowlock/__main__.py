"""The command `rowlock`, and `python -m rowlock`."""

import sys

from rowlock import extras
from rowlock.exceptions import InvalidInput


def main() -> None:
    """Runs the command line.  Ends with exit code 2 and one line where the packages that it is made of are missing."""
    try:
        extras.need("The command line", "typer", "rich")
    except InvalidInput as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    from rowlock.cli.main import app

    app(prog_name="rowlock")


if __name__ == "__main__":
    main()
