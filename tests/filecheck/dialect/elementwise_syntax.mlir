// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser of the common assembly format says.

// CHECK: 'rlx.activation': 'gell' is none of gelu, gelu_approx, silu, relu, sigmoid, tanh, exp, log, sqrt, rsqrt, neg, abs, round, sin, cos, tan, atan, recip, floor, ceil, sign, softplus, elu, erf, hard_swish, hard_sigmoid, mish, softsign, log_sigmoid
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation gell %x : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.binary': 'plus' is none of add, sub, mul, div, max, min, pow, mod, bit_and, bit_or, bit_xor, shl, shr, atan2
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.binary plus %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.binary': 'kind' is given twice
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.binary add %a, %a {kind = add} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 2 operands but 1 operand types
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.binary add %a, %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: Expected ':'
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.binary add %a, %a
  func.return
}

// -----

// CHECK: 'rlx.activation' has no property 'axis' (it has: none)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation relu %x {axis = 1} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.clamp' has no property 'low' (it has: max, min)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.clamp %x {min = 0.0, low = 1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.clamp': 'min' is given twice
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.clamp %x {min = 0.0, min = 1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.clamp': 'min' needs a value
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.clamp %x {min, max = 1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: integer or float literal expected
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.clamp %x {min = big, max = 1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: values used but not defined: [%y]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation relu %y : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: operand is used with type tensor<3x2xf32>, but has been previously used or defined with type tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation relu %x : tensor<3x2xf32>
  func.return
}
