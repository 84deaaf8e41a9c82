// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of losses says.

// CHECK: error: 'rlx.softmax_cross_entropy': operand 'logits' must have rank 2, got 4x6x2
func.func @f(%a: tensor<4x6x2xf32>) {
  %0 = rlx.softmax_cross_entropy %a, %a : (tensor<4x6x2xf32>, tensor<4x6x2xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy': operand 'targets' must have shape 4x6, got 4x5
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.softmax_cross_entropy %a, %b : (tensor<4x6xf32>, tensor<4x5xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy': operand 'targets' must have element type f32 like operand 'logits', got f16
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4x6xf16>) {
  %0 = rlx.softmax_cross_entropy %a, %b : (tensor<4x6xf32>, tensor<4x6xf16>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy': operand 'logits' must have a float element type, got i32
func.func @f(%a: tensor<4x6xi32>) {
  %0 = rlx.softmax_cross_entropy %a, %a : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_with_logits': operand 'labels' must have an integer element type, got f32
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xf32>) {
  %0 = rlx.softmax_cross_entropy_with_logits %a, %b : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_with_logits': operand 'labels' must have an integer element type, got i1
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xi1>) {
  %0 = rlx.softmax_cross_entropy_with_logits %a, %b : (tensor<4x6xf32>, tensor<4xi1>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_with_logits': operand 'labels' must have shape 4, got 6
func.func @f(%a: tensor<4x6xf32>, %b: tensor<6xi64>) {
  %0 = rlx.softmax_cross_entropy_with_logits %a, %b : (tensor<4x6xf32>, tensor<6xi64>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_with_logits': result #0 must be tensor<4xf32>, got tensor<4x6xf32>
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xi64>) {
  %0 = rlx.softmax_cross_entropy_with_logits %a, %b : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_backward': operand 'd_loss' must have shape 4, got 6
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xi64>, %c: tensor<6xf32>) {
  %0 = rlx.softmax_cross_entropy_backward %a, %b, %c : (tensor<4x6xf32>, tensor<4xi64>, tensor<6xf32>) -> tensor<4x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_backward': operand 'd_loss' must have element type f32 like operand 'logits', got f64
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xi64>, %c: tensor<4xf64>) {
  %0 = rlx.softmax_cross_entropy_backward %a, %b, %c : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xf64>) -> tensor<4x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.softmax_cross_entropy_backward': result #0 must be tensor<4x6xf32>, got tensor<4xf32>
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xi64>, %c: tensor<4xf32>) {
  %0 = rlx.softmax_cross_entropy_backward %a, %b, %c : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
