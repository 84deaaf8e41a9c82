// RUN: not rlx-opt -p rlx-lower-to-mlx %s 2>&1 | filecheck %s

// Everything that MLX has no form for is in one message.
func.func @main(%x: tensor<2xcomplex<f64>>, %y: tensor<2xf64>) -> (tensor<2xcomplex<f64>>, tensor<2xf64>, tensor<2xcomplex<f64>>) {
  %sum = rlx.binary add %x, %x : (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) -> tensor<2xcomplex<f64>>
  %root = rlx.activation sqrt %y : tensor<2xf64>
  %wide = rlx.cast %root : (tensor<2xf64>) -> tensor<2xcomplex<f64>>
  func.return %sum, %root, %wide : tensor<2xcomplex<f64>>, tensor<2xf64>, tensor<2xcomplex<f64>>
}

// CHECK:      2 operations not supported by mlx:
// CHECK-NEXT: rlx.binary %sum {{.*}}: MLX has no element type complex<f64>
// CHECK-NEXT: rlx.cast %wide {{.*}}: MLX has no element type complex<f64>
