"""Numbers that are intervals: balls of many bits, and double precision with bounds."""
