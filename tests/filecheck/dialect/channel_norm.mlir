// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Norms of channels, and batch norm with given statistics.

// CHECK-LABEL: func.func @channels(
// CHECK-NEXT: %0 = rlx.group_norm %x, %v, %v {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
// CHECK-NEXT: %1 = rlx.group_norm %r, %b, %b {num_groups = 4, eps = 0.0} : (tensor<?x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT: %2 = rlx.group_norm %d, %w, %w {num_groups = 3, eps = 1.0e-5} : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
// CHECK-NEXT: %3 = rlx.layer_norm_2d %x, %v, %v {eps = 1.0e-6} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
// CHECK-NEXT: %4 = rlx.layer_norm_2d %d, %w, %w {eps = 1.0e-6} : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
// GENERIC-LABEL: sym_name = "channels"
// GENERIC: %0 = "rlx.group_norm"(%x, %v, %v) <{num_groups = 2 : i64, eps = 1.000000e-05 : f64}> : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
// GENERIC-NEXT: %1 = "rlx.group_norm"(%r, %b, %b) <{num_groups = 4 : i64, eps = 0.000000e+00 : f64}> : (tensor<?x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
// GENERIC-NEXT: %2 = "rlx.group_norm"(%d, %w, %w) <{num_groups = 3 : i64, eps = 1.000000e-05 : f64}> : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
// GENERIC-NEXT: %3 = "rlx.layer_norm_2d"(%x, %v, %v) <{eps = 1.000000e-06 : f64}> : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
// GENERIC-NEXT: %4 = "rlx.layer_norm_2d"(%d, %w, %w) <{eps = 1.000000e-06 : f64}> : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
func.func @channels(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %r: tensor<?x4xbf16>, %d: tensor<?x?x?x?xf16>, %b: tensor<4xbf16>, %w: tensor<?xf16>) {
  %0 = rlx.group_norm %x, %v, %v {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  %1 = rlx.group_norm %r, %b, %b {num_groups = 4, eps = 0.0} : (tensor<?x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
  %2 = rlx.group_norm %d, %w, %w {num_groups = 3, eps = 1.0e-5} : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
  %3 = rlx.layer_norm_2d %x, %v, %v {eps = 1.0e-6} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  %4 = rlx.layer_norm_2d %d, %w, %w {eps = 1.0e-6} : (tensor<?x?x?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?x?x?xf16>
  func.return
}

// CHECK-LABEL: func.func @batch(
// CHECK-NEXT: %0 = rlx.batch_norm_inference %x, %v, %v, %v, %v {eps = 1.0e-5} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: %1 = rlx.batch_norm_inference %d, %w, %w, %w, %w {eps = 1.0e-5} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
// GENERIC-LABEL: sym_name = "batch"
// GENERIC: %0 = "rlx.batch_norm_inference"(%x, %v, %v, %v, %v) <{eps = 1.000000e-05 : f64}> : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
// GENERIC-NEXT: %1 = "rlx.batch_norm_inference"(%d, %w, %w, %w, %w) <{eps = 1.000000e-05 : f64}> : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
func.func @batch(%x: tensor<2x3x4xf32>, %v: tensor<4xf32>, %d: tensor<?x?xf16>, %w: tensor<?xf16>) {
  %0 = rlx.batch_norm_inference %x, %v, %v, %v, %v {eps = 1.0e-5} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %1 = rlx.batch_norm_inference %d, %w, %w, %w, %w {eps = 1.0e-5} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
  func.return
}
