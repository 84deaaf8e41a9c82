// A perceptron for images of digits: two hidden layers, one with exact gelu and one with relu.
// Generated: python examples/generate.py mlp
builtin.module {
  func.func @main(%x: tensor<64x784xf32> {rlx.input = "x"}, %fc1.weight: tensor<784x512xf32> {rlx.param = "fc1.weight"}, %fc1.bias: tensor<512xf32> {rlx.param = "fc1.bias"}, %fc2.weight: tensor<512x512xf32> {rlx.param = "fc2.weight"}, %fc2.bias: tensor<512xf32> {rlx.param = "fc2.bias"}, %fc3.weight: tensor<512x10xf32> {rlx.param = "fc3.weight"}, %fc3.bias: tensor<10xf32> {rlx.param = "fc3.bias"}) -> (tensor<64x10xf32> {rlx.output = "logits"}) {
    %0 = rlx.matmul %x, %fc1.weight : (tensor<64x784xf32>, tensor<784x512xf32>) -> tensor<64x512xf32>
    %1 = rlx.binary add %0, %fc1.bias : (tensor<64x512xf32>, tensor<512xf32>) -> tensor<64x512xf32>
    %2 = rlx.activation gelu %1 : tensor<64x512xf32>
    %3 = rlx.matmul %2, %fc2.weight : (tensor<64x512xf32>, tensor<512x512xf32>) -> tensor<64x512xf32>
    %4 = rlx.binary add %3, %fc2.bias : (tensor<64x512xf32>, tensor<512xf32>) -> tensor<64x512xf32>
    %5 = rlx.activation relu %4 : tensor<64x512xf32>
    %6 = rlx.matmul %5, %fc3.weight : (tensor<64x512xf32>, tensor<512x10xf32>) -> tensor<64x10xf32>
    %7 = rlx.binary add %6, %fc3.bias : (tensor<64x10xf32>, tensor<10xf32>) -> tensor<64x10xf32>
    func.return %7 : tensor<64x10xf32>
  }
}
