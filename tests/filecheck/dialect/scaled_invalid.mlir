// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of floats of few bits says.

// CHECK: error: 'rlx.scaled_quant_scale': operand 'x' must have element type f32, f16 or bf16, got f64
func.func @f(%a: tensor<2x40xf64>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %a : tensor<2x40xf64> -> tensor<1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quant_scale': per_tensor takes no block
func.func @f(%a: tensor<2x40xf32>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %a {block = 8} : tensor<2x40xf32> -> tensor<1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quant_scale': block must be positive, got 0
func.func @f(%a: tensor<2x40xf32>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %a {scale_layout = nvfp4, block = 0} : tensor<2x40xf32> -> tensor<2x1xui8>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quant_scale': operand 'x' must have rank 1 or more for nvfp4
func.func @f(%a: tensor<f32>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %a {scale_layout = nvfp4} : tensor<f32> -> tensor<ui8>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quant_scale': result #0 must be tensor<2x3xui8>, got tensor<2x2xui8>
func.func @f(%a: tensor<2x40xf32>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %a {scale_layout = nvfp4} : tensor<2x40xf32> -> tensor<2x2xui8>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quantize': operand 'scale' must have shape 1, got 2
func.func @f(%a: tensor<2x40xf32>, %b: tensor<2xf32>) {
  %0 = rlx.scaled_quantize f8e4m3 %a, %b : (tensor<2x40xf32>, tensor<2xf32>) -> tensor<2x40xui8>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_quantize': operand 'scale' must have element type f32, got f16
func.func @f(%a: tensor<2x40xf32>, %b: tensor<1xf16>) {
  %0 = rlx.scaled_quantize f8e4m3 %a, %b : (tensor<2x40xf32>, tensor<1xf16>) -> tensor<2x40xui8>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_dequantize': operand 'scale' must be of 8-bit integers, got f32
func.func @f(%a: tensor<2x40xui8>, %b: tensor<2x2xf32>) {
  %0 = rlx.scaled_dequantize f8e4m3 %a, %b {scale_layout = mx_e8m0} : (tensor<2x40xui8>, tensor<2x2xf32>) -> tensor<2x40xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_dequantize': operand 'codes' must be of 8-bit integers, got i32
func.func @f(%a: tensor<2x40xi32>, %b: tensor<1xf32>) {
  %0 = rlx.scaled_dequantize f8e4m3 %a, %b : (tensor<2x40xi32>, tensor<1xf32>) -> tensor<2x40xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_matmul': operands 'lhs' and 'rhs' must have shapes MxK and NxK, got 2x40 and 40x5
func.func @f(%a: tensor<2x40xui8>, %b: tensor<40x5xui8>, %c: tensor<1xf32>) {
  %0 = rlx.scaled_matmul %a, %b, %c, %c {lhs_format = f8e4m3, rhs_format = f8e4m3} : (tensor<2x40xui8>, tensor<40x5xui8>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_matmul': operand 'bias' must have shape 5, got 4
func.func @f(%a: tensor<2x40xui8>, %b: tensor<5x40xui8>, %c: tensor<1xf32>, %d: tensor<4xf32>) {
  %0 = rlx.scaled_matmul %a, %b, %c, %c, %d {lhs_format = f8e4m3, rhs_format = f8e4m3} : (tensor<2x40xui8>, tensor<5x40xui8>, tensor<1xf32>, tensor<1xf32>, tensor<4xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scaled_matmul': operand 'bias' must have element type f32, got i32
func.func @f(%a: tensor<2x40xui8>, %b: tensor<5x40xui8>, %c: tensor<1xf32>, %d: tensor<5xi32>) {
  %0 = rlx.scaled_matmul %a, %b, %c, %c, %d {lhs_format = f8e4m3, rhs_format = f8e4m3} : (tensor<2x40xui8>, tensor<5x40xui8>, tensor<1xf32>, tensor<1xf32>, tensor<5xi32>) -> tensor<2x5xf32>
  func.return
}
