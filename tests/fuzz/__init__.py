"""Odd command lines and damaged files, thousands of them: none may crash, hang or show NaN.

A case is a command line and the files that it names, drawn from a seed and its number (`cases`,
`mutations`); each runs in a process of its own, forked from one that has imported everything, under
limits of memory and time (`processes`). `python -m fuzz` from tests/, or `make fuzz`.
"""
