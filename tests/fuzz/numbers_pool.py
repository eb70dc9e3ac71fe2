"""Numbers as a user may type them: usual, extreme, and none at all."""

from random import Random

USUAL = ("0.1", "0.5", "1", "2", "3", "10")
SMALL = ("1e-3", "1e-6", "1e-9", "0.05", "0.2")
EXTREME = (
    *("0", "-1", "-0", "1e-17", "1e-160", "1e-300", "5e-324", "1e-400", "1e16", "1e155", "1e308"),
    *("inf", "-inf", "nan", "0.9999999999999999", "1.0000000000000002", "2.0001", "1000", "20000"),
)
WRONG = ("", "abc", "1,,2", "0,5", "1;7", "0x10", "1_0", "٣", "1e", "--", "1 2", "\x1b[31m", "½")
SIZES = ("1", "2", "3", "4", "5", "8", "12")
WRONG_SIZES = ("0", "-1", "1.5", "99999999999999999999", "", "x", "1e3", "3..", "..4", "2^3", "٣")


def number(random: Random, usual: tuple[str, ...] = USUAL) -> str:
    """Mostly usual, sometimes extreme, seldom no number."""
    chance = random.random()
    if chance < 0.9:
        return random.choice(usual)
    return random.choice(EXTREME if chance < 0.98 else WRONG)


def size(random: Random) -> str:
    """The size of a named workload."""
    return random.choice(SIZES if random.random() < 0.97 else WRONG_SIZES)
