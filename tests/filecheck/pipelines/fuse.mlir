// RUN: rlx-opt --pipeline=cuda-fuse %s | filecheck %s --check-prefix=REGIONS
// RUN: rlx-opt --pipeline=rocm-fuse %s | filecheck %s --check-prefix=REGIONS
// RUN: rlx-opt --pipeline=tpu-fuse %s | filecheck %s --check-prefix=REGIONS
// RUN: rlx-opt --pipeline=cpu-fuse %s | filecheck %s --check-prefix=PLAIN
// RUN: rlx-opt --pipeline=metal-fuse %s | filecheck %s --check-prefix=PLAIN
// RUN: rlx-opt --pipeline=mlx-fuse %s | filecheck %s --check-prefix=PLAIN
// RUN: rlx-opt --pipeline=wgpu-fuse %s | filecheck %s --check-prefix=PLAIN

// Targets whose habit is to take element-wise regions apart again have none; the others do. All fuse the bias and
// the residual norm, and drop what nobody uses.

func.func @block(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x8xf32> {rlx.param = "w"},
                 %bias: tensor<8xf32> {rlx.param = "bias"}, %g: tensor<8xf32> {rlx.param = "g"},
                 %b: tensor<8xf32> {rlx.param = "b"}) -> tensor<4x8xf32> {
  %dead = rlx.activation tanh %x : tensor<4x8xf32>
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = rlx.binary add %0, %bias : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = rlx.activation gelu %1 : tensor<4x8xf32>
  %3 = rlx.binary add %2, %x : tensor<4x8xf32>
  %4 = rlx.layer_norm %3, %g, %b {eps = 1.0e-5} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %5 = rlx.activation sigmoid %4 : tensor<4x8xf32>
  %6 = rlx.binary mul %5, %g : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %6 : tensor<4x8xf32>
}

// PLAIN-LABEL: func.func @block(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x8xf32> {rlx.param = "w"}
// PLAIN-NEXT: %[[MM:.*]] = rlx.fused_matmul_bias_act gelu %x, %w, %bias
// PLAIN-NEXT: %[[LN:.*]] = rlx.fused_residual_ln %[[MM]], %x, %g, %b
// PLAIN-NEXT: %[[ACT:.*]] = rlx.activation sigmoid %[[LN]]
// PLAIN-NEXT: %[[MUL:.*]] = rlx.binary mul %[[ACT]], %g
// PLAIN-NEXT: func.return %[[MUL]]

// REGIONS-LABEL: func.func @block(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x8xf32> {rlx.param = "w"}
// REGIONS-NEXT: %[[MM:.*]] = rlx.fused_matmul_bias_act gelu %x, %w, %bias
// REGIONS-NEXT: %[[LN:.*]] = rlx.fused_residual_ln %[[MM]], %x, %g, %b
// REGIONS-NEXT: %[[R:.*]] = rlx.elementwise_region(%[[LN]], %g)
// REGIONS: rlx.activation sigmoid
// REGIONS: rlx.binary mul
// REGIONS: func.return %[[R]]
