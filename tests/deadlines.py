"""Deadlines that count questions instead of seconds."""

from pmldesign_solvers.operators import Deadline


class CountedDeadline(Deadline):
    """Passes when it is asked for the k-th time.

    Attributes:
        asked: how often it was asked.
        late: how often after it had passed.
    """

    def __init__(self, k):
        super().__init__()
        self.k, self.asked, self.late = k, 0, 0

    def over(self):
        self.late += self.asked >= self.k
        self.asked += 1
        return self.interrupted or self.asked >= self.k


class DeadlineWhen(Deadline):
    """Passes once a condition holds."""

    def __init__(self, condition):
        super().__init__()
        self._condition = condition

    def over(self):
        return self.interrupted or self._condition()


class InterruptingDeadline(CountedDeadline):
    """Ctrl-C comes when it is asked for the k-th time."""

    def over(self):
        self.late += self.asked >= self.k
        self.asked += 1
        if self.asked == self.k:
            raise KeyboardInterrupt
        return self.interrupted
