"""What Metal's language can say and SPIR-V cannot, put into the text that SPIRV-Cross writes."""

from __future__ import annotations

import re

from rlx_dialect.lowering.to_gpu.simdgroup import ELEMENTS

_DEFINITION = re.compile(
    r"(?ms)^(static inline [^\n]*\nfloat2 (" + "|".join(ELEMENTS) + r")\((half|float) )[^)]*\)\n\{\n.*?^\}$"
)

_ON_THE_UNIT = r"""\1a0, \3 a1, \3 b0, \3 b1, float2 c, uint)
{
    simdgroup_matrix<\3, 8, 8> a, b;
    simdgroup_matrix<float, 8, 8> sums, result;
    reinterpret_cast<thread \g<3>2&>(a.thread_elements()) = \g<3>2(a0, a1);
    reinterpret_cast<thread \g<3>2&>(b.thread_elements()) = \g<3>2(b0, b1);
    reinterpret_cast<thread float2&>(sums.thread_elements()) = c;
    simdgroup_multiply_accumulate(result, a, b, sums);
    return reinterpret_cast<thread float2&>(result.thread_elements());
}"""

_STANDARD = "#include <metal_stdlib>\n"


def with_simdgroups(text: str) -> str:
    """The text with products of 8 x 8 matrices on the unit, where it has any."""
    made, count = _DEFINITION.subn(_ON_THE_UNIT, text)
    assert bool(count) == any(name in text for name in ELEMENTS), "a product of 8 x 8 matrices in other words"
    return made.replace(_STANDARD, f"{_STANDARD}#include <metal_simdgroup_matrix>\n") if count else made
