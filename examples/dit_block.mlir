// A diffusion transformer block: norms and residuals are scaled, shifted and gated by a condition (adaLN-Zero).
// Generated: python examples/generate.py dit_block
builtin.module {
  func.func @main(%x: tensor<1x256x384xf32> {rlx.input = "x"}, %condition: tensor<1x384xf32> {rlx.input = "condition"}, %modulation.weight: tensor<384x2304xf32> {rlx.param = "modulation.weight"}, %modulation.bias: tensor<2304xf32> {rlx.param = "modulation.bias"}, %qkv.weight: tensor<384x1152xf32> {rlx.param = "qkv.weight"}, %qkv.bias: tensor<1152xf32> {rlx.param = "qkv.bias"}, %proj.weight: tensor<384x384xf32> {rlx.param = "proj.weight"}, %proj.bias: tensor<384xf32> {rlx.param = "proj.bias"}, %fc1.weight: tensor<384x1536xf32> {rlx.param = "fc1.weight"}, %fc1.bias: tensor<1536xf32> {rlx.param = "fc1.bias"}, %fc2.weight: tensor<1536x384xf32> {rlx.param = "fc2.weight"}, %fc2.bias: tensor<384xf32> {rlx.param = "fc2.bias"}) -> (tensor<1x256x384xf32> {rlx.output = "output"}) {
    %0 = rlx.activation silu %condition : tensor<1x384xf32>
    %1 = rlx.matmul %0, %modulation.weight : (tensor<1x384xf32>, tensor<384x2304xf32>) -> tensor<1x2304xf32>
    %2 = rlx.binary add %1, %modulation.bias : (tensor<1x2304xf32>, tensor<2304xf32>) -> tensor<1x2304xf32>
    %3 = rlx.reshape %2 {new_shape = [1, 1, 2304]} : tensor<1x2304xf32> -> tensor<1x1x2304xf32>
    %shift1 = rlx.narrow %3 {axis = 2, start = 0, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %scale1 = rlx.narrow %3 {axis = 2, start = 384, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %gate1 = rlx.narrow %3 {axis = 2, start = 768, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %shift2 = rlx.narrow %3 {axis = 2, start = 1152, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %scale2 = rlx.narrow %3 {axis = 2, start = 1536, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %gate2 = rlx.narrow %3 {axis = 2, start = 1920, len = 384} : tensor<1x1x2304xf32> -> tensor<1x1x384xf32>
    %4 = rlx.constant dense<1.000000e+00> : tensor<384xf32>
    %5 = rlx.constant dense<0.000000e+00> : tensor<384xf32>
    %6 = rlx.layer_norm %x, %4, %5 {eps = 1.0e-6} : (tensor<1x256x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x256x384xf32>
    %7 = rlx.constant dense<1.000000e+00> : tensor<f32>
    %8 = rlx.binary add %7, %scale1 : (tensor<f32>, tensor<1x1x384xf32>) -> tensor<1x1x384xf32>
    %9 = rlx.binary mul %6, %8 : (tensor<1x256x384xf32>, tensor<1x1x384xf32>) -> tensor<1x256x384xf32>
    %10 = rlx.binary add %9, %shift1 : (tensor<1x256x384xf32>, tensor<1x1x384xf32>) -> tensor<1x256x384xf32>
    %11 = rlx.matmul %10, %qkv.weight : (tensor<1x256x384xf32>, tensor<384x1152xf32>) -> tensor<1x256x1152xf32>
    %12 = rlx.binary add %11, %qkv.bias : (tensor<1x256x1152xf32>, tensor<1152xf32>) -> tensor<1x256x1152xf32>
    %13 = rlx.narrow %12 {axis = 2, start = 0, len = 384} : tensor<1x256x1152xf32> -> tensor<1x256x384xf32>
    %14 = rlx.narrow %12 {axis = 2, start = 384, len = 384} : tensor<1x256x1152xf32> -> tensor<1x256x384xf32>
    %15 = rlx.narrow %12 {axis = 2, start = 768, len = 384} : tensor<1x256x1152xf32> -> tensor<1x256x384xf32>
    %16 = rlx.attention %13, %14, %15 {num_heads = 6, head_dim = 64, layout = bsd} : (tensor<1x256x384xf32>, tensor<1x256x384xf32>, tensor<1x256x384xf32>) -> tensor<1x256x384xf32>
    %17 = rlx.matmul %16, %proj.weight : (tensor<1x256x384xf32>, tensor<384x384xf32>) -> tensor<1x256x384xf32>
    %18 = rlx.binary add %17, %proj.bias : (tensor<1x256x384xf32>, tensor<384xf32>) -> tensor<1x256x384xf32>
    %19 = rlx.binary mul %gate1, %18 : (tensor<1x1x384xf32>, tensor<1x256x384xf32>) -> tensor<1x256x384xf32>
    %20 = rlx.binary add %x, %19 : (tensor<1x256x384xf32>, tensor<1x256x384xf32>) -> tensor<1x256x384xf32>
    %21 = rlx.layer_norm %20, %4, %5 {eps = 1.0e-6} : (tensor<1x256x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x256x384xf32>
    %22 = rlx.binary add %7, %scale2 : (tensor<f32>, tensor<1x1x384xf32>) -> tensor<1x1x384xf32>
    %23 = rlx.binary mul %21, %22 : (tensor<1x256x384xf32>, tensor<1x1x384xf32>) -> tensor<1x256x384xf32>
    %24 = rlx.binary add %23, %shift2 : (tensor<1x256x384xf32>, tensor<1x1x384xf32>) -> tensor<1x256x384xf32>
    %25 = rlx.matmul %24, %fc1.weight : (tensor<1x256x384xf32>, tensor<384x1536xf32>) -> tensor<1x256x1536xf32>
    %26 = rlx.binary add %25, %fc1.bias : (tensor<1x256x1536xf32>, tensor<1536xf32>) -> tensor<1x256x1536xf32>
    %27 = rlx.activation gelu_approx %26 : tensor<1x256x1536xf32>
    %28 = rlx.matmul %27, %fc2.weight : (tensor<1x256x1536xf32>, tensor<1536x384xf32>) -> tensor<1x256x384xf32>
    %29 = rlx.binary add %28, %fc2.bias : (tensor<1x256x384xf32>, tensor<384xf32>) -> tensor<1x256x384xf32>
    %30 = rlx.binary mul %gate2, %29 : (tensor<1x1x384xf32>, tensor<1x256x384xf32>) -> tensor<1x256x384xf32>
    %31 = rlx.binary add %20, %30 : (tensor<1x256x384xf32>, tensor<1x256x384xf32>) -> tensor<1x256x384xf32>
    func.return %31 : tensor<1x256x384xf32>
  }
}
