"""python -m pmldesign, and the command `pmldesign`: the command line."""

import sys


def run() -> None:
    """The command line, from its first import on."""
    try:
        from pmldesign.cli import main

        main(prog_name="pmldesign")
    except KeyboardInterrupt:  # before a command handles it
        print("error: interrupted before it was done", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run()
