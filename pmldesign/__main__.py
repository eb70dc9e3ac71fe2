"""python -m pmldesign, and the command `pmldesign`: the command line.

Imports take a moment: Ctrl-C ends the process at once until they are done. Then it is that of the
command, and at the end it is ignored.
"""

import os
import signal


def run() -> None:
    """The command line, from its first import on."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, _quit)
    from pmldesign.cli import main

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(prog_name="pmldesign")
    finally:  # all is done: only libraries end their threads
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _quit(*_: object) -> None:
    os.write(2, b"error: interrupted before it was done\n")
    os._exit(1)


if __name__ == "__main__":
    run()
