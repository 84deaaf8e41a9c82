// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Gradients of norms, and the packed gradients of the adaptive norm and of gated residuals.

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT: %0 = rlx.layer_norm_backward_input %x, %v, %x {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %1 = rlx.layer_norm_backward_gamma %x, %x {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %2 = rlx.layer_norm_backward_gamma %d, %d {eps = 0.0} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// CHECK-NEXT: %3 = rlx.rms_norm_backward_input %x, %v, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %4 = rlx.rms_norm_backward_gamma %d, %w, %w, %d {eps = 1.0e-6} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// CHECK-NEXT: %5 = rlx.rms_norm_backward_beta %x, %v, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
// GENERIC-LABEL: sym_name = "rows"
// GENERIC: %0 = "rlx.layer_norm_backward_input"(%x, %v, %x) <{eps = 1.000000e-05 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %1 = "rlx.layer_norm_backward_gamma"(%x, %x) <{eps = 1.000000e-05 : f64}> : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
// GENERIC-NEXT: %2 = "rlx.layer_norm_backward_gamma"(%d, %d) <{eps = 0.000000e+00 : f64}> : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// GENERIC-NEXT: %3 = "rlx.rms_norm_backward_input"(%x, %v, %v, %x) <{eps = 1.000000e-06 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %4 = "rlx.rms_norm_backward_gamma"(%d, %w, %w, %d) <{eps = 1.000000e-06 : f64}> : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// GENERIC-NEXT: %5 = "rlx.rms_norm_backward_beta"(%x, %v, %v, %x) <{eps = 1.000000e-06 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
func.func @rows(%x: tensor<2x3x8xf32>, %v: tensor<8xf32>, %d: tensor<?x?xf16>, %w: tensor<?xf16>) {
  %0 = rlx.layer_norm_backward_input %x, %v, %x {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.layer_norm_backward_gamma %x, %x {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
  %2 = rlx.layer_norm_backward_gamma %d, %d {eps = 0.0} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
  %3 = rlx.rms_norm_backward_input %x, %v, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %4 = rlx.rms_norm_backward_gamma %d, %w, %w, %d {eps = 1.0e-6} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
  %5 = rlx.rms_norm_backward_beta %x, %v, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<8xf32>
  func.return
}

// CHECK-LABEL: func.func @groups(
// CHECK-NEXT: %0 = rlx.group_norm_backward_input %x, %v, %x {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
// CHECK-NEXT: %1 = rlx.group_norm_backward_gamma %d, %d {num_groups = 4, eps = 1.0e-5} : (tensor<?x4x3xbf16>, tensor<?x4x3xbf16>) -> tensor<4xbf16>
// CHECK-NEXT: %2 = rlx.group_norm_backward_beta %x {num_groups = 1, eps = 1.0e-5} : tensor<2x4x3x5xf32> -> tensor<4xf32>
// GENERIC-LABEL: sym_name = "groups"
// GENERIC: %0 = "rlx.group_norm_backward_input"(%x, %v, %x) <{num_groups = 2 : i64, eps = 1.000000e-05 : f64}> : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
// GENERIC-NEXT: %1 = "rlx.group_norm_backward_gamma"(%d, %d) <{num_groups = 4 : i64, eps = 1.000000e-05 : f64}> : (tensor<?x4x3xbf16>, tensor<?x4x3xbf16>) -> tensor<4xbf16>
// GENERIC-NEXT: %2 = "rlx.group_norm_backward_beta"(%x) <{num_groups = 1 : i64, eps = 1.000000e-05 : f64}> : (tensor<2x4x3x5xf32>) -> tensor<4xf32>
func.func @groups(%x: tensor<2x4x3x5xf32>, %v: tensor<4xf32>, %d: tensor<?x4x3xbf16>, %w: tensor<4xbf16>) {
  %0 = rlx.group_norm_backward_input %x, %v, %x {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %1 = rlx.group_norm_backward_gamma %d, %d {num_groups = 4, eps = 1.0e-5} : (tensor<?x4x3xbf16>, tensor<?x4x3xbf16>) -> tensor<4xbf16>
  %2 = rlx.group_norm_backward_beta %x {num_groups = 1, eps = 1.0e-5} : tensor<2x4x3x5xf32> -> tensor<4xf32>
  func.return
}

// CHECK-LABEL: func.func @packed(
// CHECK-NEXT: %0 = rlx.ada_layer_norm_backward %x, %s, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<72xf32>
// CHECK-NEXT: %1 = rlx.ada_layer_norm_backward rms_norm %d, %w, %w, %d {eps = 1.0e-6} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// CHECK-NEXT: %2 = rlx.gated_residual_backward %x, %x, %g, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>, tensor<2x3x8xf32>) -> tensor<99xf32>
// CHECK-NEXT: %3 = rlx.gated_residual_backward %d, %d, %w, %d : (tensor<?x?xf16>, tensor<?x?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// GENERIC-LABEL: sym_name = "packed"
// GENERIC: %0 = "rlx.ada_layer_norm_backward"(%x, %s, %v, %x) <{eps = 1.000000e-06 : f64, norm = #rlx<norm layer_norm>}> : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<72xf32>
// GENERIC-NEXT: %1 = "rlx.ada_layer_norm_backward"(%d, %w, %w, %d) <{norm = #rlx<norm rms_norm>, eps = 1.000000e-06 : f64}> : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
// GENERIC-NEXT: %2 = "rlx.gated_residual_backward"(%x, %x, %g, %x) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>, tensor<2x3x8xf32>) -> tensor<99xf32>
// GENERIC-NEXT: %3 = "rlx.gated_residual_backward"(%d, %d, %w, %d) : (tensor<?x?xf16>, tensor<?x?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
func.func @packed(%x: tensor<2x3x8xf32>, %s: tensor<2x1x8xf32>, %v: tensor<8xf32>, %d: tensor<?x?xf16>, %w: tensor<?xf16>, %g: tensor<3x1xf32>) {
  %0 = rlx.ada_layer_norm_backward %x, %s, %v, %x {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<72xf32>
  %1 = rlx.ada_layer_norm_backward rms_norm %d, %w, %w, %d {eps = 1.0e-6} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
  %2 = rlx.gated_residual_backward %x, %x, %g, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>, tensor<2x3x8xf32>) -> tensor<99xf32>
  %3 = rlx.gated_residual_backward %d, %d, %w, %d : (tensor<?x?xf16>, tensor<?x?xf16>, tensor<?xf16>, tensor<?x?xf16>) -> tensor<?xf16>
  func.return
}
