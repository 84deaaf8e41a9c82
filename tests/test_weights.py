import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from helpers import parse
from safetensors import safe_open
from xdsl.dialects.builtin import bf16

from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.graph import main_function
from rlx_dialect.weights import SideFile, WeightsError, find_weights, random_weights, write_weights

DTYPES = ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "ui8", "ui32", "i1", "complex<f32>"]


def module_of(*params: tuple[str, str], attributes: str = ""):
    """A graph with parameters (name, type) that it does not use."""
    arguments = "".join(f', %{i}: {type} {{rlx.param = "{name}"}}' for i, (name, type) in enumerate(params))
    text = f"""
      func.func @main(%x: tensor<2xf32> {{rlx.input = "x"}}{arguments}) -> tensor<2xf32> {{
        func.return %x : tensor<2xf32>
      }}"""
    return parse(f"builtin.module {attributes} {{\n{text}\n}}")


def written(tmp_path: Path, params: list[tuple[str, str]], weights: dict[str, Array]) -> Path:
    path = tmp_path / "model.safetensors"
    write_weights(path, main_function(module_of(*params)), weights)
    return path


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(tmp_path: Path, dtype: str):
    module = module_of(("a", f"tensor<3x2x{dtype}>"), ("scalar", f"tensor<{dtype}>"), ("none", f"tensor<0x4x{dtype}>"))
    weights = random_weights(main_function(module), seed=3)
    write_weights(tmp_path / "m.safetensors", main_function(module), weights)
    file = find_weights(module, tmp_path / "m.mlir")
    assert file is not None
    assert set(file) == {"a", "scalar", "none"}
    for name, value in weights.items():
        assert file[name].dtype == value.dtype
        assert file[name].shape == value.shape
        np.testing.assert_array_equal(file[name], value)


def test_bf16_takes_two_bytes_and_rounds_to_nearest_even(tmp_path: Path):
    values = np.array([1.0, 1.00390625, 1.01171875, -3.1415927, np.inf, np.nan], np.float32)
    file = SideFile(written(tmp_path, [("w", "tensor<6xbf16>")], {"w": values}))
    assert file.entries["w"].end - file.entries["w"].begin == 12
    np.testing.assert_array_equal(file["w"], round_to(values, bf16))
    np.testing.assert_array_equal(file["w"][:3], np.array([1.0, 1.0, 1.015625], np.float32))


def test_safetensors_package_reads_what_is_written(tmp_path: Path):
    weights: dict[str, Array] = {
        "odd/name:0": np.arange(3, dtype=np.int8),
        "wide": np.arange(10.0).reshape(5, 2),
        "ü": np.array([True, False]),
    }
    path = written(
        tmp_path, [("odd/name:0", "tensor<3xi8>"), ("wide", "tensor<5x2xf64>"), ("ü", "tensor<2xi1>")], weights
    )
    loaded = safetensors.numpy.load_file(path)
    assert set(loaded) == set(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(loaded[name], value)
    with safe_open(written(tmp_path, [("h", "tensor<2xbf16>")], {"h": np.float32([1, 2])}), framework="np") as file:
        assert file.get_slice("h").get_dtype() == "BF16"


def test_reads_what_the_safetensors_package_writes(tmp_path: Path):
    weights = {"b": np.arange(6, dtype=np.float16).reshape(2, 3), "a": np.arange(4, dtype=np.int64)}
    safetensors.numpy.save_file(weights, tmp_path / "x.safetensors", metadata={"made": "by hand"})
    file = SideFile(tmp_path / "x.safetensors")
    assert sorted(file) == ["a", "b"]
    for name, value in weights.items():
        np.testing.assert_array_equal(file[name], value)


def test_non_contiguous_and_broadcast_values_are_written_in_row_major_order(tmp_path: Path):
    weights = {
        "t": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "fill": np.broadcast_to(np.float32(0.5), (2, 2)),
    }
    file = SideFile(written(tmp_path, [("t", "tensor<3x2xf32>"), ("fill", "tensor<2x2xf32>")], weights))
    np.testing.assert_array_equal(file["t"], [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(file["fill"], np.full((2, 2), 0.5))


def test_tensors_are_mapped_not_copied_and_cannot_be_written(tmp_path: Path):
    file = SideFile(written(tmp_path, [("w", "tensor<4xf32>")], {"w": np.arange(4, dtype=np.float32)}))
    assert np.shares_memory(file["w"], file._bytes)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ValueError, match="read-only"):
        file["w"][0] = 1


def test_file_is_found_beside_the_module_or_by_its_attribute(tmp_path: Path):
    params = [("w", "tensor<2xf32>")]
    (tmp_path / "in").mkdir()
    written(tmp_path, params, {"w": np.float32([1, 2])})
    here = module_of(*params)
    there = module_of(*params, attributes='attributes {rlx.weights = "../model.safetensors"}')
    assert find_weights(here, tmp_path / "other.mlir") is None
    for module, mlir in ((here, tmp_path / "model.mlir"), (there, tmp_path / "in" / "other.mlir")):
        file = find_weights(module, mlir)
        assert file is not None
        np.testing.assert_array_equal(file["w"], [1, 2])


def test_named_file_must_exist(tmp_path: Path):
    module = module_of(attributes='attributes {rlx.weights = "gone.safetensors"}')
    with pytest.raises(WeightsError, match=r"gone\.safetensors: a \.safetensors file expected: .*No such file"):
        find_weights(module, tmp_path / "m.mlir")


def test_attribute_must_be_a_string(tmp_path: Path):
    module = module_of(attributes="attributes {rlx.weights = 3 : i64}")
    with pytest.raises(WeightsError, match=r"m\.mlir: rlx\.weights must be a string, got 3 : i64"):
        find_weights(module, tmp_path / "m.mlir")


def test_every_misfit_is_listed(tmp_path: Path):
    path = written(
        tmp_path,
        [("shape", "tensor<2x3xf32>"), ("dtype", "tensor<2xf16>"), ("fine", "tensor<2xf32>")],
        {"shape": np.zeros((2, 3)), "dtype": np.zeros(2), "fine": np.zeros(2)},
    )
    module = module_of(
        ("shape", "tensor<3x2xf32>"), ("dtype", "tensor<2xf32>"), ("gone", "tensor<i64>"), ("fine", "tensor<?xf32>")
    )
    with pytest.raises(WeightsError) as error:
        find_weights(module, path.with_suffix(".mlir"))
    assert str(error.value) == (
        f"{path}: does not fit @main:\n"
        "parameter 'shape': f32 of shape 3x2 expected, f32 of shape 2x3 found\n"
        "parameter 'dtype': f32 of shape 2 expected, f16 of shape 2 found\n"
        "parameter 'gone': i64 of shape scalar expected, not in the file"
    )


def header(value: object, data: bytes = b"") -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(dtype: str, begin: int, end: int, shape: Sequence[int] = (2,)) -> dict[str, object]:
    return {"w": {"dtype": dtype, "shape": [*shape], "data_offsets": [begin, end]}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file expected"),
        (b"\x01\x02", "the file has 2 bytes"),
        (b"\xff" * 8 + b"{}", "its header"),
        ((2).to_bytes(8, "little") + b"{!", "its header is no JSON"),
        (header([1]), "its header is no JSON object"),
        (header(tensor("Q4", 0, 8)), "tensor 'w' is described by"),
        (header({"w": {"dtype": "F32", "shape": [2]}}), "tensor 'w' is described by"),
        (header(tensor("F32", 0, 8), b"1234"), "tensor 'w' of 8 bytes lies at 0 to 8"),
        (header(tensor("F32", 0, 4), b"1234"), "tensor 'w' of 8 bytes lies at 0 to 4"),
        (header(tensor("U8", -2, 0)), "tensor 'w' of 2 bytes lies at -2 to 0"),
        (header(tensor("U8", 0, 2, [-1, -2]), b"12"), "tensor 'w' is described by"),
        (header(tensor("U8", 0, 0, [0, 2**63])), "tensor 'w' is described by"),
        ((9002).to_bytes(8, "little") + b"[" * 4501 + b"]" * 4501, "its header is no JSON"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=message) as error:
        SideFile(path)
    assert str(error.value).startswith(f"{path}: ")


def test_write_refuses_what_does_not_fit(tmp_path: Path):
    with pytest.raises(WeightsError, match="no value for parameter 'w'"):
        written(tmp_path, [("w", "tensor<2xf32>")], {})
    with pytest.raises(WeightsError, match="parameter 'w' must have shape 2, got 3"):
        written(tmp_path, [("w", "tensor<2xf32>")], {"w": np.zeros(3)})
    with pytest.raises(WeightsError, match="parameter 'w' of complex<f64> has no"):
        written(tmp_path, [("w", "tensor<2xcomplex<f64>>")], {"w": np.zeros(2)})
    with pytest.raises(WeightsError, match="cannot be written"):
        write_weights(tmp_path / "no folder" / "m.safetensors", main_function(module_of()), {})
    assert list(tmp_path.iterdir()) == []


def test_random_weights_depend_on_seed_and_name_only():
    one = random_weights(main_function(module_of(("w", "tensor<3x4xf32>"))), 1)
    more = random_weights(main_function(module_of(("a", "tensor<3x4xf32>"), ("w", "tensor<3x4xf32>"))), 1)
    np.testing.assert_array_equal(one["w"], more["w"])
    assert (one["w"] != more["a"]).any()
    assert (random_weights(main_function(module_of(("w", "tensor<3x4xf32>"))), 2)["w"] != one["w"]).any()


def test_random_matrices_keep_the_size_of_what_they_multiply():
    text = """
    func.func @main(%x: tensor<64x400xf32> {rlx.input = "x"}, %w: tensor<400x300xf32> {rlx.param = "w"},
                    %b: tensor<300xf32> {rlx.param = "b"}) -> tensor<64x300xf32> {
      %0 = rlx.matmul %x, %w : (tensor<64x400xf32>, tensor<400x300xf32>) -> tensor<64x300xf32>
      %1 = rlx.binary add %0, %b : (tensor<64x300xf32>, tensor<300xf32>) -> tensor<64x300xf32>
      func.return %1 : tensor<64x300xf32>
    }"""
    weights = random_weights(main_function(parse(text)))
    product = np.random.default_rng(0).standard_normal((64, 400)) @ weights["w"]
    assert 0.9 < product.std() < 1.1
    assert weights["b"].std() < 0.2


def test_random_vectors_that_something_is_multiplied_by_are_near_one():
    text = """
    func.func @main(%x: tensor<4x50xf32> {rlx.input = "x"}, %g: tensor<50xf32> {rlx.param = "gamma"},
                    %b: tensor<50xf32> {rlx.param = "beta"}, %s: tensor<50xf32> {rlx.param = "scale"},
                    %t: tensor<50xf32> {rlx.param = "shift"}) -> tensor<4x50xf32> {
      %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-5} : 
           (tensor<4x50xf32>, tensor<50xf32>, tensor<50xf32>) -> tensor<4x50xf32>
      %1 = rlx.reshape %s {new_shape = [1, 50]} : tensor<50xf32> -> tensor<1x50xf32>
      %2 = rlx.binary mul %0, %1 : (tensor<4x50xf32>, tensor<1x50xf32>) -> tensor<4x50xf32>
      %3 = rlx.binary add %2, %t : (tensor<4x50xf32>, tensor<50xf32>) -> tensor<4x50xf32>
      func.return %3 : tensor<4x50xf32>
    }"""
    means = {name: round(float(value.mean()), 0) for name, value in random_weights(main_function(parse(text))).items()}
    assert means == {"gamma": 1, "beta": 0, "scale": 1, "shift": 0}


def test_random_weights_need_static_shapes():
    with pytest.raises(WeightsError, match=r"parameter 'w' must have a static shape, got \?x2"):
        random_weights(main_function(module_of(("w", "tensor<?x2xf32>"))))
