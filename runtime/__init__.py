"""Engines: they compile lowered modules and run them on NumPy arrays."""
