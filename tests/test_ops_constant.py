"""Constants: their values, their text, and what folding makes of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_close, parse
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    ComplexType,
    Float16Type,
    IndexType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
    f64,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute
from xdsl.transforms.canonicalize import CanonicalizePass

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.xdsl_compat import print_generic, print_module, rlx_context

RNG = np.random.default_rng(0)
REALS = np.concatenate(
    [
        RNG.standard_normal(30) * 10.0 ** RNG.integers(-40, 40, 30),
        RNG.integers(10**5, 10**10, 10).astype(float),
        [0.0, -0.0, 16777217.0, 0.1, 1e-45, np.inf, -np.inf, np.nan, 5e-324, 65504.0],
    ]
).reshape(5, 10)


def of_text(text: str) -> ConstantOp:
    (op,) = (op for op in parse(text).walk() if isinstance(op, ConstantOp))
    return op


def test_truth_values_are_one_attribute_and_proper_booleans():
    """xDSL's byte for true is 0xff, NumPy's is 1."""
    read = of_text("rlx.constant dense<[true, false]> : tensor<2xi1>")
    assert read.value == ConstantOp.of(np.array([True, False]), TensorType(i1, [2])).value
    values = read.array()
    assert values is not None
    assert values.view(np.uint8).tolist() == [1, 0]
    assert not values.flags.writeable


@pytest.mark.parametrize("element", [f32, f64, Float16Type(), BFloat16Type()], ids=str)
@pytest.mark.parametrize("values", [REALS, REALS[:, :5], np.full((3, 40), np.inf), np.full((), np.nan)])
def test_floats_survive_the_text(element: Attribute, values: Array):
    op = ConstantOp.of(values, TensorType(element, values.shape))
    for show in (print_module, print_generic):
        found, expected = of_text(show(ModuleOp([op.clone()]))).array(), op.array()
        assert found is not None
        assert expected is not None
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("element", [f32, f64], ids=str)
def test_complex_numbers_survive_the_text(element: AnyFloat):
    values = np.stack([REALS, REALS[::-1, ::-1]], axis=-1).view(np.complex128)[..., 0]
    op = ConstantOp.of(values, TensorType(ComplexType(element), values.shape))
    found = of_text(print_module(ModuleOp([op]))).array()
    np.testing.assert_array_equal(found, values.astype(np.complex64 if element == f32 else np.complex128))


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (i1, np.array([[True, False, False]])),
        (i1, np.arange(300) % 3 == 0),
        (i8, np.array([-128, 127])),
        (IntegerType(8, Signedness.UNSIGNED), np.array([0, 255])),
        (i64, np.array([-(2**63), 2**63 - 1])),
        (IndexType(), np.array(7)),
        (f32, np.zeros((0, 3))),
        (f32, np.zeros((10, 3))),
    ],
    ids=str,
)
def test_other_values_survive_the_text(element: Attribute, values: Array):
    op = ConstantOp.of(values, TensorType(element, values.shape))
    for show in (print_module, print_generic):
        found = of_text(show(ModuleOp([op.clone()]))).array()
        assert found is not None
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("element", [Float16Type(), BFloat16Type()], ids=str)
def test_values_are_rounded_to_the_element_type(element: Attribute):
    values = RNG.standard_normal(64).astype(np.float32)
    rounded = values.astype(np.float16 if isinstance(element, Float16Type) else ml_dtypes.bfloat16)
    found = ConstantOp.of(values, TensorType(element, (64,))).array()
    np.testing.assert_array_equal(found, rounded.astype(np.float32))


def test_values_broadcast_to_the_type():
    found = ConstantOp.of(np.array([[1], [2]]), TensorType(f32, (2, 3))).array()
    assert found is not None
    assert_close([found], [np.array([[1, 1, 1], [2, 2, 2]], np.float32)])


def test_hex_in_a_list_of_floats_is_a_bit_pattern():
    found = of_text("%0 = rlx.constant dense<[0x7F800000, 0xC0490FDB, 2.5]> : tensor<3xf32>").array()
    np.testing.assert_array_equal(found, np.array([np.inf, -3.1415927, 2.5], np.float32))
    found = of_text("%0 = rlx.constant dense<0x7FF0000000000000> : tensor<2xf64>").array()
    np.testing.assert_array_equal(found, np.array([np.inf, np.inf]))
    found = of_text("%0 = rlx.constant dense<[(0x7F800000, 0x3F800000)]> : tensor<1xcomplex<f32>>").array()
    np.testing.assert_array_equal(found, np.array([complex(np.inf, 1)], np.complex64))


def test_a_resource_has_no_value_in_the_text():
    op = of_text("%0 = rlx.constant dense_resource<weights> : tensor<3xf32>")
    assert op.array() is None
    module = parse(
        "func.func @main() -> tensor<3xf32> {\n%0 = rlx.constant dense_resource<weights> : tensor<3xf32>\n"
        "func.return %0 : tensor<3xf32>\n}"
    )
    with pytest.raises(Exception, match=r"'rlx.constant': the value lies in a resource and cannot be evaluated"):
        run_reference(module, {})


def test_xdsls_canonicaliser_folds_into_constants():
    module = parse(
        """
        func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>) {
          %a = rlx.constant dense<[-1.0, 2.0]> : tensor<2xf32>
          %b = rlx.constant dense<3.0> : tensor<f32>
          %c = rlx.activation relu %a : tensor<2xf32>
          %d = rlx.binary mul %c, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
          %e = rlx.compare gt %d, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xi1>
          %f = rlx.cast %x : tensor<2xf32> -> tensor<2xf32>
          %g = rlx.binary add %f, %d : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %g, %e : tensor<2xf32>, tensor<2xi1>
        }
        """
    )
    x = np.array([0.5, 0.25], np.float32)
    before = run_reference(module, {"arg0": x})
    context: Context = rlx_context()
    CanonicalizePass().apply(context, module)
    module.verify()
    names = [op.name for op in module.walk() if op.name.startswith("rlx.")]
    assert sorted(names) == ["rlx.binary", "rlx.constant", "rlx.constant"]
    assert_close(run_reference(module, {"arg0": x}), before)
