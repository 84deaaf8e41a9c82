// A layer of BERT: self-attention with one projection to Q, K and V, a padding mask, norms after the residuals.
// Generated: python examples/generate.py bert_layer
builtin.module {
  func.func @main(%hidden: tensor<1x128x768xf32> {rlx.input = "hidden"}, %attention_mask: tensor<1x128xf32> {rlx.input = "attention_mask"}, %qkv.weight: tensor<768x2304xf32> {rlx.param = "qkv.weight"}, %qkv.bias: tensor<2304xf32> {rlx.param = "qkv.bias"}, %out.weight: tensor<768x768xf32> {rlx.param = "out.weight"}, %out.bias: tensor<768xf32> {rlx.param = "out.bias"}, %norm1.weight: tensor<768xf32> {rlx.param = "norm1.weight"}, %norm1.bias: tensor<768xf32> {rlx.param = "norm1.bias"}, %fc1.weight: tensor<768x3072xf32> {rlx.param = "fc1.weight"}, %fc1.bias: tensor<3072xf32> {rlx.param = "fc1.bias"}, %fc2.weight: tensor<3072x768xf32> {rlx.param = "fc2.weight"}, %fc2.bias: tensor<768xf32> {rlx.param = "fc2.bias"}, %norm2.weight: tensor<768xf32> {rlx.param = "norm2.weight"}, %norm2.bias: tensor<768xf32> {rlx.param = "norm2.bias"}) -> (tensor<1x128x768xf32> {rlx.output = "output"}) {
    %0 = rlx.matmul %hidden, %qkv.weight : (tensor<1x128x768xf32>, tensor<768x2304xf32>) -> tensor<1x128x2304xf32>
    %qkv = rlx.binary add %0, %qkv.bias : (tensor<1x128x2304xf32>, tensor<2304xf32>) -> tensor<1x128x2304xf32>
    %q = rlx.narrow %qkv {axis = 2, start = 0, len = 768} : tensor<1x128x2304xf32> -> tensor<1x128x768xf32>
    %k = rlx.narrow %qkv {axis = 2, start = 768, len = 768} : tensor<1x128x2304xf32> -> tensor<1x128x768xf32>
    %v = rlx.narrow %qkv {axis = 2, start = 1536, len = 768} : tensor<1x128x2304xf32> -> tensor<1x128x768xf32>
    %1 = rlx.attention custom %q, %k, %v, %attention_mask {num_heads = 12, head_dim = 64, layout = bsd} : (tensor<1x128x768xf32>, tensor<1x128x768xf32>, tensor<1x128x768xf32>, tensor<1x128xf32>) -> tensor<1x128x768xf32>
    %2 = rlx.matmul %1, %out.weight : (tensor<1x128x768xf32>, tensor<768x768xf32>) -> tensor<1x128x768xf32>
    %3 = rlx.binary add %2, %out.bias : (tensor<1x128x768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32>
    %4 = rlx.binary add %3, %hidden : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32>
    %5 = rlx.layer_norm %4, %norm1.weight, %norm1.bias {eps = 1.0e-12} : (tensor<1x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32>
    %6 = rlx.matmul %5, %fc1.weight : (tensor<1x128x768xf32>, tensor<768x3072xf32>) -> tensor<1x128x3072xf32>
    %7 = rlx.binary add %6, %fc1.bias : (tensor<1x128x3072xf32>, tensor<3072xf32>) -> tensor<1x128x3072xf32>
    %8 = rlx.activation gelu %7 : tensor<1x128x3072xf32>
    %9 = rlx.matmul %8, %fc2.weight : (tensor<1x128x3072xf32>, tensor<3072x768xf32>) -> tensor<1x128x768xf32>
    %10 = rlx.binary add %9, %fc2.bias : (tensor<1x128x768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32>
    %11 = rlx.binary add %10, %5 : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32>
    %12 = rlx.layer_norm %11, %norm2.weight, %norm2.bias {eps = 1.0e-12} : (tensor<1x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32>
    func.return %12 : tensor<1x128x768xf32>
  }
}
