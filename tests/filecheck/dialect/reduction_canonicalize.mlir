// RUN: rlx-opt -p canonicalize %s | filecheck %s
// A reduction of extents that are 1 is its operand, but only where they stay and are known.

// CHECK-LABEL: func.func @f(
// CHECK-NEXT: %0 = rlx.reduce sum %y {axes = [0], keep_dim} : tensor<?x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %1 = rlx.reduce max %x {axes = [1]} : tensor<2x1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: func.return %x, %x, %0, %1
func.func @f(%x: tensor<2x1x3xf32>, %y: tensor<?x3xf32>) -> (tensor<2x1x3xf32>, tensor<2x1x3xf32>, tensor<?x3xf32>, tensor<2x3xf32>) {
  %0 = rlx.reduce mean %x {axes = [1], keep_dim} : tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  %1 = rlx.reduce prod %x {axes = []} : tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  %2 = rlx.reduce sum %y {axes = [0], keep_dim} : tensor<?x3xf32> -> tensor<?x3xf32>
  %3 = rlx.reduce max %x {axes = [1]} : tensor<2x1x3xf32> -> tensor<2x3xf32>
  func.return %0, %1, %2, %3 : tensor<2x1x3xf32>, tensor<2x1x3xf32>, tensor<?x3xf32>, tensor<2x3xf32>
}
