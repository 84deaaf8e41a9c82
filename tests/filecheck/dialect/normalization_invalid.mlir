// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of normalisations and gated residuals says.

// CHECK: error: 'rlx.layer_norm': operand 'gamma' must have shape 8, got 7
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<7xf32>, %c: tensor<8xf32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<7xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': operand 'beta' must have shape 8, got 1x8
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<1x8xf32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<1x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': operand 'beta' must have element type f32 like operand 'x', got f16
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf16>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf16>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': operand 'x' must have a float element type, got i32
func.func @f(%a: tensor<2x8xi32>, %b: tensor<8xi32>, %c: tensor<8xi32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x8xi32>, tensor<8xi32>, tensor<8xi32>) -> tensor<2x8xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': operand 'x' must have rank 1 or more, got scalar
func.func @f(%a: tensor<f32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<f32>, tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': eps must not be negative, got -1.0
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = -1.0} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm': result #0 must be tensor<2x3x8xf32>, got tensor<6x8xf32>
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm': result #0 must be tensor<6x8xf32>, got tensor<5x8xf32>
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.rms_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm': result #0 must be tensor<2x3x8xf32>, got tensor<48xf32>
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.rms_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<48xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rms_norm': result #0 must be tensor<2x3x?xf32>, got tensor<6x?xf32>
func.func @f(%a: tensor<2x3x?xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.rms_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x?xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x?xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_residual_ln': operand 'residual' must have shape 2x3x8, got 3x8
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<3x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) {
  %0 = rlx.fused_residual_ln %a, %b, %c, %d {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_residual_ln': operand 'beta' must have shape 8, got 3
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<2x3x8xf32>, %c: tensor<8xf32>, %d: tensor<3xf32>) {
  %0 = rlx.fused_residual_ln %a, %b, %c, %d {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>, tensor<3xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_residual_ln': operand 'bias' must have shape 8, got 3
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<2x3x8xf32>, %c: tensor<3xf32>, %d: tensor<8xf32>, %e: tensor<8xf32>) {
  %0 = rlx.fused_residual_ln %a, %b, %c, %d, %e {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_residual_rms_norm': operand 'beta' must have element type f32 like operand 'x', got bf16
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<2x3x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>, %e: tensor<8xbf16>) {
  %0 = rlx.fused_residual_rms_norm %a, %b, %c, %d, %e {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_residual_rms_norm': result #1 must be tensor<2x3x8xf32>, got tensor<2x3x9xf32>
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<2x3x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) {
  %0, %1 = rlx.fused_residual_rms_norm %a, %b, %c, %d {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x9xf32>)
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm': operand 'scale' must broadcast to 2x3x8, the shape of operand 'x', got 3x1x8
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<3x1x8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.ada_layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<3x1x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm': operand 'shift' must broadcast to 2x3x8, the shape of operand 'x', got 4x2x3x8
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<4x2x3x8xf32>) {
  %0 = rlx.ada_layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<4x2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm': operand 'shift' must have last extent 8 like operand 'x', got 3x1
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf32>, %c: tensor<3x1xf32>) {
  %0 = rlx.ada_layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<3x1xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm': operand 'scale' must have last extent 8 like operand 'x', got scalar
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<f32>, %c: tensor<8xf32>) {
  %0 = rlx.ada_layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<f32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.ada_layer_norm': operand 'scale' must have element type f32 like operand 'x', got f64
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<8xf64>, %c: tensor<8xf32>) {
  %0 = rlx.ada_layer_norm %a, %b, %c {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf64>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gated_residual': operand 'y' must have shape 2x3x8, got 1x3x8
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<1x3x8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.gated_residual %a, %b, %c : (tensor<2x3x8xf32>, tensor<1x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gated_residual': operand 'gate' must broadcast to 2x3x8, the shape of operand 'x', got 2x1
func.func @f(%a: tensor<2x3x8xf32>, %b: tensor<2x3x8xf32>, %c: tensor<2x1xf32>) {
  %0 = rlx.gated_residual %a, %b, %c : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x1xf32>) -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gated_residual': operand 'x' must have a float element type, got i32
func.func @f(%a: tensor<2xi32>, %b: tensor<2xi32>, %c: tensor<2xi32>) {
  %0 = rlx.gated_residual %a, %b, %c : (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return
}
