"""RLX to linalg on tensors: one file a family of operations, ``rlx-lower-to-linalg`` drives them."""

BARRIER = "rlx.barrier_before"
"""Discardable unit attribute on the first linalg operation of a norm.

A compiler that forms its own dispatches (IREE) should not fuse what produces the norm's operands into the norm:
the engine puts an optimisation barrier there. Other compilers ignore it.
"""
