# Configuration of lit: `lit tests/filecheck` runs the RUN lines with the installed tools.
# ruff: noqa: F821
import os

import lit.formats

config.name = "RLX"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.environment["PATH"] = os.environ["PATH"]
