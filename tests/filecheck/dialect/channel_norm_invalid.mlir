// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of norms of channels says.

// CHECK: error: 'rlx.group_norm': num_groups 3 must be positive and divide the 4 channels
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %x, %v, %v {num_groups = 3, eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm': num_groups 0 must be positive and divide the 4 channels
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %x, %v, %v {num_groups = 0, eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm': operand 'beta' must have shape 4, got 5
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %x, %v, %u {num_groups = 2, eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<5xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm': operand 'gamma' must have element type f32 like operand 'x', got f16
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %x, %h, %v {num_groups = 2, eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<4xf16>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm': operand 'x' must have rank 2 or more, got 4
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %r, %v, %v {num_groups = 2, eps = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.group_norm': eps must not be negative, got -0.1
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.group_norm %x, %v, %v {num_groups = 2, eps = -0.1} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_2d': operand 'x' must have rank 4, got 2x4
func.func @f(%x: tensor<2x4xf32>, %v: tensor<4xf32>) {
  %0 = rlx.layer_norm_2d %x, %v, %v {eps = 0.1} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_2d': operand 'gamma' must have shape 4, got 5
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.layer_norm_2d %x, %u, %v {eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.layer_norm_2d': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<2x4x3x5xi32>, %v: tensor<4xi32>) {
  %0 = rlx.layer_norm_2d %x, %v, %v {eps = 0.1} : (tensor<2x4x3x5xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x4x3x5xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.batch_norm_inference': operand 'var' must have shape 5, got 4
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.batch_norm_inference %x, %u, %u, %u, %v {eps = 0.1} : (tensor<2x4x3x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.batch_norm_inference': eps must not be negative, got nan
func.func @f(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %u: tensor<5xf32>, %r: tensor<4xf32>, %h: tensor<4xf16>) {
  %0 = rlx.batch_norm_inference %x, %u, %u, %u, %u {eps = nan} : (tensor<2x4x3x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x4x3x5xf32>
  func.return
}
