"""What a launch plan holds for constants."""

import numpy as np
import pytest
from helpers import graph
from on_device import lower

from rlx_dialect.dtypes import bf16_from_bits
from rlx_dialect.runtime.launch_plan import launch_plan


@pytest.mark.parametrize(("element", "dtype"), [("bf16", np.uint16), ("f16", np.float16), ("f32", np.float32)])
def test_constants_are_as_wide_as_their_elements(element: str, dtype: type[np.generic]):
    module = graph(
        f"%c = rlx.constant dense<[5.250000e-01, -2.0, 3.0]> : tensor<3x{element}>\n"
        f"%y = rlx.binary add %x, %c : (tensor<2x3x{element}>, tensor<3x{element}>) -> tensor<2x3x{element}>",
        f"%x: tensor<2x3x{element}>",
        f"tensor<2x3x{element}>",
        "%y",
    )
    (value,) = launch_plan(lower(module, "cuda")).constants.values()
    assert value.dtype == dtype
    numbers = bf16_from_bits(value) if element == "bf16" else value
    np.testing.assert_allclose(numbers, [0.525, -2, 3], rtol=4e-3)
