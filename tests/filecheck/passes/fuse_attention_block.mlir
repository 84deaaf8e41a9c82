// RUN: rlx-opt -p 'rlx-fuse-attention-block{threshold=6}' %s | filecheck %s

// CHECK-LABEL: @block
// CHECK-NEXT: [[O:%.*]] = rlx.fused_attention_block %x, %w, %ow, %m, %b, %ob {num_heads = 2, head_dim = 4, has_bias} : {{.*}} -> tensor<2x3x7xf32>
// CHECK-NEXT: func.return [[O]]
func.func @block(%x: tensor<2x3x5xf32>, %w: tensor<5x24xf32>, %b: tensor<24xf32>, %ow: tensor<8x7xf32>, %ob: tensor<7xf32>, %m: tensor<2x3xf32>) -> tensor<2x3x7xf32> {
  %p = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<2x3x5xf32>, tensor<5x24xf32>, tensor<24xf32>) -> tensor<2x3x24xf32>
  %q = rlx.narrow %p {axis = 2, start = 0, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %k = rlx.narrow %p {axis = 2, start = 8, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %v = rlx.narrow %p {axis = 2, start = 16, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %a = rlx.attention custom %q, %k, %v, %m {num_heads = 2, head_dim = 4, layout = bsd} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>) -> tensor<2x3x8xf32>
  %o = rlx.fused_matmul_bias_act %a, %ow, %ob : (tensor<2x3x8xf32>, tensor<8x7xf32>, tensor<7xf32>) -> tensor<2x3x7xf32>
  func.return %o : tensor<2x3x7xf32>
}

// K comes first in the columns.
// CHECK-LABEL: @other_order
// CHECK: rlx.matmul
// CHECK: rlx.attention
// CHECK: rlx.matmul
func.func @other_order(%x: tensor<2x3x5xf32>, %w: tensor<5x24xf32>, %ow: tensor<8x7xf32>, %m: tensor<2x3xi1>) -> tensor<2x3x7xf32> {
  %p = rlx.matmul %x, %w : (tensor<2x3x5xf32>, tensor<5x24xf32>) -> tensor<2x3x24xf32>
  %k = rlx.narrow %p {axis = 2, start = 0, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %q = rlx.narrow %p {axis = 2, start = 8, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %v = rlx.narrow %p {axis = 2, start = 16, len = 8} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %a = rlx.attention custom %q, %k, %v, %m {num_heads = 2, head_dim = 4, layout = bsd} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3xi1>) -> tensor<2x3x8xf32>
  %o = rlx.matmul %a, %ow : (tensor<2x3x8xf32>, tensor<8x7xf32>) -> tensor<2x3x7xf32>
  func.return %o : tensor<2x3x7xf32>
}
