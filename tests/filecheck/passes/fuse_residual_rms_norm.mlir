// RUN: rlx-opt -p rlx-fuse-residual-rms-norm %s | filecheck %s

// A pre-norm block and the norm of the next one: both sums live on.
// CHECK-LABEL: @pre_norm
// CHECK-NEXT: [[N1:%.*]], [[S1:%.*]] = rlx.fused_residual_rms_norm %x, %r, %g, %b {eps = 1.0e-6} : {{.*}} -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)
// CHECK-NEXT: [[A:%.*]] = rlx.activation silu [[N1]]
// CHECK-NEXT: [[N2:%.*]], [[S2:%.*]] = rlx.fused_residual_rms_norm [[S1]], [[A]], %g, %b {eps = 1.0e-5}
// CHECK-NEXT: func.return [[N2]], [[S2]]
func.func @pre_norm(%x: tensor<2x3x8xf32>, %r: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %0 = rlx.binary add %x, %r : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.rms_norm %0, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %2 = rlx.activation silu %1 : tensor<2x3x8xf32>
  %3 = rlx.binary add %0, %2 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %4 = rlx.rms_norm %3, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return %4, %3 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// The sum is used before gamma is defined: gamma is moved up.
// CHECK-LABEL: @late_gamma
// CHECK-NEXT: [[G:%.*]] = rlx.constant dense<2.000000e+00>
// CHECK-NEXT: [[N:%.*]], [[S:%.*]] = rlx.fused_residual_rms_norm %x, %r, [[G]], %b
// CHECK-NEXT: [[T:%.*]] = rlx.activation tanh [[S]]
// CHECK-NEXT: func.return [[N]], [[T]]
func.func @late_gamma(%x: tensor<3x8xf32>, %r: tensor<3x8xf32>, %b: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = rlx.binary add %x, %r : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = rlx.activation tanh %0 : tensor<3x8xf32>
  %g = rlx.constant dense<2.0> : tensor<8xf32>
  %2 = rlx.rms_norm %0, %g, %b {eps = 1.0e-5} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  func.return %2, %1 : tensor<3x8xf32>, tensor<3x8xf32>
}

// The sum of a value with a conditioning vector is no residual sum.
// CHECK-LABEL: @broadcast
// CHECK-NEXT: rlx.binary add
// CHECK-NEXT: rlx.rms_norm
func.func @broadcast(%x: tensor<2x3x8xf32>, %c: tensor<2x1x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.binary add %x, %c : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.rms_norm %0, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return %1 : tensor<2x3x8xf32>
}
