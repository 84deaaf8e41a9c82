// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser of attention and transformer blocks says.

// CHECK: 'rlx.attention': 'casual' is none of none, causal, sliding_window, custom, bias
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention casual %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: 'sbhd' is none of bsd, bshd, bhsd
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = sbhd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: Expected integer literal
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = four} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: 'llama' is none of neox, gptj
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd, style = llama} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: 'rlx.fused_attention_block': 'has_bias' is a flag and takes no value
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask {num_heads = 4, head_dim = 8, has_bias = 1} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}

// -----

// CHECK: 'rlx.fused_transformer_layer': 'bluff' is none of gelu, gelu_approx, silu, relu, sigmoid, tanh, exp, log, sqrt, rsqrt, neg, abs, round, sin, cos, tan, atan, recip, floor, ceil, sign, softplus, elu, erf, hard_swish, hard_sigmoid, mish, softsign, log_sigmoid
func.func @f(%hidden: tensor<2x5x10xf32>, %qkv_w: tensor<10x96xf32>, %out_w: tensor<32x10xf32>, %ln1_g: tensor<10xf32>, %fc1_w: tensor<10x12xf32>, %fc2_w: tensor<12x10xf32>, %ln2_g: tensor<10xf32>, %mask: tensor<2x5xf32>) {
  %0 = rlx.fused_transformer_layer bluff %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask {num_heads = 4, head_dim = 8, intermediate_size = 12, eps1 = 1.0e-5, eps2 = 1.0e-12} : (tensor<2x5x10xf32>, tensor<10x96xf32>, tensor<32x10xf32>, tensor<10xf32>, tensor<10x12xf32>, tensor<12x10xf32>, tensor<10xf32>, tensor<2x5xf32>) -> tensor<2x5x10xf32>
  func.return
}
