"""The spellings that exporters use, each family of operations in one module; ``rlx-canonicalize-ops`` finds them."""
