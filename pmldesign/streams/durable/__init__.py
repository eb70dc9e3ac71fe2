"""Streams that outlive their process.

lines        what lines of input say: numbers, events, corrections
journal      takes steps of a stream durably
corrections  which steps were corrected, and whether the participation allows it
log          its two files: the record, and the witness that refuses an old one
record       the record as text: answers, digests of inputs, the state
"""
