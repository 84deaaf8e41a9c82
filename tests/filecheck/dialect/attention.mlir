// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Attention with every layout and mask, rotary embedding with every style.

// CHECK-LABEL: func.func @none_bshd(
// GENERIC-LABEL: sym_name = "none_bshd"
// CHECK-NEXT: %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bshd>, mask_kind = #rlx<mask none>}> : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
func.func @none_bshd(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// CHECK-LABEL: func.func @explicit_none(
// GENERIC-LABEL: sym_name = "explicit_none"
// CHECK-NEXT: %0 = rlx.attention %q, %k, %v {num_heads = 4, num_kv_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{mask_kind = #rlx<mask none>, num_heads = 4 : i64, num_kv_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bshd>}> : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
func.func @explicit_none(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention none %q, %k, %v {num_heads = 4, num_kv_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// CHECK-LABEL: func.func @none_bhsd(
// GENERIC-LABEL: sym_name = "none_bhsd"
// CHECK-NEXT: %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bhsd} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bhsd>, mask_kind = #rlx<mask none>}> : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
func.func @none_bhsd(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bhsd} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// CHECK-LABEL: func.func @none_bsd(
// GENERIC-LABEL: sym_name = "none_bsd"
// CHECK-NEXT: %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>) -> tensor<2x5x32xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>, mask_kind = #rlx<mask none>}> : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>) -> tensor<2x5x32xf32>
func.func @none_bsd(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>) -> tensor<2x5x32xf32>
  func.return
}

// CHECK-LABEL: func.func @causal_grouped(
// GENERIC-LABEL: sym_name = "causal_grouped"
// CHECK-NEXT: %0 = rlx.attention causal %q, %k, %v {num_heads = 12, num_kv_heads = 4, head_dim = 64, layout = bshd} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>) -> tensor<?x?x12x64xbf16>
// GENERIC-NEXT: ^bb0(%q: tensor<?x?x12x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{mask_kind = #rlx<mask causal>, num_heads = 12 : i64, num_kv_heads = 4 : i64, head_dim = 64 : i64, layout = #rlx<layout bshd>}> : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>) -> tensor<?x?x12x64xbf16>
func.func @causal_grouped(%q: tensor<?x?x12x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>) {
  %0 = rlx.attention causal %q, %k, %v {num_heads = 12, num_kv_heads = 4, head_dim = 64, layout = bshd} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>) -> tensor<?x?x12x64xbf16>
  func.return
}

// CHECK-LABEL: func.func @sliding_window(
// GENERIC-LABEL: sym_name = "sliding_window"
// CHECK-NEXT: %0 = rlx.attention sliding_window %q, %k, %v {num_heads = 4, head_dim = 8, layout = bhsd, window = 3} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v) <{mask_kind = #rlx<mask sliding_window>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bhsd>, window = 3 : i64}> : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
func.func @sliding_window(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf32>) {
  %0 = rlx.attention sliding_window %q, %k, %v {num_heads = 4, head_dim = 8, layout = bhsd, window = 3} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// CHECK-LABEL: func.func @custom(
// GENERIC-LABEL: sym_name = "custom"
// CHECK-NEXT: %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x7xi1>) -> tensor<2x5x32xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>, %m: tensor<2x7xi1>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v, %m) <{mask_kind = #rlx<mask custom>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>}> : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x7xi1>) -> tensor<2x5x32xf32>
func.func @custom(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>, %m: tensor<2x7xi1>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x7xi1>) -> tensor<2x5x32xf32>
  func.return
}

// CHECK-LABEL: func.func @custom_pairs(
// GENERIC-LABEL: sym_name = "custom_pairs"
// CHECK-NEXT: %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x1x7xf32>) -> tensor<2x5x32xf32>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>, %m: tensor<2x1x7xf32>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v, %m) <{mask_kind = #rlx<mask custom>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>}> : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x1x7xf32>) -> tensor<2x5x32xf32>
func.func @custom_pairs(%q: tensor<2x5x32xf32>, %k: tensor<2x7x32xf32>, %v: tensor<2x7x32xf32>, %m: tensor<2x1x7xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x7x32xf32>, tensor<2x7x32xf32>, tensor<2x1x7xf32>) -> tensor<2x5x32xf32>
  func.return
}

// CHECK-LABEL: func.func @bias(
// GENERIC-LABEL: sym_name = "bias"
// CHECK-NEXT: %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, v_head_dim = 6, layout = bsd, score_scale = 0.5, attn_logit_softcap = 30.0} : (tensor<2x5x32xf16>, tensor<2x7x32xf16>, tensor<2x7x24xf16>, tensor<1x4x5x7xf16>) -> tensor<2x5x24xf16>
// GENERIC-NEXT: ^bb0(%q: tensor<2x5x32xf16>, %k: tensor<2x7x32xf16>, %v: tensor<2x7x24xf16>, %m: tensor<1x4x5x7xf16>):
// GENERIC-NEXT: %0 = "rlx.attention"(%q, %k, %v, %m) <{mask_kind = #rlx<mask bias>, num_heads = 4 : i64, head_dim = 8 : i64, v_head_dim = 6 : i64, layout = #rlx<layout bsd>, score_scale = 5.000000e-01 : f64, attn_logit_softcap = 3.000000e+01 : f64}> : (tensor<2x5x32xf16>, tensor<2x7x32xf16>, tensor<2x7x24xf16>, tensor<1x4x5x7xf16>) -> tensor<2x5x24xf16>
func.func @bias(%q: tensor<2x5x32xf16>, %k: tensor<2x7x32xf16>, %v: tensor<2x7x24xf16>, %m: tensor<1x4x5x7xf16>) {
  %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, v_head_dim = 6, layout = bsd, score_scale = 0.5, attn_logit_softcap = 30.0} : (tensor<2x5x32xf16>, tensor<2x7x32xf16>, tensor<2x7x24xf16>, tensor<1x4x5x7xf16>) -> tensor<2x5x24xf16>
  func.return
}

// CHECK-LABEL: func.func @rope(
// GENERIC-LABEL: sym_name = "rope"
// CHECK-NEXT: %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
// CHECK-NEXT: %1 = rlx.rope %x, %c, %s {head_dim = 8, n_rot = 4, style = gptj, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>):
// GENERIC-NEXT: %0 = "rlx.rope"(%x, %c, %s) <{head_dim = 8 : i64, layout = #rlx<layout bsd>, style = #rlx<rope_style neox>}> : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
// GENERIC-NEXT: %1 = "rlx.rope"(%x, %c, %s) <{head_dim = 8 : i64, n_rot = 4 : i64, style = #rlx<rope_style gptj>, layout = #rlx<layout bsd>}> : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
func.func @rope(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  %1 = rlx.rope %x, %c, %s {head_dim = 8, n_rot = 4, style = gptj, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// CHECK-LABEL: func.func @rope_of_heads(
// GENERIC-LABEL: sym_name = "rope_of_heads"
// CHECK-NEXT: %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bshd} : (tensor<?x?x3x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<?x?x3x8xf16>
// CHECK-NEXT: %1 = rlx.rope %y, %c, %s {head_dim = 8, layout = bhsd} : (tensor<2x3x5x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<2x3x5x8xf16>
// GENERIC-NEXT: ^bb0(%x: tensor<?x?x3x8xf16>, %y: tensor<2x3x5x8xf16>, %c: tensor<?x4xf16>, %s: tensor<?x?xf16>):
// GENERIC-NEXT: %0 = "rlx.rope"(%x, %c, %s) <{head_dim = 8 : i64, layout = #rlx<layout bshd>, style = #rlx<rope_style neox>}> : (tensor<?x?x3x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<?x?x3x8xf16>
// GENERIC-NEXT: %1 = "rlx.rope"(%y, %c, %s) <{head_dim = 8 : i64, layout = #rlx<layout bhsd>, style = #rlx<rope_style neox>}> : (tensor<2x3x5x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<2x3x5x8xf16>
func.func @rope_of_heads(%x: tensor<?x?x3x8xf16>, %y: tensor<2x3x5x8xf16>, %c: tensor<?x4xf16>, %s: tensor<?x?xf16>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bshd} : (tensor<?x?x3x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<?x?x3x8xf16>
  %1 = rlx.rope %y, %c, %s {head_dim = 8, layout = bhsd} : (tensor<2x3x5x8xf16>, tensor<?x4xf16>, tensor<?x?xf16>) -> tensor<2x3x5x8xf16>
  func.return
}
