// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Convolution, pooling and resizing with one to three spatial axes; properties that have their default are left out.

// CHECK-LABEL: func.func @conv(
// CHECK-NEXT: %0 = rlx.conv %x1, %w1 {kernel_size = [3]} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
// CHECK-NEXT: %1 = rlx.conv %x2, %w2 {kernel_size = [3, 2], stride = [2, 1], padding = [1, 0, 0, 2], dilation = [1, 3], groups = 2} : (tensor<2x4x9x7xf16>, tensor<6x2x3x2xf16>) -> tensor<2x6x4x6xf16>
// CHECK-NEXT: %2 = rlx.conv %x3, %w3 {kernel_size = [2, 3, 1], padding = [1, 0, 2]} : (tensor<1x2x5x6x7xi32>, tensor<3x2x2x3x1xi32>) -> tensor<1x3x6x4x11xi32>
// GENERIC-LABEL: sym_name = "conv"
// GENERIC: %0 = "rlx.conv"(%x1, %w1) <{kernel_size = array<i64: 3>, groups = 1 : i64}> : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
// GENERIC-NEXT: %1 = "rlx.conv"(%x2, %w2) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, padding = array<i64: 1, 0, 0, 2>, dilation = array<i64: 1, 3>, groups = 2 : i64}> : (tensor<2x4x9x7xf16>, tensor<6x2x3x2xf16>) -> tensor<2x6x4x6xf16>
// GENERIC-NEXT: %2 = "rlx.conv"(%x3, %w3) <{kernel_size = array<i64: 2, 3, 1>, padding = array<i64: 1, 0, 2>, groups = 1 : i64}> : (tensor<1x2x5x6x7xi32>, tensor<3x2x2x3x1xi32>) -> tensor<1x3x6x4x11xi32>
func.func @conv(%x1: tensor<2x4x9xf32>, %w1: tensor<6x4x3xf32>, %x2: tensor<2x4x9x7xf16>, %w2: tensor<6x2x3x2xf16>, %x3: tensor<1x2x5x6x7xi32>, %w3: tensor<3x2x2x3x1xi32>) {
  %0 = rlx.conv %x1, %w1 {kernel_size = [3]} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  %1 = rlx.conv %x2, %w2 {kernel_size = [3, 2], stride = [2, 1], padding = [1, 0, 0, 2], dilation = [1, 3], groups = 2} : (tensor<2x4x9x7xf16>, tensor<6x2x3x2xf16>) -> tensor<2x6x4x6xf16>
  %2 = rlx.conv %x3, %w3 {kernel_size = [2, 3, 1], padding = [1, 0, 2]} : (tensor<1x2x5x6x7xi32>, tensor<3x2x2x3x1xi32>) -> tensor<1x3x6x4x11xi32>
  func.return
}

// CHECK-LABEL: func.func @dynamic_conv(
// CHECK-NEXT: %0 = rlx.conv %x, %w {kernel_size = [3, 2], padding = [1, 0]} : (tensor<?x4x?x7xf32>, tensor<?x4x?x2xf32>) -> tensor<?x?x?x6xf32>
// GENERIC-LABEL: sym_name = "dynamic_conv"
// GENERIC: %0 = "rlx.conv"(%x, %w) <{kernel_size = array<i64: 3, 2>, padding = array<i64: 1, 0>, groups = 1 : i64}> : (tensor<?x4x?x7xf32>, tensor<?x4x?x2xf32>) -> tensor<?x?x?x6xf32>
func.func @dynamic_conv(%x: tensor<?x4x?x7xf32>, %w: tensor<?x4x?x2xf32>) {
  %0 = rlx.conv %x, %w {kernel_size = [3, 2], padding = [1, 0]} : (tensor<?x4x?x7xf32>, tensor<?x4x?x2xf32>) -> tensor<?x?x?x6xf32>
  func.return
}

// CHECK-LABEL: func.func @pool(
// CHECK-NEXT: %0 = rlx.pool max %x1 {kernel_size = [3], stride = [3]} : tensor<2x4x9xf32> -> tensor<2x4x3xf32>
// CHECK-NEXT: %1 = rlx.pool mean %x2 {kernel_size = [3, 2], stride = [2, 2], padding = [1, 0, 1, 1], count_include_pad} : tensor<2x3x9x7xf32> -> tensor<2x3x5x4xf32>
// CHECK-NEXT: %2 = rlx.pool min %x2 {kernel_size = [2, 2], dilation = [3, 1]} : tensor<2x3x9x7xf32> -> tensor<2x3x6x6xf32>
// CHECK-NEXT: %3 = rlx.pool sum %x3 {kernel_size = [2, 2, 2]} : tensor<1x2x5x6x7xi32> -> tensor<1x2x4x5x6xi32>
// CHECK-NEXT: %4 = rlx.pool prod %x3 {kernel_size = [1, 6, 1]} : tensor<1x2x5x6x7xi32> -> tensor<1x2x5x1x7xi32>
// GENERIC-LABEL: sym_name = "pool"
// GENERIC: %0 = "rlx.pool"(%x1) <{kind = #rlx<reduce max>, kernel_size = array<i64: 3>, stride = array<i64: 3>}> : (tensor<2x4x9xf32>) -> tensor<2x4x3xf32>
// GENERIC-NEXT: %1 = "rlx.pool"(%x2) <{kind = #rlx<reduce mean>, kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 1>, count_include_pad}> : (tensor<2x3x9x7xf32>) -> tensor<2x3x5x4xf32>
// GENERIC-NEXT: %2 = "rlx.pool"(%x2) <{kind = #rlx<reduce min>, kernel_size = array<i64: 2, 2>, dilation = array<i64: 3, 1>}> : (tensor<2x3x9x7xf32>) -> tensor<2x3x6x6xf32>
// GENERIC-NEXT: %3 = "rlx.pool"(%x3) <{kind = #rlx<reduce sum>, kernel_size = array<i64: 2, 2, 2>}> : (tensor<1x2x5x6x7xi32>) -> tensor<1x2x4x5x6xi32>
// GENERIC-NEXT: %4 = "rlx.pool"(%x3) <{kind = #rlx<reduce prod>, kernel_size = array<i64: 1, 6, 1>}> : (tensor<1x2x5x6x7xi32>) -> tensor<1x2x5x1x7xi32>
func.func @pool(%x1: tensor<2x4x9xf32>, %x2: tensor<2x3x9x7xf32>, %x3: tensor<1x2x5x6x7xi32>) {
  %0 = rlx.pool max %x1 {kernel_size = [3], stride = [3]} : tensor<2x4x9xf32> -> tensor<2x4x3xf32>
  %1 = rlx.pool mean %x2 {kernel_size = [3, 2], stride = [2, 2], padding = [1, 0, 1, 1], count_include_pad} : tensor<2x3x9x7xf32> -> tensor<2x3x5x4xf32>
  %2 = rlx.pool min %x2 {kernel_size = [2, 2], dilation = [3, 1]} : tensor<2x3x9x7xf32> -> tensor<2x3x6x6xf32>
  %3 = rlx.pool sum %x3 {kernel_size = [2, 2, 2]} : tensor<1x2x5x6x7xi32> -> tensor<1x2x4x5x6xi32>
  %4 = rlx.pool prod %x3 {kernel_size = [1, 6, 1]} : tensor<1x2x5x6x7xi32> -> tensor<1x2x5x1x7xi32>
  func.return
}

// CHECK-LABEL: func.func @resize(
// CHECK-NEXT: %0 = rlx.resize_nearest_2x %x : tensor<2x3x4x5xbf16> -> tensor<2x3x8x10xbf16>
// CHECK-NEXT: %1 = rlx.resize_nearest_2x %d : tensor<?x3x?x5xf32> -> tensor<?x3x?x10xf32>
// GENERIC-LABEL: sym_name = "resize"
// GENERIC: %0 = "rlx.resize_nearest_2x"(%x) : (tensor<2x3x4x5xbf16>) -> tensor<2x3x8x10xbf16>
// GENERIC-NEXT: %1 = "rlx.resize_nearest_2x"(%d) : (tensor<?x3x?x5xf32>) -> tensor<?x3x?x10xf32>
func.func @resize(%x: tensor<2x3x4x5xbf16>, %d: tensor<?x3x?x5xf32>) {
  %0 = rlx.resize_nearest_2x %x : tensor<2x3x4x5xbf16> -> tensor<2x3x8x10xbf16>
  %1 = rlx.resize_nearest_2x %d : tensor<?x3x?x5xf32> -> tensor<?x3x?x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_conv(
// CHECK-NEXT: %0 = rlx.fused_conv_bias_act %x, %w, %b {kernel_size = [3, 3]} : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x7x5xf32>
// CHECK-NEXT: %1 = rlx.fused_conv_bias_act relu %x, %w, %b, %r {kernel_size = [3, 3], padding = [1, 1]} : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>, tensor<2x6x9x7xf32>) -> tensor<2x6x9x7xf32>
// GENERIC-LABEL: sym_name = "fused_conv"
// GENERIC: %0 = "rlx.fused_conv_bias_act"(%x, %w, %b) <{kernel_size = array<i64: 3, 3>, groups = 1 : i64}> : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x7x5xf32>
// GENERIC-NEXT: %1 = "rlx.fused_conv_bias_act"(%x, %w, %b, %r) <{activation = #rlx<activation relu>, kernel_size = array<i64: 3, 3>, padding = array<i64: 1, 1>, groups = 1 : i64}> : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>, tensor<2x6x9x7xf32>) -> tensor<2x6x9x7xf32>
func.func @fused_conv(%x: tensor<2x4x9x7xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6xf32>, %r: tensor<2x6x9x7xf32>) {
  %0 = rlx.fused_conv_bias_act %x, %w, %b {kernel_size = [3, 3]} : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x7x5xf32>
  %1 = rlx.fused_conv_bias_act relu %x, %w, %b, %r {kernel_size = [3, 3], padding = [1, 1]} : (tensor<2x4x9x7xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>, tensor<2x6x9x7xf32>) -> tensor<2x6x9x7xf32>
  func.return
}
