// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of linear algebra says.

// CHECK: error: 'rlx.dense_solve': operand 'a' must be of square matrices, got 4x3
func.func @f(%a: tensor<4x3xf32>, %b: tensor<4x1xf32>) {
  %0 = rlx.dense_solve %a, %b : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dense_solve': operand 'a' must have rank 2 or more, got 4
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  %0 = rlx.dense_solve %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dense_solve': operand 'b' must have shape 4x1, got 3x1
func.func @f(%a: tensor<4x4xf32>, %b: tensor<3x1xf32>) {
  %0 = rlx.dense_solve %a, %b : (tensor<4x4xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dense_solve': operand 'b' must have shape 2x4, got 3x4
func.func @f(%a: tensor<2x4x4xf32>, %b: tensor<3x4xf32>) {
  %0 = rlx.dense_solve %a, %b : (tensor<2x4x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dense_solve': operand 'b' must have shape 2x4x4, got 4
func.func @f(%a: tensor<2x4x4xf32>, %b: tensor<4xf32>) {
  %0 = rlx.dense_solve %a, %b : (tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.triangular_solve': operand 'b' must have shape 4x?, got scalar
func.func @f(%a: tensor<4x4xf32>, %b: tensor<f32>) {
  %0 = rlx.triangular_solve %a, %b : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.triangular_solve': operand 'b' must have element type f32 like operand 'a', got f16
func.func @f(%a: tensor<4x4xf32>, %b: tensor<4xf16>) {
  %0 = rlx.triangular_solve %a, %b {lower} : (tensor<4x4xf32>, tensor<4xf16>) -> tensor<4xf16>
  func.return
}

// -----

// CHECK: error: 'rlx.cholesky': operand 'a' must have a float element type, got i32
func.func @f(%a: tensor<4x4xi32>) {
  %0 = rlx.cholesky %a : tensor<4x4xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.cholesky': operand 'a' must be of square matrices, got 4x3
func.func @f(%a: tensor<4x3xf32>) {
  %0 = rlx.cholesky %a : tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.det': operand 'a' must be of square matrices, got 2x4x3
func.func @f(%a: tensor<2x4x3xf32>) {
  %0 = rlx.det %a : tensor<2x4x3xf32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.log_det': result #0 must be tensor<2xf32>, got tensor<f32>
func.func @f(%a: tensor<2x3x3xf32>) {
  %0 = rlx.log_det %a : tensor<2x3x3xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.svd': operand 'a' must have rank 2 or more, got 3
func.func @f(%a: tensor<3xf32>) {
  %0 = rlx.svd s %a : tensor<3xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.svd': result #0 must be tensor<5x3xf32>, got tensor<5x5xf32>
func.func @f(%a: tensor<5x3xf32>) {
  %0 = rlx.svd u %a : tensor<5x3xf32> -> tensor<5x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.qr': result #0 must be tensor<3x3xf32>, got tensor<5x3xf32>
func.func @f(%a: tensor<5x3xf32>) {
  %0 = rlx.qr r %a : tensor<5x3xf32> -> tensor<5x3xf32>
  func.return
}
