"""Designs for tables that cross attributes; those of single attributes are `separate`."""
