// RUN: rlx-opt -p rlx-canonicalize-ops %s | filecheck %s

// Heads are split and merged around it: packed.
// CHECK-LABEL: @split_heads
// CHECK-NEXT: [[O:%.*]] = rlx.attention bias %q, %k, %v, %m {num_heads = 2, head_dim = 4, layout = bsd} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x1x1x5xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: func.return [[O]]
func.func @split_heads(%q: tensor<2x3x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %m: tensor<2x1x1x5xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.reshape %q {new_shape = [2, 3, 2, 4]} : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %1 = rlx.transpose %0 {perm = [0, 2, 1, 3]} : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %2 = rlx.reshape %k {new_shape = [2, 5, 2, 4]} : tensor<2x5x8xf32> -> tensor<2x5x2x4xf32>
  %3 = rlx.transpose %2 {perm = [0, 2, 3, 1]} : tensor<2x5x2x4xf32> -> tensor<2x2x4x5xf32>
  %4 = rlx.reshape %v {new_shape = [2, 5, 2, 4]} : tensor<2x5x8xf32> -> tensor<2x5x2x4xf32>
  %5 = rlx.transpose %4 {perm = [0, 2, 1, 3]} : tensor<2x5x2x4xf32> -> tensor<2x2x5x4xf32>
  %6 = rlx.matmul %1, %3 : (tensor<2x2x3x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x3x5xf32>
  %7 = rlx.constant dense<2.0> : tensor<f32>
  %8 = rlx.binary div %6, %7 : (tensor<2x2x3x5xf32>, tensor<f32>) -> tensor<2x2x3x5xf32>
  %9 = rlx.binary add %m, %8 : (tensor<2x1x1x5xf32>, tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  %10 = rlx.softmax %9 : tensor<2x2x3x5xf32>
  %11 = rlx.matmul %10, %5 : (tensor<2x2x3x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x3x4xf32>
  %12 = rlx.transpose %11 {perm = [0, 2, 1, 3]} : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %13 = rlx.reshape %12 {new_shape = [2, 3, 8]} : tensor<2x3x2x4xf32> -> tensor<2x3x8xf32>
  func.return %13 : tensor<2x3x8xf32>
}

// A constant triangle: causal. K and V have half as many heads.
// CHECK-LABEL: @causal_grouped
// CHECK-NEXT: [[O:%.*]] = rlx.attention causal %q, %k, %v {num_heads = 4, num_kv_heads = 2, head_dim = 6, layout = bhsd, score_scale = 1.0} :
// CHECK-NEXT: func.return [[O]]
func.func @causal_grouped(%q: tensor<1x4x2x6xf32>, %k: tensor<1x2x3x6xf32>, %v: tensor<1x2x3x6xf32>) -> tensor<1x4x2x6xf32> {
  %0 = rlx.reshape %k {new_shape = [1, 2, 1, 3, 6]} : tensor<1x2x3x6xf32> -> tensor<1x2x1x3x6xf32>
  %1 = rlx.expand %0 {shape = [1, 2, 2, 3, 6]} : tensor<1x2x1x3x6xf32> -> tensor<1x2x2x3x6xf32>
  %2 = rlx.reshape %1 {new_shape = [1, 4, 3, 6]} : tensor<1x2x2x3x6xf32> -> tensor<1x4x3x6xf32>
  %3 = rlx.reshape %v {new_shape = [1, 2, 1, 3, 6]} : tensor<1x2x3x6xf32> -> tensor<1x2x1x3x6xf32>
  %4 = rlx.expand %3 {shape = [1, 2, 2, 3, 6]} : tensor<1x2x1x3x6xf32> -> tensor<1x2x2x3x6xf32>
  %5 = rlx.reshape %4 {new_shape = [1, 4, 3, 6]} : tensor<1x2x2x3x6xf32> -> tensor<1x4x3x6xf32>
  %6 = rlx.transpose %2 {perm = [0, 1, 3, 2]} : tensor<1x4x3x6xf32> -> tensor<1x4x6x3xf32>
  %7 = rlx.matmul %q, %6 : (tensor<1x4x2x6xf32>, tensor<1x4x6x3xf32>) -> tensor<1x4x2x3xf32>
  %8 = rlx.constant dense<[[0.0, 0.0, -1.0e30], [0.0, 0.0, 0.0]]> : tensor<2x3xf32>
  %9 = rlx.binary add %7, %8 : (tensor<1x4x2x3xf32>, tensor<2x3xf32>) -> tensor<1x4x2x3xf32>
  %10 = rlx.softmax %9 : tensor<1x4x2x3xf32>
  %11 = rlx.matmul %10, %5 : (tensor<1x4x2x3xf32>, tensor<1x4x3x6xf32>) -> tensor<1x4x2x6xf32>
  func.return %11 : tensor<1x4x2x6xf32>
}
