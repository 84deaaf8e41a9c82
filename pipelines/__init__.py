"""Targets, claim sets, options, pass selection and the named pipelines made of them; the ``rlx-opt`` command line."""
