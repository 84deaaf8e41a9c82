"""What Metal's language can say and SPIR-V cannot, put into the text that SPIRV-Cross writes."""

from __future__ import annotations

import re

from rlx_dialect.lowering.to_gpu.simdgroup import MULTIPLY

_DEFINITION = re.compile(rf"(?ms)^static inline [^\n]*\nfloat2 {MULTIPLY}\([^)]*\)\n\{{\n.*?^\}}$")

_ON_THE_UNIT = f"""\
static inline __attribute__((always_inline))
float2 {MULTIPLY}(half a0, half a1, half b0, half b1, float2 c, uint)
{{
    simdgroup_matrix<half, 8, 8> a, b;
    simdgroup_matrix<float, 8, 8> sums, result;
    reinterpret_cast<thread half2&>(a.thread_elements()) = half2(a0, a1);
    reinterpret_cast<thread half2&>(b.thread_elements()) = half2(b0, b1);
    reinterpret_cast<thread float2&>(sums.thread_elements()) = c;
    simdgroup_multiply_accumulate(result, a, b, sums);
    return reinterpret_cast<thread float2&>(result.thread_elements());
}}"""

_STANDARD = "#include <metal_stdlib>\n"


def with_simdgroups(text: str) -> str:
    """The text with products of 8 x 8 matrices on the unit, where it has any."""
    made, count = _DEFINITION.subn(_ON_THE_UNIT, text)
    assert count == (1 if MULTIPLY in text else 0), f"{count} definitions of {MULTIPLY}"
    return made.replace(_STANDARD, f"{_STANDARD}#include <metal_simdgroup_matrix>\n") if count else made
