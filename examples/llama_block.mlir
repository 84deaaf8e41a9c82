// A decoder block in the style of LLaMA: RMS norms, rotary positions, grouped-query attention, SwiGLU.
// Generated: python examples/generate.py llama_block
builtin.module {
  func.func @main(%hidden: tensor<1x64x1024xf32> {rlx.input = "hidden"}, %rope_cos: tensor<64x32xf32> {rlx.input = "rope_cos"}, %rope_sin: tensor<64x32xf32> {rlx.input = "rope_sin"}, %input_norm.weight: tensor<1024xf32> {rlx.param = "input_norm.weight"}, %q_proj.weight: tensor<1024x1024xf32> {rlx.param = "q_proj.weight"}, %k_proj.weight: tensor<1024x256xf32> {rlx.param = "k_proj.weight"}, %v_proj.weight: tensor<1024x256xf32> {rlx.param = "v_proj.weight"}, %o_proj.weight: tensor<1024x1024xf32> {rlx.param = "o_proj.weight"}, %post_attention_norm.weight: tensor<1024xf32> {rlx.param = "post_attention_norm.weight"}, %up_proj.weight: tensor<1024x2816xf32> {rlx.param = "up_proj.weight"}, %gate_proj.weight: tensor<1024x2816xf32> {rlx.param = "gate_proj.weight"}, %down_proj.weight: tensor<2816x1024xf32> {rlx.param = "down_proj.weight"}) -> (tensor<1x64x1024xf32> {rlx.output = "output"}) {
    %0 = rlx.constant dense<0.000000e+00> : tensor<1024xf32>
    %1 = rlx.rms_norm %hidden, %input_norm.weight, %0 {eps = 1.0e-6} : (tensor<1x64x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1x64x1024xf32>
    %2 = rlx.matmul %1, %q_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x1024xf32>) -> tensor<1x64x1024xf32>
    %3 = rlx.rope %2, %rope_cos, %rope_sin {head_dim = 64, layout = bsd} : (tensor<1x64x1024xf32>, tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<1x64x1024xf32>
    %4 = rlx.matmul %1, %k_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x256xf32>) -> tensor<1x64x256xf32>
    %5 = rlx.rope %4, %rope_cos, %rope_sin {head_dim = 64, layout = bsd} : (tensor<1x64x256xf32>, tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<1x64x256xf32>
    %6 = rlx.matmul %1, %v_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x256xf32>) -> tensor<1x64x256xf32>
    %7 = rlx.attention causal %3, %5, %6 {num_heads = 16, num_kv_heads = 4, head_dim = 64, layout = bsd} : (tensor<1x64x1024xf32>, tensor<1x64x256xf32>, tensor<1x64x256xf32>) -> tensor<1x64x1024xf32>
    %8 = rlx.matmul %7, %o_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x1024xf32>) -> tensor<1x64x1024xf32>
    %9 = rlx.binary add %hidden, %8 : (tensor<1x64x1024xf32>, tensor<1x64x1024xf32>) -> tensor<1x64x1024xf32>
    %10 = rlx.rms_norm %9, %post_attention_norm.weight, %0 {eps = 1.0e-6} : (tensor<1x64x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1x64x1024xf32>
    %11 = rlx.matmul %10, %up_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x2816xf32>) -> tensor<1x64x2816xf32>
    %12 = rlx.matmul %10, %gate_proj.weight : (tensor<1x64x1024xf32>, tensor<1024x2816xf32>) -> tensor<1x64x2816xf32>
    %13 = rlx.activation silu %12 : tensor<1x64x2816xf32>
    %14 = rlx.binary mul %11, %13 : (tensor<1x64x2816xf32>, tensor<1x64x2816xf32>) -> tensor<1x64x2816xf32>
    %15 = rlx.matmul %14, %down_proj.weight : (tensor<1x64x2816xf32>, tensor<2816x1024xf32>) -> tensor<1x64x1024xf32>
    %16 = rlx.binary add %9, %15 : (tensor<1x64x1024xf32>, tensor<1x64x1024xf32>) -> tensor<1x64x1024xf32>
    func.return %16 : tensor<1x64x1024xf32>
  }
}
