// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of transposed convolutions, gradients of windows and windows as rows says.

// CHECK: error: 'rlx.conv_transpose': operand 'weight' must have shape 4x?x3, got 5x3x3
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %v {kernel_size = [3]} : (tensor<2x4x5xf32>, tensor<5x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': groups 3 must be positive and divide the channels of 2x4x5
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3], groups = 3} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': output_padding [2] must list 1 numbers from 0 to below [2]
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3], stride = [2], output_padding = [2]} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': output_padding [0, 0] must list 1 numbers from 0 to below [1]
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3], output_padding = [0, 0]} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': extent 5 with padding 4+4 leaves a result extent of -1
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3], padding = [4]} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': result #0 must be tensor<2x3x11xf32>, got tensor<2x3x7xf32>
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3], stride = [2]} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': operand 'weight' must have element type f32 like operand 'input', got f16
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %x, %h {kernel_size = [3]} : (tensor<2x4x5xf32>, tensor<4x3x3xf16>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_transpose': operand 'input' must have a float element type, got i32
func.func @f(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>, %v: tensor<5x3x3xf32>, %h: tensor<4x3x3xf16>, %i: tensor<2x4x5xi32>, %j: tensor<4x3x3xi32>) {
  %0 = rlx.conv_transpose %i, %j {kernel_size = [3]} : (tensor<2x4x5xi32>, tensor<4x3x3xi32>) -> tensor<2x3x7xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_backward_input': operand 'dy' must have spatial extents 4, got 2x4x3
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.conv_backward_input %dy, %w {kernel_size = [3], stride = [2], size = [9]} : (tensor<2x4x3xf32>, tensor<4x3x3xf32>) -> tensor<2x3x9xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_backward_input': size [7, 7] must list 1 numbers
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.conv_backward_input %dy, %w {kernel_size = [3], stride = [2], size = [7, 7]} : (tensor<2x4x3xf32>, tensor<4x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_backward_input': operand 'weight' must have shape 4x?x3, got 5x3x3
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.conv_backward_input %dy, %v {kernel_size = [3], stride = [2], size = [7]} : (tensor<2x4x3xf32>, tensor<5x3x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_backward_weight': operand 'dy' must have shape 2x?x3, got 2x4x4
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.conv_backward_weight %x, %z {kernel_size = [3], stride = [2]} : (tensor<2x3x7xf32>, tensor<2x4x4xf32>) -> tensor<4x3x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv_backward_weight': groups 2 must be positive and divide the channels of 2x3x7 and 2x4x3
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.conv_backward_weight %x, %dy {kernel_size = [3], stride = [2], groups = 2} : (tensor<2x3x7xf32>, tensor<2x4x3xf32>) -> tensor<4x1x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.max_pool_backward': operand 'dy' must have shape 2x3x3, got 2x4x3
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.max_pool_backward %x, %dy {kernel_size = [3], stride = [2]} : (tensor<2x3x7xf32>, tensor<2x4x3xf32>) -> tensor<2x3x7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.im2col': window of 8 does not fit extent 7 padded by 0+0
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.im2col %x {kernel_size = [8]} : tensor<2x3x7xf32> -> tensor<0x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.im2col': operand 'input' must have rank 3, 4 or 5, got 2
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.im2col %x {kernel_size = [1]} : tensor<2xf32> -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.interpolate3d': operand 'input' must have rank 5 (NCDHW), got 1x2x3x4
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.interpolate3d %i {size = [6, 2, 5]} : tensor<1x2x3x4xf32> -> tensor<1x2x6x2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.interpolate3d': size [6, 2] must list 3 numbers that are not negative
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.interpolate3d %e {size = [6, 2]} : tensor<1x2x0x4x5xf32> -> tensor<1x2x6x2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.interpolate3d': operand 'input' has no elements to take: 1x2x0x4x5
func.func @f(%dy: tensor<2x4x3xf32>, %w: tensor<4x3x3xf32>, %x: tensor<2x3x7xf32>, %z: tensor<2x4x4xf32>, %p: tensor<2x3x3xf32>, %v: tensor<5x3x3xf32>, %i: tensor<1x2x3x4xf32>, %e: tensor<1x2x0x4x5xf32>) {
  %0 = rlx.interpolate3d %e {size = [6, 2, 5]} : tensor<1x2x0x4x5xf32> -> tensor<1x2x6x2x5xf32>
  func.return
}
