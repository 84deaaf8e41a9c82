// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser says of shape, gather and scatter operations.

// CHECK: 'rlx.pad': 'mirror' is none of constant, reflect, edge, wrap
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pad mirror %x {pads = [1, 1, 1, 1]} : tensor<2x3xf32> -> tensor<4x5xf32>
  func.return
}

// -----

// CHECK: 'rlx.expand' has no property 'target' (it has: shape)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.expand %x {target = [2, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.scatter_nd': 'average' is none of none, add, mul, max, min
func.func @f(%d: tensor<5xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %0 = rlx.scatter_nd average %d, %i, %u : (tensor<5xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<5xf32>
  func.return
}
