// RUN: rlx-opt -p 'rlx-fuse-attention-backward-all{enabled=true}' %s | filecheck %s
// RUN: rlx-opt -p rlx-fuse-attention-backward-all %s | filecheck %s --check-prefix=OFF

// CHECK-LABEL: @gradients
// CHECK-NEXT: [[A:%.*]] = rlx.attention_backward_all causal %q, %k, %v, %dy {num_heads = 2, head_dim = 4, layout = bsd} : {{.*}} -> tensor<9x5x8xf32>
// CHECK-NEXT: %gk = rlx.narrow [[A]] {axis = 0, start = 3, len = 3} : tensor<9x5x8xf32> -> tensor<3x5x8xf32>
// CHECK-NEXT: [[T:%.*]] = rlx.activation tanh %gk
// CHECK-NEXT: %gq = rlx.narrow [[A]] {axis = 0, start = 0, len = 3}
// CHECK-NEXT: %gv = rlx.narrow [[A]] {axis = 0, start = 6, len = 3}
// CHECK-NEXT: func.return %gq, [[T]], %gv
// OFF-LABEL: @gradients
// OFF-NOT: rlx.attention_backward_all
func.func @gradients(%q: tensor<3x5x8xf32>, %k: tensor<3x5x8xf32>, %v: tensor<3x5x8xf32>, %dy: tensor<3x5x8xf32>) -> (tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>) {
  %gk = rlx.attention_backward causal %q, %k, %v, %dy {wrt = key, num_heads = 2, head_dim = 4, layout = bsd} : (tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>) -> tensor<3x5x8xf32>
  %0 = rlx.activation tanh %gk : tensor<3x5x8xf32>
  %gq = rlx.attention_backward causal %q, %k, %v, %dy {wrt = query, num_heads = 2, head_dim = 4, layout = bsd} : (tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>) -> tensor<3x5x8xf32>
  %gv = rlx.attention_backward causal %q, %k, %v, %dy {wrt = value, num_heads = 2, head_dim = 4, layout = bsd} : (tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>) -> tensor<3x5x8xf32>
  func.return %gq, %0, %gv : tensor<3x5x8xf32>, tensor<3x5x8xf32>, tensor<3x5x8xf32>
}
