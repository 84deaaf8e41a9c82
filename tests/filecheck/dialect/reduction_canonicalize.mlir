// RUN: rlx-opt -p canonicalize %s | filecheck %s
// A reduction of extents that are 1 is its operand, but only where they stay and are known.

// CHECK-LABEL: func.func @f(
// CHECK-NEXT: %0 = rlx.reduce max %y {axes = [0], keep_dim} : tensor<?x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %1 = rlx.reduce max %x {axes = [1]} : tensor<2x1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: func.return %x, %x, %0, %1
func.func @f(%x: tensor<2x1x3xf32>, %y: tensor<?x3xf32>) -> (tensor<2x1x3xf32>, tensor<2x1x3xf32>, tensor<?x3xf32>, tensor<2x3xf32>) {
  %0 = rlx.reduce min %x {axes = [1], keep_dim} : tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  %1 = rlx.reduce prod %x {axes = []} : tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  %2 = rlx.reduce max %y {axes = [0], keep_dim} : tensor<?x3xf32> -> tensor<?x3xf32>
  %3 = rlx.reduce max %x {axes = [1]} : tensor<2x1x3xf32> -> tensor<2x3xf32>
  func.return %0, %1, %2, %3 : tensor<2x1x3xf32>, tensor<2x1x3xf32>, tensor<?x3xf32>, tensor<2x3xf32>
}

// A sum of reals makes +0.0 of -0.0.
// CHECK-LABEL: func.func @signed_zeros(
// CHECK-NEXT: %0 = rlx.reduce sum %x
// CHECK-NEXT: %1 = rlx.reduce mean %x
// CHECK-NEXT: func.return %0, %1, %y
func.func @signed_zeros(%x: tensor<2x1xf32>, %y: tensor<2x1xi32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xi32>) {
  %0 = rlx.reduce sum %x {axes = [1], keep_dim} : tensor<2x1xf32> -> tensor<2x1xf32>
  %1 = rlx.reduce mean %x {axes = [1], keep_dim} : tensor<2x1xf32> -> tensor<2x1xf32>
  %2 = rlx.reduce sum %y {axes = [1], keep_dim} : tensor<2x1xi32> -> tensor<2x1xi32>
  func.return %0, %1, %2 : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xi32>
}
