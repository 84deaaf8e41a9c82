// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of reductions and softmax says.

// CHECK: error: 'rlx.reduce': axis 3 is outside rank 3
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.reduce sum %x {axes = [3]} : tensor<2x3x4xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': axes [0, -3] name one axis twice
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.reduce sum %x {axes = [0, -3]} : tensor<2x3x4xf32> -> tensor<3x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': result #0 must be tensor<2x1x4xf32>, got tensor<2x4xf32>
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.reduce sum %x {axes = [1], keep_dim} : tensor<2x3x4xf32> -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': result #0 must be tensor<2x4xf32>, got tensor<2x4xf64>
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.reduce sum %x {axes = [1]} : tensor<2x3x4xf32> -> tensor<2x4xf64>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': operand 'input' of mean must have a float element type, got i32
func.func @f(%x: tensor<2x3xi32>) {
  %0 = rlx.reduce mean %x {axes = [1]} : tensor<2x3xi32> -> tensor<2xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': operand 'input' of sum must have a float or integer element type, got i1
func.func @f(%x: tensor<2x3xi1>) {
  %0 = rlx.reduce sum %x {axes = [1]} : tensor<2x3xi1> -> tensor<2xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': operand 'input' of max must have a float or integer element type, got complex<f32>
func.func @f(%x: tensor<2x3xcomplex<f32>>) {
  %0 = rlx.reduce max %x {axes = [1]} : tensor<2x3xcomplex<f32>> -> tensor<2xcomplex<f32>>
  func.return
}

// -----

// CHECK: error: 'rlx.reduce': operand 'input' must be a ranked tensor, got f32
func.func @f(%x: f32) {
  %0 = rlx.reduce sum %x {axes = []} : f32 -> f32
  func.return
}

// -----

// CHECK: error: 'rlx.softmax': axis -4 is outside rank 3
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.softmax %x {axis = -4} : tensor<2x3x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax': result #0 must be tensor<2x3x4xf32>, got tensor<2x3x5xf32>
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.softmax %x : tensor<2x3x4xf32> -> tensor<2x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax': operand 'input' must have a float element type, got i32
func.func @f(%x: tensor<2x3xi32>) {
  %0 = rlx.softmax %x : tensor<2x3xi32>
  func.return
}
