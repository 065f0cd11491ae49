"""The command `raygrove`, also as `python -m raygrove`."""

from __future__ import annotations

import sys

from raygrove.shadowing import hidden_packages


def main() -> None:
    """Run the command. Where a file hides one of our packages, say so in one line."""
    if hidden := hidden_packages():
        print(*hidden, sep="\n", file=sys.stderr)
        sys.exit(2)
    from runtime.frontends.console.cli import main as run

    run()


if __name__ == "__main__":
    main()
