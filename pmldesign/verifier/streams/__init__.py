"""Streams: their recurrences, resolvents, and people who take part several times."""
