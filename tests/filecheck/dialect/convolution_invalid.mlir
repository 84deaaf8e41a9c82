// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of convolutions, pooling and resizing says.

// CHECK: error: 'rlx.conv': operand 'weight' must have shape ?x4x3x2, got 6x2x3x2
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2]} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'weight' must have shape ?x2x2x2, got 6x2x3x2
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [2, 2], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x8x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'input' must have a multiple of 3 channels, got 2x4x9x7
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], groups = 3} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': groups must be positive, got 0
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], groups = 0} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'weight' must have a multiple of 2 result channels, got 5x2x3x2
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<5x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], groups = 2} : (tensor<2x4x9x7xf32>, tensor<5x2x3x2xf32>) -> tensor<2x5x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': kernel_size [3] must list 2 positive numbers
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': stride [0, 1] must list 2 positive numbers
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], stride = [0, 1], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': dilation [1] must list 2 positive numbers
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], dilation = [1], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': padding [1, 0, 1] must list 2 or 4 numbers
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], padding = [1, 0, 1], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': padding [-1, 0] must not be negative
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], padding = [-1, 0], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': window of 11 does not fit extent 9 padded by 0+0
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], dilation = [5, 1], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x1x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': result #0 must be tensor<2x6x4x6xf32>, got tensor<2x6x5x6xf32>
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2], stride = [2, 1], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x5x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'input' must have rank 3, 4 or 5, got 2x4
func.func @f(%a: tensor<2x4xf32>, %b: tensor<6x4xf32>) {
  %0 = rlx.conv %a, %b {kernel_size = []} : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'weight' must have element type f32 like operand 'input', got f16
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x4x3x2xf16>) {
  %0 = rlx.conv %a, %b {kernel_size = [3, 2]} : (tensor<2x4x9x7xf32>, tensor<6x4x3x2xf16>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.conv': operand 'input' must have a float or integer element type, got i1
func.func @f(%a: tensor<2x4x9xi1>, %b: tensor<6x4x3xi1>) {
  %0 = rlx.conv %a, %b {kernel_size = [3]} : (tensor<2x4x9xi1>, tensor<6x4x3xi1>) -> tensor<2x6x7xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_conv_bias_act': operand 'bias' must have shape 6, got 5
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>, %c: tensor<5xf32>) {
  %0 = rlx.fused_conv_bias_act %a, %b, %c {kernel_size = [3, 2], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>, tensor<5xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_conv_bias_act': operand 'residual' must have shape 2x6x7x6, got 2x6x1x1
func.func @f(%a: tensor<2x4x9x7xf32>, %b: tensor<6x2x3x2xf32>, %c: tensor<6xf32>, %d: tensor<2x6x1x1xf32>) {
  %0 = rlx.fused_conv_bias_act %a, %b, %c, %d {kernel_size = [3, 2], groups = 2} : (tensor<2x4x9x7xf32>, tensor<6x2x3x2xf32>, tensor<6xf32>, tensor<2x6x1x1xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_conv_bias_act': operand 'input' must have a float element type, got i32
func.func @f(%a: tensor<2x4x9xi32>, %b: tensor<6x4x3xi32>, %c: tensor<6xi32>) {
  %0 = rlx.fused_conv_bias_act %a, %b, %c {kernel_size = [3]} : (tensor<2x4x9xi32>, tensor<6x4x3xi32>, tensor<6xi32>) -> tensor<2x6x7xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.pool': padding 3+0 of spatial axis 0: a window would cover padding only
func.func @f(%x: tensor<2x3x9x7xf32>) {
  %0 = rlx.pool mean %x {kernel_size = [3, 2], padding = [3, 0, 0, 0]} : tensor<2x3x9x7xf32> -> tensor<2x3x10x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pool': padding 0+2 of spatial axis 1: a window would cover padding only
func.func @f(%x: tensor<2x3x9x7xf32>) {
  %0 = rlx.pool mean %x {kernel_size = [3, 2], padding = [0, 0, 0, 2]} : tensor<2x3x9x7xf32> -> tensor<2x3x7x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pool': count_include_pad is for mean, not for max
func.func @f(%x: tensor<2x3x9x7xf32>) {
  %0 = rlx.pool max %x {kernel_size = [3, 2], count_include_pad} : tensor<2x3x9x7xf32> -> tensor<2x3x7x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pool': operand 'input' of mean must have a float element type, got i32
func.func @f(%x: tensor<2x3x9x7xi32>) {
  %0 = rlx.pool mean %x {kernel_size = [3, 2]} : tensor<2x3x9x7xi32> -> tensor<2x3x7x6xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.pool': window of 10 does not fit extent 9 padded by 0+0
func.func @f(%x: tensor<2x3x9x7xf32>) {
  %0 = rlx.pool mean %x {kernel_size = [10, 2]} : tensor<2x3x9x7xf32> -> tensor<2x3x0x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.resize_nearest_2x': a tensor of rank 4 (NCHW) expected, got 2x3x4
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.resize_nearest_2x %x : tensor<2x3x4xf32> -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.resize_nearest_2x': result #0 must be tensor<2x3x8x10xf32>, got tensor<2x3x4x10xf32>
func.func @f(%x: tensor<2x3x4x5xf32>) {
  %0 = rlx.resize_nearest_2x %x : tensor<2x3x4x5xf32> -> tensor<2x3x4x10xf32>
  func.return
}
