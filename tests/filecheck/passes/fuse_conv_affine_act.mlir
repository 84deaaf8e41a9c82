// RUN: rlx-opt -p rlx-fuse-conv-affine-act %s | filecheck %s

// CHECK-LABEL: @batch_norm
// CHECK-NEXT: [[C:%.*]] = rlx.reshape %scale {new_shape = [4, 1, 1, 1]} : tensor<4xf32> -> tensor<4x1x1x1xf32>
// CHECK-NEXT: [[W:%.*]] = rlx.binary mul %w, [[C]] : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x3x3xf32>
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_conv_bias_act relu %x, [[W]], %shift, %r {kernel_size = [3, 3], padding = [1, 1]}
// CHECK-NEXT: func.return [[Y]]
func.func @batch_norm(%x: tensor<2x3x5x5xf32> {rlx.input = "x"}, %w: tensor<4x3x3x3xf32> {rlx.param = "w"}, %scale: tensor<4xf32> {rlx.param = "scale"},
                      %shift: tensor<4xf32> {rlx.param = "shift"}, %r: tensor<2x4x5x5xf32> {rlx.input = "r"}) -> tensor<2x4x5x5xf32> {
  %0 = rlx.reshape %scale {new_shape = [4, 1, 1]} : tensor<4xf32> -> tensor<4x1x1xf32>
  %1 = rlx.reshape %shift {new_shape = [4, 1, 1]} : tensor<4xf32> -> tensor<4x1x1xf32>
  %2 = rlx.conv %x, %w {kernel_size = [3, 3], padding = [1, 1]} : (tensor<2x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x5x5xf32>
  %3 = rlx.binary mul %0, %2 : (tensor<4x1x1xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %4 = rlx.binary add %3, %1 : (tensor<2x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<2x4x5x5xf32>
  %5 = rlx.binary add %4, %r : (tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %6 = rlx.activation relu %5 : tensor<2x4x5x5xf32>
  func.return %6 : tensor<2x4x5x5xf32>
}

// A scale that is an input would scale the weight on every call.
// CHECK-LABEL: @input
// CHECK-NEXT: rlx.conv
// CHECK-NEXT: rlx.binary mul
// CHECK-NEXT: rlx.binary add
func.func @input(%x: tensor<2x3x5x5xf32> {rlx.input = "x"}, %w: tensor<4x3x3x3xf32> {rlx.param = "w"}, %scale: tensor<4x1x1xf32> {rlx.input = "scale"},
                 %shift: tensor<4x1x1xf32> {rlx.param = "shift"}) -> tensor<2x4x5x5xf32> {
  %0 = rlx.conv %x, %w {kernel_size = [3, 3], padding = [1, 1]} : (tensor<2x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x5x5xf32>
  %1 = rlx.binary mul %0, %scale : (tensor<2x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<2x4x5x5xf32>
  %2 = rlx.binary add %1, %shift : (tensor<2x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<2x4x5x5xf32>
  func.return %2 : tensor<2x4x5x5xf32>
}
