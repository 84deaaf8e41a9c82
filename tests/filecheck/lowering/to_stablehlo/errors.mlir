// RUN: not rlx-opt -p rlx-lower-to-stablehlo %s 2>&1 | filecheck %s
// RUN: not rlx-opt -p "rlx-lower-to-stablehlo{precision=exact}" %s 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not rlx-opt -t rlx-stablehlo %s 2>&1 | filecheck %s --check-prefix=EARLY

// CHECK:      errors.mlir: error: rlx-lower-to-stablehlo: 2 operations not supported by stablehlo:
// CHECK-NEXT:   rlx.det %d at loc("{{.*}}errors.mlir":{{.*}}): {{.*}}unknown extents
// CHECK-NEXT:   rlx.qr %f at loc("{{.*}}errors.mlir":{{.*}}): {{.*}}unknown extents
// OPTION:     error: rlx-lower-to-stablehlo: unknown precision 'exact'; known are highest, high, default
// EARLY:      errors.mlir: error: rlx-stablehlo: 'rlx.det' is left in a module that is handed to another compiler: lower it first

func.func @main(%p: tensor<?x?xf32>) -> (tensor<f32>, tensor<?x?xf32>) {
  %d = rlx.det %p : tensor<?x?xf32> -> tensor<f32>
  %f = rlx.qr r %p : tensor<?x?xf32> -> tensor<?x?xf32>
  func.return %d, %f : tensor<f32>, tensor<?x?xf32>
}
