// RUN: rlx-opt -p rlx-fuse-swiglu-dual-matmul %s | filecheck %s

// CHECK-LABEL: @parameters
// CHECK-NEXT: [[W:%.*]] = rlx.concat %u, %g {axis = 1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: [[P:%.*]] = rlx.matmul %x, [[W]] : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_swiglu [[P]] : tensor<2x16xf32> -> tensor<2x8xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @parameters(%x: tensor<2x4xf32>, %u: tensor<4x8xf32> {rlx.param = "u"}, %g: tensor<4x8xf32> {rlx.param = "g"}) -> tensor<2x8xf32> {
  %0 = rlx.matmul %x, %g : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %1 = rlx.activation silu %0 : tensor<2x8xf32>
  %2 = rlx.matmul %x, %u : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %3 = rlx.binary mul %1, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %3 : tensor<2x8xf32>
}

// The silu is part of the gate's product already.
// CHECK-LABEL: @biased
// CHECK-NEXT: [[W:%.*]] = rlx.concat %u, %g {axis = 1}
// CHECK-NEXT: [[B:%.*]] = rlx.concat %ub, %gb {axis = 0} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
// CHECK-NEXT: [[P:%.*]] = rlx.fused_matmul_bias_act %x, [[W]], [[B]] :
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_swiglu [[P]] : tensor<2x16xf32> -> tensor<2x8xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @biased(%x: tensor<2x4xf32>, %u: tensor<4x8xf32> {rlx.param = "u"}, %g: tensor<4x8xf32> {rlx.param = "g"}, %ub: tensor<8xf32> {rlx.param = "ub"}, %gb: tensor<8xf32> {rlx.param = "gb"}) -> tensor<2x8xf32> {
  %0 = rlx.fused_matmul_bias_act %x, %u, %ub : (tensor<2x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %1 = rlx.fused_matmul_bias_act silu %x, %g, %gb : (tensor<2x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %2 = rlx.binary mul %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %2 : tensor<2x8xf32>
}

// Weights that change with every call would be copied on every call.
// CHECK-LABEL: @inputs
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.activation silu
// CHECK-NEXT: rlx.binary mul
func.func @inputs(%x: tensor<2x4xf32>, %u: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.matmul %x, %u : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %1 = rlx.matmul %x, %g : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %2 = rlx.activation silu %1 : tensor<2x8xf32>
  %3 = rlx.binary mul %0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %3 : tensor<2x8xf32>
}
