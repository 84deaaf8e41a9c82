// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Transposed convolution, gradients of windows, windows as rows, resizing of volumes.

// CHECK-LABEL: func.func @conv_transpose(
// CHECK-NEXT: %0 = rlx.conv_transpose %x, %w {kernel_size = [3, 2]} : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x4xf32>
// CHECK-NEXT: %1 = rlx.conv_transpose %x, %w {kernel_size = [3, 2], stride = [2, 3], padding = [1, 0, 0, 1], output_padding = [1, 2]} : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x11x9xf32>
// CHECK-NEXT: %2 = rlx.conv_transpose %l, %g {kernel_size = [3], dilation = [2], groups = 6} : (tensor<1x6x7xf16>, tensor<6x1x3xf16>) -> tensor<1x6x11xf16>
// CHECK-NEXT: %3 = rlx.conv_transpose %d, %w {kernel_size = [3, 2], stride = [2, 2]} : (tensor<?x4x?x?xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x?x?xf32>
// CHECK-NEXT: %4 = rlx.conv_transpose %v, %k {kernel_size = [2, 2, 2], stride = [2, 2, 2], groups = 2} : (tensor<1x2x3x3x3xf64>, tensor<2x1x2x2x2xf64>) -> tensor<1x2x6x6x6xf64>
// GENERIC-LABEL: sym_name = "conv_transpose"
// GENERIC: %0 = "rlx.conv_transpose"(%x, %w) <{kernel_size = array<i64: 3, 2>, groups = 1 : i64}> : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x4xf32>
// GENERIC-NEXT: %1 = "rlx.conv_transpose"(%x, %w) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 3>, padding = array<i64: 1, 0, 0, 1>, output_padding = array<i64: 1, 2>, groups = 1 : i64}> : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x11x9xf32>
// GENERIC-NEXT: %2 = "rlx.conv_transpose"(%l, %g) <{kernel_size = array<i64: 3>, dilation = array<i64: 2>, groups = 6 : i64}> : (tensor<1x6x7xf16>, tensor<6x1x3xf16>) -> tensor<1x6x11xf16>
// GENERIC-NEXT: %3 = "rlx.conv_transpose"(%d, %w) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 2>, groups = 1 : i64}> : (tensor<?x4x?x?xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x?x?xf32>
// GENERIC-NEXT: %4 = "rlx.conv_transpose"(%v, %k) <{kernel_size = array<i64: 2, 2, 2>, stride = array<i64: 2, 2, 2>, groups = 2 : i64}> : (tensor<1x2x3x3x3xf64>, tensor<2x1x2x2x2xf64>) -> tensor<1x2x6x6x6xf64>
func.func @conv_transpose(%x: tensor<2x4x5x3xf32>, %w: tensor<4x3x3x2xf32>, %l: tensor<1x6x7xf16>, %g: tensor<6x1x3xf16>, %d: tensor<?x4x?x?xf32>, %v: tensor<1x2x3x3x3xf64>, %k: tensor<2x1x2x2x2xf64>) {
  %0 = rlx.conv_transpose %x, %w {kernel_size = [3, 2]} : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x4xf32>
  %1 = rlx.conv_transpose %x, %w {kernel_size = [3, 2], stride = [2, 3], padding = [1, 0, 0, 1], output_padding = [1, 2]} : (tensor<2x4x5x3xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x11x9xf32>
  %2 = rlx.conv_transpose %l, %g {kernel_size = [3], dilation = [2], groups = 6} : (tensor<1x6x7xf16>, tensor<6x1x3xf16>) -> tensor<1x6x11xf16>
  %3 = rlx.conv_transpose %d, %w {kernel_size = [3, 2], stride = [2, 2]} : (tensor<?x4x?x?xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x?x?xf32>
  %4 = rlx.conv_transpose %v, %k {kernel_size = [2, 2, 2], stride = [2, 2, 2], groups = 2} : (tensor<1x2x3x3x3xf64>, tensor<2x1x2x2x2xf64>) -> tensor<1x2x6x6x6xf64>
  func.return
}

// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: %0 = rlx.conv_backward_input %dy, %w {kernel_size = [3, 2], stride = [2, 1], size = [7, 6]} : (tensor<2x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x6xf32>
// CHECK-NEXT: %1 = rlx.conv_backward_input %e, %w {kernel_size = [3, 2], stride = [2, 1], size = [8, 6]} : (tensor<?x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x8x6xf32>
// CHECK-NEXT: %2 = rlx.conv_backward_weight %x, %dy {kernel_size = [3, 2], stride = [2, 1]} : (tensor<2x3x7x6xf32>, tensor<2x4x3x5xf32>) -> tensor<4x3x3x2xf32>
// CHECK-NEXT: %3 = rlx.conv_backward_weight %d, %q {kernel_size = [3, 2], stride = [2, 1], groups = 3} : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<3x1x3x2xf32>
// CHECK-NEXT: %4 = rlx.max_pool_backward %x, %p {kernel_size = [3, 2], stride = [2, 1]} : (tensor<2x3x7x6xf32>, tensor<2x3x3x5xf32>) -> tensor<2x3x7x6xf32>
// CHECK-NEXT: %5 = rlx.max_pool_backward %d, %q {kernel_size = [3, 2], stride = [2, 1]} : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<?x3x7x6xf32>
// GENERIC-LABEL: sym_name = "gradients"
// GENERIC: %0 = "rlx.conv_backward_input"(%dy, %w) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, size = array<i64: 7, 6>, groups = 1 : i64}> : (tensor<2x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x6xf32>
// GENERIC-NEXT: %1 = "rlx.conv_backward_input"(%e, %w) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, size = array<i64: 8, 6>, groups = 1 : i64}> : (tensor<?x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x8x6xf32>
// GENERIC-NEXT: %2 = "rlx.conv_backward_weight"(%x, %dy) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, groups = 1 : i64}> : (tensor<2x3x7x6xf32>, tensor<2x4x3x5xf32>) -> tensor<4x3x3x2xf32>
// GENERIC-NEXT: %3 = "rlx.conv_backward_weight"(%d, %q) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, groups = 3 : i64}> : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<3x1x3x2xf32>
// GENERIC-NEXT: %4 = "rlx.max_pool_backward"(%x, %p) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>}> : (tensor<2x3x7x6xf32>, tensor<2x3x3x5xf32>) -> tensor<2x3x7x6xf32>
// GENERIC-NEXT: %5 = "rlx.max_pool_backward"(%d, %q) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>}> : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<?x3x7x6xf32>
func.func @gradients(%x: tensor<2x3x7x6xf32>, %dy: tensor<2x4x3x5xf32>, %w: tensor<4x3x3x2xf32>, %p: tensor<2x3x3x5xf32>, %d: tensor<?x3x7x6xf32>, %e: tensor<?x4x3x5xf32>, %q: tensor<?x3x3x5xf32>) {
  %0 = rlx.conv_backward_input %dy, %w {kernel_size = [3, 2], stride = [2, 1], size = [7, 6]} : (tensor<2x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x7x6xf32>
  %1 = rlx.conv_backward_input %e, %w {kernel_size = [3, 2], stride = [2, 1], size = [8, 6]} : (tensor<?x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<?x3x8x6xf32>
  %2 = rlx.conv_backward_weight %x, %dy {kernel_size = [3, 2], stride = [2, 1]} : (tensor<2x3x7x6xf32>, tensor<2x4x3x5xf32>) -> tensor<4x3x3x2xf32>
  %3 = rlx.conv_backward_weight %d, %q {kernel_size = [3, 2], stride = [2, 1], groups = 3} : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<3x1x3x2xf32>
  %4 = rlx.max_pool_backward %x, %p {kernel_size = [3, 2], stride = [2, 1]} : (tensor<2x3x7x6xf32>, tensor<2x3x3x5xf32>) -> tensor<2x3x7x6xf32>
  %5 = rlx.max_pool_backward %d, %q {kernel_size = [3, 2], stride = [2, 1]} : (tensor<?x3x7x6xf32>, tensor<?x3x3x5xf32>) -> tensor<?x3x7x6xf32>
  func.return
}

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT: %0 = rlx.im2col %x {kernel_size = [3, 2], stride = [2, 1], padding = [1, 0]} : tensor<2x3x7x6xf32> -> tensor<40x18xf32>
// CHECK-NEXT: %1 = rlx.im2col %i {kernel_size = [3], dilation = [2]} : tensor<?x3x7xi8> -> tensor<?x9xi8>
// CHECK-NEXT: %2 = rlx.interpolate3d %v {size = [6, 2, 5]} : tensor<1x2x3x4x5xbf16> -> tensor<1x2x6x2x5xbf16>
// CHECK-NEXT: %3 = rlx.interpolate3d %d {size = [6, 2, 5]} : tensor<?x?x?x?x?xi1> -> tensor<?x?x6x2x5xi1>
// GENERIC-LABEL: sym_name = "rows"
// GENERIC: %0 = "rlx.im2col"(%x) <{kernel_size = array<i64: 3, 2>, stride = array<i64: 2, 1>, padding = array<i64: 1, 0>}> : (tensor<2x3x7x6xf32>) -> tensor<40x18xf32>
// GENERIC-NEXT: %1 = "rlx.im2col"(%i) <{kernel_size = array<i64: 3>, dilation = array<i64: 2>}> : (tensor<?x3x7xi8>) -> tensor<?x9xi8>
// GENERIC-NEXT: %2 = "rlx.interpolate3d"(%v) <{size = array<i64: 6, 2, 5>}> : (tensor<1x2x3x4x5xbf16>) -> tensor<1x2x6x2x5xbf16>
// GENERIC-NEXT: %3 = "rlx.interpolate3d"(%d) <{size = array<i64: 6, 2, 5>}> : (tensor<?x?x?x?x?xi1>) -> tensor<?x?x6x2x5xi1>
func.func @rows(%x: tensor<2x3x7x6xf32>, %i: tensor<?x3x7xi8>, %v: tensor<1x2x3x4x5xbf16>, %d: tensor<?x?x?x?x?xi1>) {
  %0 = rlx.im2col %x {kernel_size = [3, 2], stride = [2, 1], padding = [1, 0]} : tensor<2x3x7x6xf32> -> tensor<40x18xf32>
  %1 = rlx.im2col %i {kernel_size = [3], dilation = [2]} : tensor<?x3x7xi8> -> tensor<?x9xi8>
  %2 = rlx.interpolate3d %v {size = [6, 2, 5]} : tensor<1x2x3x4x5xbf16> -> tensor<1x2x6x2x5xbf16>
  %3 = rlx.interpolate3d %d {size = [6, 2, 5]} : tensor<?x?x?x?x?xi1> -> tensor<?x?x6x2x5xi1>
  func.return
}
