// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// The gradient of rotary embedding, and rotary embedding of places in an image.

// CHECK-LABEL: func.func @rope(
// CHECK-NEXT: %0 = rlx.rope_backward %x, %t, %t {head_dim = 8, layout = bsd} : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x16xf32>
// CHECK-NEXT: %1 = rlx.rope_backward %d, %s, %s {head_dim = 8, n_rot = 4, style = gptj, layout = bhsd} : (tensor<?x2x?x8xf16>, tensor<?x4xf16>, tensor<?x4xf16>) -> tensor<?x2x?x8xf16>
// CHECK-NEXT: %2 = rlx.axial_rope_2d %i {end_x = 3, end_y = 4, head_dim = 8, num_heads = 2} : tensor<?x12x16xbf16> -> tensor<?x12x16xbf16>
// CHECK-NEXT: %3 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 4, num_heads = 4, theta = 100.0, repeat_factor = 2} : tensor<?x12x16xbf16> -> tensor<?x12x16xbf16>
// GENERIC-LABEL: sym_name = "rope"
// GENERIC: %0 = "rlx.rope_backward"(%x, %t, %t) <{head_dim = 8 : i64, layout = #rlx<layout bsd>, style = #rlx<rope_style neox>}> : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x16xf32>
// GENERIC-NEXT: %1 = "rlx.rope_backward"(%d, %s, %s) <{head_dim = 8 : i64, n_rot = 4 : i64, style = #rlx<rope_style gptj>, layout = #rlx<layout bhsd>}> : (tensor<?x2x?x8xf16>, tensor<?x4xf16>, tensor<?x4xf16>) -> tensor<?x2x?x8xf16>
// GENERIC-NEXT: %2 = "rlx.axial_rope_2d"(%i) <{end_x = 3 : i64, end_y = 4 : i64, head_dim = 8 : i64, num_heads = 2 : i64, theta = 1.000000e+04 : f64, repeat_factor = 1 : i64}> : (tensor<?x12x16xbf16>) -> tensor<?x12x16xbf16>
// GENERIC-NEXT: %3 = "rlx.axial_rope_2d"(%i) <{end_x = 3 : i64, end_y = 2 : i64, head_dim = 4 : i64, num_heads = 4 : i64, theta = 1.000000e+02 : f64, repeat_factor = 2 : i64}> : (tensor<?x12x16xbf16>) -> tensor<?x12x16xbf16>
func.func @rope(%x: tensor<2x3x16xf32>, %t: tensor<4x4xf32>, %d: tensor<?x2x?x8xf16>, %s: tensor<?x4xf16>, %i: tensor<?x12x16xbf16>) {
  %0 = rlx.rope_backward %x, %t, %t {head_dim = 8, layout = bsd} : (tensor<2x3x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x16xf32>
  %1 = rlx.rope_backward %d, %s, %s {head_dim = 8, n_rot = 4, style = gptj, layout = bhsd} : (tensor<?x2x?x8xf16>, tensor<?x4xf16>, tensor<?x4xf16>) -> tensor<?x2x?x8xf16>
  %2 = rlx.axial_rope_2d %i {end_x = 3, end_y = 4, head_dim = 8, num_heads = 2} : tensor<?x12x16xbf16> -> tensor<?x12x16xbf16>
  %3 = rlx.axial_rope_2d %i {end_x = 3, end_y = 2, head_dim = 4, num_heads = 4, theta = 100.0, repeat_factor = 2} : tensor<?x12x16xbf16> -> tensor<?x12x16xbf16>
  func.return
}
