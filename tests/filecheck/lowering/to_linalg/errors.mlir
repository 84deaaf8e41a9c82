// RUN: not rlx-opt -p rlx-lower-to-linalg %s 2>&1 | filecheck %s

// CHECK:      errors.mlir: error: rlx-lower-to-linalg: 2 operations cannot be lowered to linalg:
// CHECK-NEXT:   rlx.scatter_nd %sum at loc("{{.*}}errors.mlir":8:3): it has no lowering and is not made of simpler operations
// CHECK-NEXT:   rlx.binary %product at loc("{{.*}}errors.mlir":9:3): element type complex<f32>

func.func @main(%d: tensor<4x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2x3xf32>, %z: tensor<2xcomplex<f32>>) -> (tensor<4x3xf32>, tensor<2xcomplex<f32>>) {
  %sum = rlx.scatter_nd add %d, %i, %u : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %product = rlx.binary mul %z, %z : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  func.return %sum, %product : tensor<4x3xf32>, tensor<2xcomplex<f32>>
}
