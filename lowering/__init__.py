"""Lowerings of the RLX dialect to dialects that other compilers take."""
