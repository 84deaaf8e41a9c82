// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser says of a reduction.

// CHECK: 'rlx.reduce': 'median' is none of sum, mean, max, min, prod
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reduce median %x {axes = [1]} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: 'rlx.reduce': 'keep_dim' is a flag and takes no value
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reduce sum %x {axes = [1], keep_dim = true} : tensor<2x3xf32> -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: 'rlx.reduce' has no property 'dims' (it has: axes, keep_dim)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reduce sum %x {dims = [1]} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: 'rlx.softmax': 'axis' needs a value
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.softmax %x {axis} : tensor<2x3xf32>
  func.return
}
