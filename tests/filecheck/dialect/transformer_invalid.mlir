// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of a transformer block says.

// CHECK: error: 'rlx.fused_attention_block': 6 operands expected (hidden, qkv_w, out_w, mask, qkv_b, out_b), got 4
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': 4 operands expected (hidden, qkv_w, out_w, mask), got 6
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'hidden' must have rank 3, got 5x10
func.func @f(%hidden: tensor<5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'qkv_w' must have shape 10x96, got 10x64
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x64xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x64xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'out_w' must have shape 32x?, got 10x32
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<10x32xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<10x32xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': result #0 must be tensor<2x5x6xf32>, got tensor<2x5x10xf32>
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x6xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x6xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'mask' must have shape 2x5, got 2x1x5
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x1x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x1x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'mask' must have a float element type or i1, got i32
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xi32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xi32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'out_w' must have element type f32 like operand 'hidden', got f16
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf16>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf16>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'out_b' must have shape 10, got 32
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<32xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {num_heads = 4, head_dim = 8, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<32xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'rope_sin' must have at least 5 rows of 4, got 4x4
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<4x4xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %rope_cos, %rope_sin {num_heads = 4, head_dim = 8, has_rope} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>, tensor<9x4xf32>, tensor<4x4xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': head_dim must be even with has_rope, got 5
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x60xf32>, %out_w: tensor<20x10xf32>, %mask: tensor<2x5xf32>, %rope_cos: tensor<9x4xf32>, %rope_sin: tensor<9x4xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %rope_cos, %rope_sin {num_heads = 4, head_dim = 5, has_rope} : (tensor<2x5x10xf32>, tensor<10x60xf32>, tensor<20x10xf32>, tensor<2x5xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': num_heads must be positive, got 0
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 0, head_dim = 8} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_attention_block': operand 'hidden' must have a float element type, got i32
func.func @f(%hidden: tensor<2x5x10xi32>, %qkv_w: tensor<10x96xi32>, %out_w: tensor<32x10xi32>, %mask: tensor<2x5xi32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8} : (tensor<2x5x10xi32>, tensor<10x96xi32>, tensor<32x10xi32>, tensor<2x5xi32>) -> tensor<2x5x10xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': 14 operands expected (hidden, qkv_w, out_w, ln1_g, fc1_w, fc2_w, ln2_g, mask, qkv_b, out_b, ln1_b, fc1_b, fc2_b, ln2_b), got 8
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': operand 'fc1_w' must have shape 10x12, got 10x11
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x11xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x11xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': operand 'fc2_w' must have shape 12x10, got 12x11
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x11xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x11xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': operand 'ln2_g' must have shape 10, got 12
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<12xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<12xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': operand 'fc1_b' must have shape 12, got 10
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>, %qkv_b: tensor<96xf32>, %out_b: tensor<10xf32>, %ln1_b: tensor<10xf32>, %fc1_b: tensor<10xf32>, %fc2_b: tensor<10xf32>, %ln2_b: tensor<10xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask, %qkv_b, %out_b, %ln1_b, %fc1_b, %fc2_b, %ln2_b {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12, has_bias} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>, tensor<96xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': operand 'out_w' must have shape 32x10, got 32x6
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x6xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x6xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': result #0 must be tensor<2x5x10xf32>, got tensor<2x5x6xf32>
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_transformer_layer': eps1 must not be negative, got -1.0
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = -1.0, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}
