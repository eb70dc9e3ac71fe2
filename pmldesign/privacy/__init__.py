"""What is promised: arithmetic whose rounding never weakens a guarantee."""
