// RUN: rlx-opt -p rlx-fuse-residual-ln %s | filecheck %s

// CHECK-LABEL: @post_norm
// CHECK-NEXT: [[N:%.*]] = rlx.fused_residual_ln %x, %r, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: func.return [[N]]
func.func @post_norm(%x: tensor<2x3x8xf32>, %r: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.binary add %x, %r : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.layer_norm %0, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return %1 : tensor<2x3x8xf32>
}

// The sum lives on: two results. x and residual keep their order.
// CHECK-LABEL: @pre_norm
// CHECK-NEXT: [[N:%.*]], [[S:%.*]] = rlx.fused_residual_ln %r, %x, %g, %b {eps = 1.0e-6} : {{.*}} -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)
// CHECK-NEXT: [[A:%.*]] = rlx.activation gelu [[N]]
// CHECK-NEXT: [[T:%.*]] = rlx.binary add [[A]], [[S]]
// CHECK-NEXT: func.return [[T]]
func.func @pre_norm(%x: tensor<2x3x8xf32>, %r: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.binary add %r, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.layer_norm %0, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %2 = rlx.activation gelu %1 : tensor<2x3x8xf32>
  %3 = rlx.binary add %2, %0 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return %3 : tensor<2x3x8xf32>
}

// The sum is returned and used before the norm: the fused operation stands before that use.
// CHECK-LABEL: @early_use
// CHECK-NEXT: [[N:%.*]], [[S:%.*]] = rlx.fused_residual_ln %x, %r, %g, %b
// CHECK-NEXT: [[A:%.*]] = rlx.activation tanh [[S]]
// CHECK-NEXT: func.return [[N]], [[A]], [[S]]
func.func @early_use(%x: tensor<3x8xf32>, %r: tensor<3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = rlx.binary add %x, %r : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = rlx.activation tanh %0 : tensor<3x8xf32>
  %2 = rlx.layer_norm %0, %g, %b {eps = 1.0e-5} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  func.return %2, %1, %0 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// A summand that broadcasts is no residual.
// CHECK-LABEL: @broadcast
// CHECK-NEXT: rlx.binary add
// CHECK-NEXT: rlx.layer_norm
func.func @broadcast(%x: tensor<2x3x8xf32>, %r: tensor<1x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = rlx.binary add %x, %r : (tensor<2x3x8xf32>, tensor<1x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.layer_norm %0, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  func.return %1 : tensor<2x3x8xf32>
}
