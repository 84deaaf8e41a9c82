// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// The first reduction is marked: a compiler should not fuse what comes before into the norm.
func.func @layer_norm(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return %0 : tensor<2x3x8xf32>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK:       linalg.generic {{.*}} ins(%x : tensor<2x3x8xf32>) outs({{.*}} : tensor<2x3xf32>) attrs = {rlx.barrier_before}
// CHECK:       [[mean:%.*]] = linalg.generic
// CHECK:         arith.divf
// CHECK:       [[squares:%.*]] = linalg.generic {{.*}} ins(%x, [[mean]] : tensor<2x3x8xf32>, tensor<2x3xf32>)
// CHECK-NOT:   rlx.barrier_before
// CHECK:         [[c:%.*]] = arith.subf
// CHECK-NEXT:    arith.mulf [[c]], [[c]]
// CHECK:       [[factor:%.*]] = linalg.generic {{.*}} ins([[squares]]
// CHECK:         math.rsqrt
// CHECK:       linalg.generic {{.*}} ins(%x, [[mean]], [[factor]], %g, %b
// CHECK:       func.return

// The sum is computed once for both results.
func.func @residual(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0, %1 = rlx.fused_residual_rms_norm %x, %r, %g, %b {eps = 1.0e-6} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  func.return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @residual
// CHECK:       [[sum:%.*]] = linalg.generic {{.*}} ins(%x, %r
// CHECK:         arith.addf
// CHECK:       linalg.generic {{.*}} ins([[sum]] : tensor<4x8xf32>) outs({{.*}}) attrs = {rlx.barrier_before}
// CHECK:       [[y:%.*]] = linalg.generic {{.*}} ins([[sum]], {{%.*}}, %g, %b
// CHECK:       func.return [[y]], [[sum]]
