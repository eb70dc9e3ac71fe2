"""python -m pmldesign, and the command `pmldesign`: the command line.

Imports take a moment: Ctrl-C ends the process at once until they are done. Then it is that of the
command, and at the end it is ignored. This module and the package import nothing else before.
"""

import os

INTERRUPTED = b"error: interrupted before it was done\n"


def run() -> None:
    """The command line, from its first import on."""
    try:
        _run()
    except KeyboardInterrupt:  # between two handlers
        os.write(2, INTERRUPTED)
        raise SystemExit(1) from None


def _run() -> None:
    import signal

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
    """End the process at once, and say so once, however often Ctrl-C is pressed."""
    import signal

    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        os.write(2, INTERRUPTED)
    finally:  # also where nobody reads it
        os._exit(1)


if __name__ == "__main__":
    run()
