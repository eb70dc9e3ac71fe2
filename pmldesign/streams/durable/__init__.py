"""Streams that outlive their process.

journal   takes steps of a stream durably
log       its two files: the record, and the witness that refuses an old one
record    the record as text: answers, digests of inputs, the state
"""
