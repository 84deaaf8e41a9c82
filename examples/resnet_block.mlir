// A bottleneck of ResNet (NCHW): three convolutions, each with its batch norm as scale and shift.
// Generated: python examples/generate.py resnet_block
builtin.module {
  func.func @main(%x: tensor<1x256x56x56xf32> {rlx.input = "x"}, %conv1.weight: tensor<64x256x1x1xf32> {rlx.param = "conv1.weight"}, %conv1.scale: tensor<64xf32> {rlx.param = "conv1.scale"}, %conv1.shift: tensor<64xf32> {rlx.param = "conv1.shift"}, %conv2.weight: tensor<64x64x3x3xf32> {rlx.param = "conv2.weight"}, %conv2.scale: tensor<64xf32> {rlx.param = "conv2.scale"}, %conv2.shift: tensor<64xf32> {rlx.param = "conv2.shift"}, %conv3.weight: tensor<256x64x1x1xf32> {rlx.param = "conv3.weight"}, %conv3.scale: tensor<256xf32> {rlx.param = "conv3.scale"}, %conv3.shift: tensor<256xf32> {rlx.param = "conv3.shift"}) -> (tensor<1x256x56x56xf32> {rlx.output = "y"}) {
    %0 = rlx.reshape %conv1.scale {new_shape = [64, 1, 1]} : tensor<64xf32> -> tensor<64x1x1xf32>
    %1 = rlx.reshape %conv1.shift {new_shape = [64, 1, 1]} : tensor<64xf32> -> tensor<64x1x1xf32>
    %2 = rlx.conv %x, %conv1.weight {kernel_size = [1, 1]} : (tensor<1x256x56x56xf32>, tensor<64x256x1x1xf32>) -> tensor<1x64x56x56xf32>
    %3 = rlx.binary mul %2, %0 : (tensor<1x64x56x56xf32>, tensor<64x1x1xf32>) -> tensor<1x64x56x56xf32>
    %4 = rlx.binary add %3, %1 : (tensor<1x64x56x56xf32>, tensor<64x1x1xf32>) -> tensor<1x64x56x56xf32>
    %5 = rlx.activation relu %4 : tensor<1x64x56x56xf32>
    %6 = rlx.reshape %conv2.scale {new_shape = [64, 1, 1]} : tensor<64xf32> -> tensor<64x1x1xf32>
    %7 = rlx.reshape %conv2.shift {new_shape = [64, 1, 1]} : tensor<64xf32> -> tensor<64x1x1xf32>
    %8 = rlx.conv %5, %conv2.weight {kernel_size = [3, 3], padding = [1, 1]} : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32>
    %9 = rlx.binary mul %8, %6 : (tensor<1x64x56x56xf32>, tensor<64x1x1xf32>) -> tensor<1x64x56x56xf32>
    %10 = rlx.binary add %9, %7 : (tensor<1x64x56x56xf32>, tensor<64x1x1xf32>) -> tensor<1x64x56x56xf32>
    %11 = rlx.activation relu %10 : tensor<1x64x56x56xf32>
    %12 = rlx.reshape %conv3.scale {new_shape = [256, 1, 1]} : tensor<256xf32> -> tensor<256x1x1xf32>
    %13 = rlx.reshape %conv3.shift {new_shape = [256, 1, 1]} : tensor<256xf32> -> tensor<256x1x1xf32>
    %14 = rlx.conv %11, %conv3.weight {kernel_size = [1, 1]} : (tensor<1x64x56x56xf32>, tensor<256x64x1x1xf32>) -> tensor<1x256x56x56xf32>
    %15 = rlx.binary mul %14, %12 : (tensor<1x256x56x56xf32>, tensor<256x1x1xf32>) -> tensor<1x256x56x56xf32>
    %16 = rlx.binary add %15, %13 : (tensor<1x256x56x56xf32>, tensor<256x1x1xf32>) -> tensor<1x256x56x56xf32>
    %17 = rlx.binary add %16, %x : (tensor<1x256x56x56xf32>, tensor<1x256x56x56xf32>) -> tensor<1x256x56x56xf32>
    %18 = rlx.activation relu %17 : tensor<1x256x56x56xf32>
    func.return %18 : tensor<1x256x56x56xf32>
  }
}
