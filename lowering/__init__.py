"""Lowerings of the RLX dialect to dialects that other compilers take."""

UNSIGNED = "rlx.unsigned"
"""Unit attribute of an argument or result that was of unsigned integers: lowered integers have no sign."""
