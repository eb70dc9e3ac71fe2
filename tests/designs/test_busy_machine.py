"""Ten designs have the same digits alone and beside four busy processes."""

from robustness.loaded import differing


def test_designs_do_not_depend_on_the_load(little_work):
    assert differing() == []
