// RUN: rlx-opt -p rlx-fuse-matmul-residual %s | filecheck %s

// CHECK-LABEL: @residual
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_matmul_residual %x, %w, %r : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @residual(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %r: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %r, %0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %1 : tensor<4x16xf32>
}

// A bias is no residual, and the kernels are for f32.
// CHECK-LABEL: @bias
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.binary add
func.func @bias(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  func.return %1 : tensor<4x16xf32>
}
// CHECK-LABEL: @half
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.binary add
func.func @half(%x: tensor<4x4xf16>, %w: tensor<4x4xf16>) -> tensor<4x4xf16> {
  %0 = rlx.matmul %x, %w : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %1 = rlx.binary add %0, %x : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  func.return %1 : tensor<4x4xf16>
}
