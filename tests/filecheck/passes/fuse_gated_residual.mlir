// RUN: rlx-opt -p rlx-fuse-gated-residual %s | filecheck %s

// CHECK-LABEL: @one_element
// CHECK-NEXT: [[S:%.*]] = rlx.gated_residual %x, %y, %gate : (tensor<2x1xf32>, tensor<2x1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT: func.return [[S]]
func.func @one_element(%x: tensor<2x1xf32>, %y: tensor<2x1xf32>, %gate: tensor<1xf32>) -> tensor<2x1xf32> {
  %0 = rlx.binary mul %gate, %y : (tensor<1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %1 = rlx.binary add %x, %0 : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  func.return %1 : tensor<2x1xf32>
}

// The gate is taken from before its expansion.
// CHECK-LABEL: @expanded
// CHECK-NEXT: rlx.gated_residual %x, %y, %gate : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
func.func @expanded(%x: tensor<2x3x8xf32>, %y: tensor<2x3x8xf32>, %gate: tensor<2x1x8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.expand %gate {shape = [2, 3, 8]} : tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  %1 = rlx.binary mul %y, %0 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %2 = rlx.binary add %1, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return %2 : tensor<2x3x8xf32>
}

// The kernels are for f32.
// CHECK-LABEL: @half
// CHECK-NEXT: rlx.binary mul
// CHECK-NEXT: rlx.binary add
func.func @half(%x: tensor<2x1xf16>, %y: tensor<2x1xf16>, %gate: tensor<1xf16>) -> tensor<2x1xf16> {
  %0 = rlx.binary mul %gate, %y : (tensor<1xf16>, tensor<2x1xf16>) -> tensor<2x1xf16>
  %1 = rlx.binary add %x, %0 : (tensor<2x1xf16>, tensor<2x1xf16>) -> tensor<2x1xf16>
  func.return %1 : tensor<2x1xf16>
}

// x + gate·x is no residual.
// CHECK-LABEL: @identity
// CHECK-NEXT: rlx.binary mul
// CHECK-NEXT: rlx.binary add
func.func @identity(%x: tensor<3x8xf32>, %gate: tensor<8xf32>) -> tensor<3x8xf32> {
  %0 = rlx.binary mul %gate, %x : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = rlx.binary add %x, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  func.return %1 : tensor<3x8xf32>
}
