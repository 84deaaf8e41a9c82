// RUN: rlx-opt -p rlx-fuse-shared-input-matmul %s | filecheck %s
// RUN: rlx-opt -p 'rlx-fuse-shared-input-matmul{max-elements=40}' %s | filecheck %s --check-prefix=LIMIT

// The weight of k is computed later: it moves up.
// CHECK-LABEL: @projections
// CHECK-NEXT: %t = rlx.transpose %wk
// CHECK-NEXT: [[W:%.*]] = rlx.concat %wq, %t {axis = 1} : (tensor<4x8xf32>, tensor<4x3xf32>) -> tensor<4x11xf32>
// CHECK-NEXT: [[P:%.*]] = rlx.matmul %x, [[W]] : (tensor<2x4xf32>, tensor<4x11xf32>) -> tensor<2x11xf32>
// CHECK-NEXT: %q = rlx.narrow [[P]] {axis = 1, start = 0, len = 8} : tensor<2x11xf32> -> tensor<2x8xf32>
// CHECK-NEXT: [[A:%.*]] = rlx.activation tanh %q
// CHECK-NEXT: %k = rlx.narrow [[P]] {axis = 1, start = 8, len = 3} : tensor<2x11xf32> -> tensor<2x3xf32>
// CHECK-NEXT: func.return [[A]], %k
// LIMIT-LABEL: @projections
// LIMIT-NOT: rlx.concat
func.func @projections(%x: tensor<2x4xf32>, %wq: tensor<4x8xf32> {rlx.param = "q"}, %wk: tensor<3x4xf32> {rlx.param = "k"}) -> (tensor<2x8xf32>, tensor<2x3xf32>) {
  %q = rlx.matmul %x, %wq : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %0 = rlx.activation tanh %q : tensor<2x8xf32>
  %t = rlx.transpose %wk {perm = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %k = rlx.matmul %x, %t : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  func.return %0, %k : tensor<2x8xf32>, tensor<2x3xf32>
}
