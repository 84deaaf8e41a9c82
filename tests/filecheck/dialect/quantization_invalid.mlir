// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of quantisation says.

// CHECK: error: 'rlx.quantize': operand 'x' must have a float element type, got i32
func.func @f(%a: tensor<2x3xi32>) {
  %0 = rlx.quantize %a {scales = [0.5], zero_points = [3]} : tensor<2x3xi32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': the result must have an integer element type of 8 or 16 bits, got i32
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {scales = [0.5], zero_points = [3]} : tensor<2x3xf32> -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': zero point 128 is outside i8
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {scales = [0.5], zero_points = [128]} : tensor<2x3xf32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': scales and zero_points must list 1 numbers, got 2 and 2
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {scales = [0.5, 0.5], zero_points = [0, 0]} : tensor<2x3xf32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': scales and zero_points must list 3 numbers, got 3 and 2
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {axis = 1, scales = [0.5, 0.5, 1.0], zero_points = [0, 0]} : tensor<2x3xf32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': scales must be positive and finite, got [0.0]
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {scales = [0.0], zero_points = [0]} : tensor<2x3xf32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.quantize': axis 2 is outside rank 2
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.quantize %a {axis = 2, scales = [0.5], zero_points = [0]} : tensor<2x3xf32> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.dequantize': operand 'q' must have an integer element type of 8 or 16 bits, got i32
func.func @f(%a: tensor<2x3xi32>) {
  %0 = rlx.dequantize %a {scales = [0.5], zero_points = [3]} : tensor<2x3xi32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequantize': the result must have a float element type, got i8
func.func @f(%a: tensor<2x3xi8>) {
  %0 = rlx.dequantize %a {scales = [0.5], zero_points = [3]} : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': bits must be 8, 4 or 2, got 3
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.fake_quantize %a {bits = 3} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': operand 'x' must have a float element type, got i8
func.func @f(%a: tensor<2x3xi8>) {
  %0 = rlx.fake_quantize %a {bits = 8} : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': fixed takes an operand 'state'
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.fake_quantize fixed %a {bits = 8} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': per_batch takes no operand 'state'
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf32>) {
  %0 = rlx.fake_quantize %a, %b {bits = 8} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': ema needs decay
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf32>) {
  %0 = rlx.fake_quantize ema %a, %b {bits = 8} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': fixed takes no decay
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf32>) {
  %0 = rlx.fake_quantize fixed %a, %b {bits = 8, decay = 0.5} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': decay must be from 0 to 1, got 1.5
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf32>) {
  %0 = rlx.fake_quantize ema %a, %b {bits = 8, decay = 1.5} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': fixed has no second result
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf32>) {
  %0, %1 = rlx.fake_quantize fixed %a, %b {bits = 8} : (tensor<2x3xf32>, tensor<1xf32>) -> (tensor<2x3xf32>, tensor<1xf32>)
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': operand 'state' must have shape 3, got 2
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  %0 = rlx.fake_quantize fixed %a, %b {bits = 8, axis = 1} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fake_quantize': operand 'state' must have element type f32 like operand 'x', got f16
func.func @f(%a: tensor<2x3xf32>, %b: tensor<1xf16>) {
  %0 = rlx.fake_quantize fixed %a, %b {bits = 8} : (tensor<2x3xf32>, tensor<1xf16>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.q_matmul': operand 'bias' must have element type i32, got f32
func.func @f(%a: tensor<2x4xi8>, %b: tensor<4x5xi8>, %c: tensor<5xf32>) {
  %0 = rlx.q_matmul %a, %b, %c {x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<2x4xi8>, tensor<4x5xi8>, tensor<5xf32>) -> tensor<2x5xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_matmul': operand 'bias' must have shape 5, got 4
func.func @f(%a: tensor<2x4xi8>, %b: tensor<4x5xi8>, %c: tensor<4xi32>) {
  %0 = rlx.q_matmul %a, %b, %c {x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<2x4xi8>, tensor<4x5xi8>, tensor<4xi32>) -> tensor<2x5xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_matmul': x_zp 200 is outside i8
func.func @f(%a: tensor<2x4xi8>, %b: tensor<4x5xi8>, %c: tensor<5xi32>) {
  %0 = rlx.q_matmul %a, %b, %c {x_zp = 200, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<2x4xi8>, tensor<4x5xi8>, tensor<5xi32>) -> tensor<2x5xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_matmul': mult must be positive and finite, got 0.0
func.func @f(%a: tensor<2x4xi8>, %b: tensor<4x5xi8>, %c: tensor<5xi32>) {
  %0 = rlx.q_matmul %a, %b, %c {x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.0} : (tensor<2x4xi8>, tensor<4x5xi8>, tensor<5xi32>) -> tensor<2x5xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_matmul': contracted extents (lhs last, rhs second last): 4 and 3 differ
func.func @f(%a: tensor<2x4xi8>, %b: tensor<3x5xi8>, %c: tensor<5xi32>) {
  %0 = rlx.q_matmul %a, %b, %c {x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<2x4xi8>, tensor<3x5xi8>, tensor<5xi32>) -> tensor<2x5xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_conv2d': operand 'input' must have rank 4, got 1x4x8
func.func @f(%a: tensor<1x4x8xi8>, %b: tensor<6x4x3xi8>, %c: tensor<6xi32>) {
  %0 = rlx.q_conv2d %a, %b, %c {kernel_size = [3], x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<1x4x8xi8>, tensor<6x4x3xi8>, tensor<6xi32>) -> tensor<1x6x6xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.q_conv2d': operand 'bias' must have shape 6, got 5
func.func @f(%a: tensor<1x4x8x8xi8>, %b: tensor<6x4x3x3xi8>, %c: tensor<5xi32>) {
  %0 = rlx.q_conv2d %a, %b, %c {kernel_size = [3, 3], x_zp = 0, w_zp = 0, out_zp = 0, mult = 0.5} : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>, tensor<5xi32>) -> tensor<1x6x6x6xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': operand 'x' must have element type f32, f16 or bf16, got f64
func.func @f(%a: tensor<2x5xf64>, %b: tensor<5x4xi8>, %c: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %a, %b, %c {block_size = 2} : (tensor<2x5xf64>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': operand 'w_q' must have element type i8, got i32
func.func @f(%a: tensor<2x5xf32>, %b: tensor<5x4xi32>, %c: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %a, %b, %c {block_size = 2} : (tensor<2x5xf32>, tensor<5x4xi32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': operand 'scale' must have shape 3x4, got 2x4
func.func @f(%a: tensor<2x5xf32>, %b: tensor<5x4xi8>, %c: tensor<2x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %a, %b, %c {block_size = 2} : (tensor<2x5xf32>, tensor<5x4xi8>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': int8_block_asym takes an operand 'zp'
func.func @f(%a: tensor<2x5xf32>, %b: tensor<5x4xi8>, %c: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block_asym %a, %b, %c {block_size = 2} : (tensor<2x5xf32>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': block_size must be positive, got 0
func.func @f(%a: tensor<2x5xf32>, %b: tensor<5x4xi8>, %c: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %a, %b, %c {block_size = 0} : (tensor<2x5xf32>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dequant_matmul': operand 'w_q' must have rank 2, got 1x5x4
func.func @f(%a: tensor<2x5xf32>, %b: tensor<1x5x4xi8>, %c: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %a, %b, %c {block_size = 2} : (tensor<2x5xf32>, tensor<1x5x4xi8>, tensor<3x4xf32>) -> tensor<1x2x4xf32>
  func.return
}
