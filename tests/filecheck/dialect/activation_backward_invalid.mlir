// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of gradients of activations says.

// CHECK: error: 'rlx.activation_backward': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<3xi32>) {
  %0 = rlx.activation_backward relu %x, %x : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation_backward': operand 'dy' must have element type f32 like operand 'x', got f16
func.func @f(%x: tensor<3xf32>, %dy: tensor<3xf16>) {
  %0 = rlx.activation_backward gelu %x, %dy : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation_backward': result #0 must be tensor<3xf32>, got tensor<4xf32>
func.func @f(%x: tensor<3xf32>) {
  %0 = rlx.activation_backward gelu %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.relu_backward': operand 'dy' must have shape 2x3, got 3
func.func @f(%x: tensor<2x3xf32>, %dy: tensor<3xf32>) {
  %0 = rlx.relu_backward %x, %dy : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}
