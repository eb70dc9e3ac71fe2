"""The kinds of rows of reconstructions L that are never written out."""
