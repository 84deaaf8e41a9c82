// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser says of a convolution.

// CHECK: 'rlx.pool': 'average' is none of sum, mean, max, min, prod
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pool average %x {kernel_size = [2]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.conv' has no property 'pads' (it has: dilation, groups, kernel_size, padding, stride)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.conv %x, %x {kernel_size = [2], pads = [1]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
