"""Processes that are killed, and what they leave."""

import os


def in_a_child(work):
    """What a process of its own ends with: minus the signal that killed it, or its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
