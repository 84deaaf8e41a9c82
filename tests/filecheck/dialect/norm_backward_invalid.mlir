// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of gradients of norms and gated residuals says.

// CHECK: error: 'rlx.layer_norm_backward_input': operand 'gamma' must have shape 8, got 3
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.layer_norm_backward_input %x, %u, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<3xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_backward_input': operand 'dy' must have shape 2x3x8, got 2x8
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.layer_norm_backward_input %x, %v, %y {eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_backward_gamma': result #0 must be tensor<8xf32>, got tensor<3xf32>
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.layer_norm_backward_gamma %x, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_backward_gamma': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.layer_norm_backward_gamma %i, %i {eps = 0.1} : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<8xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm_backward_input': operand 'beta' must have element type f32 like operand 'x', got f16
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.rms_norm_backward_input %x, %v, %h, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf16>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm_backward_gamma': eps must not be negative, got -1.0
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.rms_norm_backward_gamma %x, %v, %v, %x {eps = -1.0} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm_backward_beta': operand 'beta' must have shape 8, got 3
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.rms_norm_backward_beta %x, %v, %u, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<3xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm_backward_input': num_groups 2 must be positive and divide the 3 channels
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.group_norm_backward_input %x, %u, %x {num_groups = 2, eps = 0.1} : (tensor<2x3x8xf32>, tensor<3xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm_backward_input': operand 'gamma' must have shape 3, got 8
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.group_norm_backward_input %x, %v, %x {num_groups = 3, eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm_backward_gamma': operand 'dy' must have shape 2x3x8, got 2x8
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.group_norm_backward_gamma %x, %y {num_groups = 3, eps = 0.1} : (tensor<2x3x8xf32>, tensor<2x8xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm_backward_beta': operand 'dy' must have rank 2 or more, got 8
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.group_norm_backward_beta %v {num_groups = 1, eps = 0.1} : tensor<8xf32> -> tensor<8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm_backward': operand 'shift' must have last extent 8 like operand 'x', got 3x1
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %t: tensor<3x1xf32>) {
  %0 = rlx.ada_layer_norm_backward %x, %v, %t, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<3x1xf32>, tensor<2x3x8xf32>) -> tensor<59xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm_backward': result #0 must be tensor<64xf32>, got tensor<48xf32>
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.ada_layer_norm_backward %x, %v, %v, %x {eps = 0.1} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<48xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gated_residual_backward': operand 'gate' must broadcast to 2x3x8, the shape of operand 'x', got 2x1
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.gated_residual_backward %x, %x, %g, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x1xf32>, tensor<2x3x8xf32>) -> tensor<98xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gated_residual_backward': operand 'dy' must have shape 2x3x8, got 2x8
func.func @f(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<3xf32>, %y: tensor<2x8xf32>, %h: tensor<8xf16>, %i: tensor<2x8xi32>, %g: tensor<2x1xf32>) {
  %0 = rlx.gated_residual_backward %x, %x, %v, %y : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x8xf32>) -> tensor<104xf32>
  func.return
}
