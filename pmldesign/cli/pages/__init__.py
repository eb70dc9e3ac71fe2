"""Reports of commands as one HTML file; the numbers are those that --json prints."""
