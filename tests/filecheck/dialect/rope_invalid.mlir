// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of gradients of rotary embedding, and of axial ones, says.

// CHECK: error: 'rlx.rope_backward': operand 'sin' must have at least 3 rows of 4, got 2x4
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.rope_backward %x, %t, %s {head_dim = 8, layout = bsd} : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<2x3x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope_backward': operand 'dy' must have rank 4 in layout bhsd, got 2x3x16
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.rope_backward %x, %t, %t {head_dim = 8, layout = bhsd} : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope_backward': the last extent of operand 'dy' must be a multiple of head_dim 6, got 2x3x16
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.rope_backward %x, %t, %t {head_dim = 6, layout = bsd} : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': operand 'x' must have shape ?x12x16, got 1x6x16
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 8, num_heads = 2, repeat_factor = 2} : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': operand 'x' must have shape ?x6x8, got 1x6x16
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 8, num_heads = 1} : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': head_dim must be a multiple of 4, got 2
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 2, num_heads = 8} : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': end_x must be positive, got 0
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %i {end_x = 0, end_y = 2, head_dim = 8, num_heads = 2} : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': theta must be positive, got 0.0
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 8, num_heads = 2, theta = 0.0} : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.axial_rope_2d': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %s: tensor<2x4xf32>, %i: tensor<1x6x16xf32>, %n: tensor<1x6x16xi32>) {
  %0 = rlx.axial_rope_2d %n {end_x = 3, end_y = 2, head_dim = 8, num_heads = 2} : tensor<1x6x16xi32> -> tensor<1x6x16xi32>
  func.return
}
