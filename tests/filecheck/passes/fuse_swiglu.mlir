// RUN: rlx-opt -p rlx-fuse-swiglu %s | filecheck %s

// CHECK-LABEL: @gate_last
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_swiglu %p : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @gate_last(%p: tensor<2x3x16xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.narrow %p {axis = 2, start = 0, len = 8} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
  %1 = rlx.narrow %p {axis = 2, start = 8, len = 8} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
  %2 = rlx.activation silu %1 : tensor<2x3x8xf32>
  %3 = rlx.binary mul %0, %2 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return %3 : tensor<2x3x8xf32>
}

// The factors the other way round, and the gate in the first half.
// CHECK-LABEL: @gate_first
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_swiglu %p {gate_first} : tensor<2x16xf16> -> tensor<2x8xf16>
// CHECK-NEXT: func.return [[Y]]
func.func @gate_first(%p: tensor<2x16xf16>) -> tensor<2x8xf16> {
  %0 = rlx.narrow %p {axis = 1, start = 0, len = 8} : tensor<2x16xf16> -> tensor<2x8xf16>
  %1 = rlx.narrow %p {axis = 1, start = 8, len = 8} : tensor<2x16xf16> -> tensor<2x8xf16>
  %2 = rlx.activation silu %0 : tensor<2x8xf16>
  %3 = rlx.binary mul %2, %1 : (tensor<2x8xf16>, tensor<2x8xf16>) -> tensor<2x8xf16>
  func.return %3 : tensor<2x8xf16>
}

// Something else is packed with the two.
// CHECK-LABEL: @three_parts
// CHECK-NEXT: rlx.narrow
// CHECK-NEXT: rlx.narrow
// CHECK-NEXT: rlx.activation silu
// CHECK-NEXT: rlx.binary mul
func.func @three_parts(%p: tensor<2x24xf32>) -> tensor<2x8xf32> {
  %0 = rlx.narrow %p {axis = 1, start = 0, len = 8} : tensor<2x24xf32> -> tensor<2x8xf32>
  %1 = rlx.narrow %p {axis = 1, start = 8, len = 8} : tensor<2x24xf32> -> tensor<2x8xf32>
  %2 = rlx.activation silu %1 : tensor<2x8xf32>
  %3 = rlx.binary mul %0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %3 : tensor<2x8xf32>
}
