// RUN: rlx-opt -p rlx-lower-to-mlx -t mlx-python %s | filecheck %s

// The sum that is used again is a line of its own; a beta of zeros is left out.
func.func @main(%x: tensor<2x8xf32>, %r: tensor<2x8xf32>, %gamma: tensor<8xf32>, %h: tensor<2x8xf16>, %g: tensor<8xf16>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf16>) {
  %beta = rlx.constant dense<0.0> : tensor<8xf32>
  %b = rlx.constant dense<0.0> : tensor<8xf16>
  %norm, %sum = rlx.fused_residual_rms_norm %x, %r, %gamma, %beta {eps = 1.0e-05} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %narrow = rlx.layer_norm %h, %g, %b {eps = 1.0e-05} : (tensor<2x8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<2x8xf16>
  func.return %norm, %sum, %narrow : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf16>
}

// CHECK:          total = x + r
// CHECK-NEXT:     norm = mx.fast.rms_norm(total, gamma, 1e-05)
// CHECK-NEXT:     narrow = mx.fast.layer_norm(h, g, None, 1e-05)
// CHECK-NEXT:     return norm, total, narrow
