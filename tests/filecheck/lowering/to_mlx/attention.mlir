// RUN: rlx-opt -p rlx-lower-to-mlx -t mlx-python %s | filecheck %s

// Grouped heads and the causal mask are the fused call's own; queries that may see no key need the helper.
func.func @main(%q: tensor<1x6x8xf32>, %k: tensor<1x6x4xf32>, %v: tensor<1x6x4xf32>, %mask: tensor<1x6xf32>)
    -> (tensor<1x6x8xf32>, tensor<1x6x8xf32>) {
  %causal = rlx.attention causal %q, %k, %v {num_heads = 4, num_kv_heads = 2, head_dim = 2, layout = bsd} : (tensor<1x6x8xf32>, tensor<1x6x4xf32>, tensor<1x6x4xf32>) -> tensor<1x6x8xf32>
  %masked = rlx.attention custom %q, %k, %v, %mask {num_heads = 4, num_kv_heads = 2, head_dim = 2, layout = bsd} : (tensor<1x6x8xf32>, tensor<1x6x4xf32>, tensor<1x6x4xf32>, tensor<1x6xf32>) -> tensor<1x6x8xf32>
  func.return %causal, %masked : tensor<1x6x8xf32>, tensor<1x6x8xf32>
}

// CHECK:      def attention(q, k, v, scale, seen):
// CHECK:      def main(q, k, v, mask):
// CHECK:          q_heads = mx.swapaxes(q.reshape(1, 6, 4, 2), 1, 2)
// CHECK-NEXT:     k_heads = mx.swapaxes(k.reshape(1, 6, 2, 2), 1, 2)
// CHECK-NEXT:     v_heads = mx.swapaxes(v.reshape(1, 6, 2, 2), 1, 2)
// CHECK-NEXT:     attended = mx.fast.scaled_dot_product_attention(q_heads, k_heads, v_heads, scale=0.7071067811865475, mask="causal")
// CHECK-NEXT:     causal = mx.swapaxes(attended, 1, 2).reshape(1, 6, 8)
// CHECK:          seen = ~(mask[:, None, None, :] < 0.5)
// CHECK-NEXT:     attended_2 = attention({{.*}}, seen)
