// RUN: rlx-opt -p 'rlx-fuse-transformer-layer{threshold=6}' %s | filecheck %s

// CHECK-LABEL: @layer
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_transformer_layer gelu %x, %qw, %ow, %g1, %w1, %w2, %g2, %m, %qb, %ob, %b1, %c1, %c2, %b2 {num_heads = 2, head_dim = 4, intermediate_size = 7, eps1 = 0.001, eps2 = 0.01, has_bias} :
// CHECK-NEXT: func.return [[Y]]
func.func @layer(%x: tensor<2x3x5xf32>, %qw: tensor<5x24xf32>, %qb: tensor<24xf32>, %ow: tensor<8x5xf32>, %ob: tensor<5xf32>, %m: tensor<2x3xf32>, %g1: tensor<5xf32>, %b1: tensor<5xf32>, %w1: tensor<5x7xf32>, %c1: tensor<7xf32>, %w2: tensor<7x5xf32>, %c2: tensor<5xf32>, %g2: tensor<5xf32>, %b2: tensor<5xf32>) -> tensor<2x3x5xf32> {
  %a = rlx.fused_attention_block %x, %qw, %ow, %m, %qb, %ob {num_heads = 2, head_dim = 4, has_bias} : (tensor<2x3x5xf32>, tensor<5x24xf32>, tensor<8x5xf32>, tensor<2x3xf32>, tensor<24xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  %h = rlx.fused_residual_ln %x, %a, %g1, %b1 {eps = 1.0e-3} : (tensor<2x3x5xf32>, tensor<2x3x5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  %f = rlx.fused_matmul_bias_act gelu %h, %w1, %c1 : (tensor<2x3x5xf32>, tensor<5x7xf32>, tensor<7xf32>) -> tensor<2x3x7xf32>
  %g = rlx.fused_matmul_bias_act %f, %w2, %c2 : (tensor<2x3x7xf32>, tensor<7x5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  %y = rlx.fused_residual_ln %g, %h, %g2, %b2 {eps = 1.0e-2} : (tensor<2x3x5xf32>, tensor<2x3x5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  func.return %y : tensor<2x3x5xf32>
}
