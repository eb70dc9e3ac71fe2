"""Streams with so little noise that an answer shows which inputs were counted."""

from pmldesign.streams import Designed, FloatingGaussian, Journal, Log, Stream

N, RATE, QUIET = 30, 0.9, 1e-9


def journal(designed, path, scale=QUIET):
    return Journal(Stream(Designed(designed.strategy), scale, FloatingGaussian()), path)


def sums(inputs):
    """The exact answers to inputs."""
    found = []
    for x in inputs:
        found.append(x + (RATE * found[-1] if found else 0.0))
    return found


def taken(designed, path, inputs):
    """Take inputs in, one by one, and close the files."""
    opened = journal(designed, path)
    answers = [opened.step(x).value for x in inputs]
    opened.close()
    return answers


def position(path):
    """Where a state stands."""
    log = Log(path)
    log.close()
    return log.position
