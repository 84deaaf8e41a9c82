// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Normalisations, their fused forms with and without the optional operand and result, gated residuals.

// CHECK-LABEL: func.func @norms(
// CHECK-NEXT: %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %1 = rlx.rms_norm %x, %g, %b {eps = 0.001} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %2 = rlx.rms_norm %x, %g, %b {eps = 0.0} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
// GENERIC-LABEL: sym_name = "norms"
// GENERIC: %0 = "rlx.layer_norm"(%x, %g, %b) <{eps = 1.000000e-05 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %1 = "rlx.rms_norm"(%x, %g, %b) <{eps = 1.000000e-03 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %2 = "rlx.rms_norm"(%x, %g, %b) <{eps = 0.000000e+00 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
func.func @norms(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-5} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.rms_norm %x, %g, %b {eps = 0.001} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %2 = rlx.rms_norm %x, %g, %b {eps = 0.0} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  func.return
}

// CHECK-LABEL: func.func @dynamic_norms(
// CHECK-NEXT: %0 = rlx.layer_norm %y, %h, %h {eps = 1.0e-5} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
// CHECK-NEXT: %1 = rlx.rms_norm %x, %g, %h {eps = 1.0e-6} : (tensor<?x3x8xf16>, tensor<8xf16>, tensor<?xf16>) -> tensor<?x8xf16>
// GENERIC-LABEL: sym_name = "dynamic_norms"
// GENERIC: %0 = "rlx.layer_norm"(%y, %h, %h) <{eps = 1.000000e-05 : f64}> : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
// GENERIC-NEXT: %1 = "rlx.rms_norm"(%x, %g, %h) <{eps = 1.000000e-06 : f64}> : (tensor<?x3x8xf16>, tensor<8xf16>, tensor<?xf16>) -> tensor<?x8xf16>
func.func @dynamic_norms(%x: tensor<?x3x8xf16>, %y: tensor<?x?xf16>, %g: tensor<8xf16>, %h: tensor<?xf16>) {
  %0 = rlx.layer_norm %y, %h, %h {eps = 1.0e-5} : (tensor<?x?xf16>, tensor<?xf16>, tensor<?xf16>) -> tensor<?x?xf16>
  %1 = rlx.rms_norm %x, %g, %h {eps = 1.0e-6} : (tensor<?x3x8xf16>, tensor<8xf16>, tensor<?xf16>) -> tensor<?x8xf16>
  func.return
}

// CHECK-LABEL: func.func @fused_residual(
// CHECK-NEXT: %0 = rlx.fused_residual_ln %x, %r, %g, %b {eps = 1.0e-5} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %1, %2 = rlx.fused_residual_ln %x, %r, %c, %g, %b {eps = 1.0e-5} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK-NEXT: %3, %4 = rlx.fused_residual_rms_norm %x, %r, %g, %b {eps = 1.0e-6} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK-NEXT: %5 = rlx.fused_residual_rms_norm %x, %r, %c, %g, %b {eps = 1.0e-6} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
// GENERIC-LABEL: sym_name = "fused_residual"
// GENERIC: %0 = "rlx.fused_residual_ln"(%x, %r, %g, %b) <{eps = 1.000000e-05 : f64}> : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
// GENERIC-NEXT: %1, %2 = "rlx.fused_residual_ln"(%x, %r, %c, %g, %b) <{eps = 1.000000e-05 : f64}> : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
// GENERIC-NEXT: %3, %4 = "rlx.fused_residual_rms_norm"(%x, %r, %g, %b) <{eps = 1.000000e-06 : f64}> : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
// GENERIC-NEXT: %5 = "rlx.fused_residual_rms_norm"(%x, %r, %c, %g, %b) <{eps = 1.000000e-06 : f64}> : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
func.func @fused_residual(%x: tensor<2x8xf32>, %r: tensor<2x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) {
  %0 = rlx.fused_residual_ln %x, %r, %g, %b {eps = 1.0e-5} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %1, %2 = rlx.fused_residual_ln %x, %r, %c, %g, %b {eps = 1.0e-5} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %3, %4 = rlx.fused_residual_rms_norm %x, %r, %g, %b {eps = 1.0e-6} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %5 = rlx.fused_residual_rms_norm %x, %r, %c, %g, %b {eps = 1.0e-6} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  func.return
}

// CHECK-LABEL: func.func @modulated(
// CHECK-NEXT: %0 = rlx.ada_layer_norm %x, %s, %v {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %1 = rlx.ada_layer_norm rms_norm %x, %v, %s {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: %2 = rlx.gated_residual %x, %y, %u : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>) -> tensor<2x3x8xf32>
// GENERIC-LABEL: sym_name = "modulated"
// GENERIC: %0 = "rlx.ada_layer_norm"(%x, %s, %v) <{eps = 1.000000e-06 : f64, norm = #rlx<norm layer_norm>}> : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %1 = "rlx.ada_layer_norm"(%x, %v, %s) <{norm = #rlx<norm rms_norm>, eps = 1.000000e-06 : f64}> : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %2 = "rlx.gated_residual"(%x, %y, %u) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>) -> tensor<2x3x8xf32>
func.func @modulated(%x: tensor<2x3x8xf32>, %y: tensor<2x3x8xf32>, %s: tensor<2x1x8xf32>, %v: tensor<8xf32>, %u: tensor<3x1xf32>) {
  %0 = rlx.ada_layer_norm %x, %s, %v {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.ada_layer_norm rms_norm %x, %v, %s {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  %2 = rlx.gated_residual %x, %y, %u : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x1xf32>) -> tensor<2x3x8xf32>
  func.return
}
