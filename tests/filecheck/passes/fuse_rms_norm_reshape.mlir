// RUN: rlx-opt -p rlx-fuse-rms-norm-reshape %s | filecheck %s

// CHECK-LABEL: @static
// CHECK-NEXT: [[Y:%.*]] = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @static(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<6x8xf32> {
  %0 = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.reshape %0 {new_shape = [6, 8]} : tensor<2x3x8xf32> -> tensor<6x8xf32>
  func.return %1 : tensor<6x8xf32>
}

// CHECK-LABEL: @dynamic
// CHECK-NEXT: rlx.rms_norm {{.*}} -> tensor<?x8xf32>
func.func @dynamic(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  %1 = rlx.reshape %0 {new_shape = [-1, 8]} : tensor<?x?x8xf32> -> tensor<?x8xf32>
  func.return %1 : tensor<?x8xf32>
}

// Heads are split off the last axis: no flattening of the others.
// CHECK-LABEL: @split
// CHECK-NEXT: rlx.rms_norm
// CHECK-NEXT: rlx.reshape
func.func @split(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<12x4xf32> {
  %0 = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.reshape %0 {new_shape = [12, 4]} : tensor<2x3x8xf32> -> tensor<12x4xf32>
  func.return %1 : tensor<12x4xf32>
}
