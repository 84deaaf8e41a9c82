// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Solutions, factors and determinants of matrices.

// CHECK-LABEL: func.func @solve(
// CHECK-NEXT: %0 = rlx.dense_solve %a, %v : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %1 = rlx.dense_solve %d, %b : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
// CHECK-NEXT: %2 = rlx.triangular_solve %d, %b : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
// CHECK-NEXT: %3 = rlx.dense_solve %d, %w : (tensor<?x4x4xf64>, tensor<?x4xf64>) -> tensor<?x4xf64>
// CHECK-NEXT: %4 = rlx.triangular_solve %a, %a {lower, transpose} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// GENERIC-LABEL: sym_name = "solve"
// GENERIC: %0 = "rlx.dense_solve"(%a, %v) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
// GENERIC-NEXT: %1 = "rlx.dense_solve"(%d, %b) : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
// GENERIC-NEXT: %2 = "rlx.triangular_solve"(%d, %b) : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
// GENERIC-NEXT: %3 = "rlx.dense_solve"(%d, %w) : (tensor<?x4x4xf64>, tensor<?x4xf64>) -> tensor<?x4xf64>
// GENERIC-NEXT: %4 = "rlx.triangular_solve"(%a, %a) <{lower, transpose}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @solve(%a: tensor<4x4xf32>, %v: tensor<4xf32>, %d: tensor<?x4x4xf64>, %b: tensor<?x4x?xf64>, %w: tensor<?x4xf64>) {
  %0 = rlx.dense_solve %a, %v : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = rlx.dense_solve %d, %b : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
  %2 = rlx.triangular_solve %d, %b : (tensor<?x4x4xf64>, tensor<?x4x?xf64>) -> tensor<?x4x?xf64>
  %3 = rlx.dense_solve %d, %w : (tensor<?x4x4xf64>, tensor<?x4xf64>) -> tensor<?x4xf64>
  %4 = rlx.triangular_solve %a, %a {lower, transpose} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @factors(
// CHECK-NEXT: %0 = rlx.svd u %a : tensor<2x5x3xf32> -> tensor<2x5x3xf32>
// CHECK-NEXT: %1 = rlx.svd s %a : tensor<2x5x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: %2 = rlx.svd vt %d : tensor<?x3xbf16> -> tensor<?x3xbf16>
// CHECK-NEXT: %3 = rlx.qr q %d : tensor<?x3xbf16> -> tensor<?x?xbf16>
// CHECK-NEXT: %4 = rlx.qr r %a : tensor<2x5x3xf32> -> tensor<2x3x3xf32>
// CHECK-NEXT: %5 = rlx.cholesky %s : tensor<?x3x3xf16>
// GENERIC-LABEL: sym_name = "factors"
// GENERIC: %0 = "rlx.svd"(%a) <{part = #rlx<svd_part u>}> : (tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
// GENERIC-NEXT: %1 = "rlx.svd"(%a) <{part = #rlx<svd_part s>}> : (tensor<2x5x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %2 = "rlx.svd"(%d) <{part = #rlx<svd_part vt>}> : (tensor<?x3xbf16>) -> tensor<?x3xbf16>
// GENERIC-NEXT: %3 = "rlx.qr"(%d) <{part = #rlx<qr_part q>}> : (tensor<?x3xbf16>) -> tensor<?x?xbf16>
// GENERIC-NEXT: %4 = "rlx.qr"(%a) <{part = #rlx<qr_part r>}> : (tensor<2x5x3xf32>) -> tensor<2x3x3xf32>
// GENERIC-NEXT: %5 = "rlx.cholesky"(%s) : (tensor<?x3x3xf16>) -> tensor<?x3x3xf16>
func.func @factors(%a: tensor<2x5x3xf32>, %d: tensor<?x3xbf16>, %s: tensor<?x3x3xf16>) {
  %0 = rlx.svd u %a : tensor<2x5x3xf32> -> tensor<2x5x3xf32>
  %1 = rlx.svd s %a : tensor<2x5x3xf32> -> tensor<2x3xf32>
  %2 = rlx.svd vt %d : tensor<?x3xbf16> -> tensor<?x3xbf16>
  %3 = rlx.qr q %d : tensor<?x3xbf16> -> tensor<?x?xbf16>
  %4 = rlx.qr r %a : tensor<2x5x3xf32> -> tensor<2x3x3xf32>
  %5 = rlx.cholesky %s : tensor<?x3x3xf16>
  func.return
}

// CHECK-LABEL: func.func @determinants(
// CHECK-NEXT: %0 = rlx.det %a : tensor<3x3xf32> -> tensor<f32>
// CHECK-NEXT: %1 = rlx.det %d : tensor<?x2x?x?xf64> -> tensor<?x2xf64>
// CHECK-NEXT: %2 = rlx.log_det %a : tensor<3x3xf32> -> tensor<f32>
// GENERIC-LABEL: sym_name = "determinants"
// GENERIC: %0 = "rlx.det"(%a) : (tensor<3x3xf32>) -> tensor<f32>
// GENERIC-NEXT: %1 = "rlx.det"(%d) : (tensor<?x2x?x?xf64>) -> tensor<?x2xf64>
// GENERIC-NEXT: %2 = "rlx.log_det"(%a) : (tensor<3x3xf32>) -> tensor<f32>
func.func @determinants(%a: tensor<3x3xf32>, %d: tensor<?x2x?x?xf64>) {
  %0 = rlx.det %a : tensor<3x3xf32> -> tensor<f32>
  %1 = rlx.det %d : tensor<?x2x?x?xf64> -> tensor<?x2xf64>
  %2 = rlx.log_det %a : tensor<3x3xf32> -> tensor<f32>
  func.return
}
