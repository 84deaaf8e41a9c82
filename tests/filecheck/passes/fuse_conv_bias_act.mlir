// RUN: rlx-opt -p rlx-fuse-conv-bias-act %s | filecheck %s
// RUN: rlx-opt -p 'rlx-fuse-conv-bias-act{epilogues=silu kernel-limits=false}' %s | filecheck %s --check-prefix=OTHER

// CHECK-LABEL: @relu
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_conv_bias_act relu %x, %w, %bias {kernel_size = [3, 3], stride = [2, 2]} : (tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
// CHECK-NEXT: func.return [[Y]]
// OTHER-LABEL: @relu
// OTHER-NEXT: [[Y:%.*]] = rlx.fused_conv_bias_act %x, %w, %bias
// OTHER-NEXT: rlx.activation relu [[Y]]
func.func @relu(%x: tensor<2x3x9x9xf32>, %w: tensor<4x3x3x3xf32>, %bias: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  %0 = rlx.reshape %bias {new_shape = [1, 4, 1, 1]} : tensor<4xf32> -> tensor<1x4x1x1xf32>
  %1 = rlx.conv %x, %w {kernel_size = [3, 3], stride = [2, 2]} : (tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %2 = rlx.binary add %1, %0 : (tensor<2x4x4x4xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %3 = rlx.activation relu %2 : tensor<2x4x4x4xf32>
  func.return %3 : tensor<2x4x4x4xf32>
}

// A residual is taken in too; the kernel takes no window of one element, the operation does.
// CHECK-LABEL: @residual
// CHECK: rlx.conv
// CHECK-NOT: rlx.fused_conv_bias_act
// OTHER-LABEL: @residual
// OTHER-NEXT: [[Y:%.*]] = rlx.fused_conv_bias_act silu %x, %w, %bias, %r {kernel_size = [1, 1]}
// OTHER-NEXT: func.return [[Y]]
func.func @residual(%x: tensor<2x3x5x5xf32>, %w: tensor<4x3x1x1xf32>, %bias: tensor<4xf32>, %r: tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32> {
  %0 = rlx.reshape %bias {new_shape = [4, 1, 1]} : tensor<4xf32> -> tensor<4x1x1xf32>
  %1 = rlx.conv %x, %w {kernel_size = [1, 1]} : (tensor<2x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x5x5xf32>
  %2 = rlx.binary add %0, %1 : (tensor<4x1x1xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %3 = rlx.binary add %r, %2 : (tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %4 = rlx.activation silu %3 : tensor<2x4x5x5xf32>
  func.return %4 : tensor<2x4x5x5xf32>
}

// As many elements as channels, but along the width.
// CHECK-LABEL: @width
// CHECK-NEXT: rlx.conv
// CHECK-NEXT: rlx.binary add
// OTHER-LABEL: @width
// OTHER-NEXT: rlx.conv
func.func @width(%x: tensor<2x4x6x6xf32>, %w: tensor<4x4x3x3xf32>, %bias: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  %0 = rlx.conv %x, %w {kernel_size = [3, 3]} : (tensor<2x4x6x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = rlx.binary add %0, %bias : (tensor<2x4x4x4xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
  func.return %1 : tensor<2x4x4x4xf32>
}
