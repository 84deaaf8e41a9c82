// RUN: not rlx-opt -p rlx-lower-to-linalg %s 2>&1 | filecheck %s

// CHECK:      errors.mlir: error: rlx-lower-to-linalg: 2 operations cannot be lowered to linalg:
// CHECK-NEXT:   rlx.det %d at loc("{{.*}}errors.mlir":8:3): {{.*}}unknown extents
// CHECK-NEXT:   rlx.matmul %product at loc("{{.*}}errors.mlir":9:3): element type complex<f32>

func.func @main(%p: tensor<?x?xf32>, %z: tensor<2x2xcomplex<f32>>) -> (tensor<f32>, tensor<2x2xcomplex<f32>>) {
  %d = rlx.det %p : tensor<?x?xf32> -> tensor<f32>
  %product = rlx.matmul %z, %z : (tensor<2x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  func.return %d, %product : tensor<f32>, tensor<2x2xcomplex<f32>>
}
