"""The forms of a strategy in a file, each with its checks."""
