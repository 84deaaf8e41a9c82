// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Whole transformer blocks.

// CHECK-LABEL: func.func @fused_attention_block_plain(
// GENERIC-LABEL: sym_name = "fused_attention_block_plain"
// CHECK-NEXT: %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_attention_block"(%hidden, %qkv_w, %out_w, %mask) <{num_heads = 4 : i64, head_dim = 8 : i64}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
func.func @fused_attention_block_plain(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_attention_block_with_bias(
// GENERIC-LABEL: sym_name = "fused_attention_block_with_bias"
// CHECK-NEXT: %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {num_heads = 4, head_dim = 8, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_attention_block"(%hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b) <{num_heads = 4 : i64, head_dim = 8 : i64, has_bias}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
func.func @fused_attention_block_with_bias(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {num_heads = 4, head_dim = 8, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_attention_block_with_rope(
// GENERIC-LABEL: sym_name = "fused_attention_block_with_rope"
// CHECK-NEXT: %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %rope_cos, %rope_sin {num_heads = 4, head_dim = 8, has_rope} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<9x4xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_attention_block"(%hidden, %qkv_w, %out_w, %mask, %rope_cos, %rope_sin) <{num_heads = 4 : i64, head_dim = 8 : i64, has_rope}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
func.func @fused_attention_block_with_rope(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<9x4xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %rope_cos, %rope_sin {num_heads = 4, head_dim = 8, has_rope} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_attention_block_with_both(
// GENERIC-LABEL: sym_name = "fused_attention_block_with_both"
// CHECK-NEXT: %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b, %rope_cos, %rope_sin {num_heads = 4, head_dim = 8, has_bias, has_rope} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<9x4xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_attention_block"(%hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b, %rope_cos, %rope_sin) <{num_heads = 4 : i64, head_dim = 8 : i64, has_bias, has_rope}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
func.func @fused_attention_block_with_both(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<9x4xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b, %rope_cos, %rope_sin {num_heads = 4, head_dim = 8, has_bias, has_rope} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_attention_block_dynamic(
// GENERIC-LABEL: sym_name = "fused_attention_block_dynamic"
// CHECK-NEXT: %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<?x?x10xbf16>, tensor<10x96xbf16>, tensor<32x6xbf16>, tensor<?x?xi1>) -> tensor<?x?x6xbf16>
// GENERIC-NEXT: ^bb0(%hidden: tensor<?x?x10xbf16>, %qkv_w: tensor<10x96xbf16>, %out_w: tensor<32x6xbf16>, %mask: tensor<?x?xi1>):
// GENERIC-NEXT: %0 = "rlx.fused_attention_block"(%hidden, %qkv_w, %out_w, %mask) <{num_heads = 4 : i64, head_dim = 8 : i64}> : (tensor<?x?x10xbf16>, tensor<10x96xbf16>, tensor<32x6xbf16>, tensor<?x?xi1>) -> tensor<?x?x6xbf16>
func.func @fused_attention_block_dynamic(%hidden: tensor<?x?x10xbf16>, %qkv_w: tensor<10x96xbf16>, %out_w: tensor<32x6xbf16>, %mask: tensor<?x?xi1>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<?x?x10xbf16>, tensor<10x96xbf16>, tensor<32x6xbf16>, tensor<?x?xi1>) -> tensor<?x?x6xbf16>
  func.return
}

// CHECK-LABEL: func.func @fused_transformer_layer_plain(
// GENERIC-LABEL: sym_name = "fused_transformer_layer_plain"
// CHECK-NEXT: %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_transformer_layer"(%hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask) <{num_heads = 4 : i64, head_dim = 8 : i64, intermediate_size = 12 : i64, eps1 = 1.000000e-05 : f64, eps2 = 1.000000e-12 : f64}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
func.func @fused_transformer_layer_plain(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_transformer_layer_with_bias(
// GENERIC-LABEL: sym_name = "fused_transformer_layer_with_bias"
// CHECK-NEXT: %0 = rlx.fused_transformer_layer gelu %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask, %qkv_b, %out_b, %ln1_b, %fc1_b, %fc2_b, %ln2_b {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<10xf32>, tensor<12xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
// GENERIC-NEXT: ^bb0(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>, %ln1_b: tensor<10xf32>, %fc1_b: tensor<12xf32>, %fc2_b: tensor<10xf32>, %ln2_b: tensor<10xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_transformer_layer"(%hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask, %qkv_b, %out_b, %ln1_b, %fc1_b, %fc2_b, %ln2_b) <{activation = #rlx<activation gelu>, num_heads = 4 : i64, head_dim = 8 : i64, intermediate_size = 12 : i64, eps1 = 1.000000e-05 : f64, eps2 = 1.000000e-12 : f64, has_bias}> : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<10xf32>, tensor<12xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
func.func @fused_transformer_layer_with_bias(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>, %ln1_b: tensor<10xf32>, %fc1_b: tensor<12xf32>, %fc2_b: tensor<10xf32>, %ln2_b: tensor<10xf32>) {
  %0 = rlx.fused_transformer_layer gelu %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask, %qkv_b, %out_b, %ln1_b, %fc1_b, %fc2_b, %ln2_b {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<10xf32>, tensor<12xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
  func.return
}
