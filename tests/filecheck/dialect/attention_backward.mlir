// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Gradients of attention.

// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: %0 = rlx.attention_backward %q4, %k4, %k4, %q4 {wrt = query, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
// CHECK-NEXT: %1 = rlx.attention_backward causal %q4, %k2, %k2, %q4 {wrt = key, num_heads = 4, num_kv_heads = 2, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x2x8xf32>, tensor<2x7x2x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x7x2x8xf32>
// CHECK-NEXT: %2 = rlx.attention_backward custom %d, %d, %d, %d, %m {wrt = value, num_heads = 4, head_dim = 8, layout = bsd} : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?xi1>) -> tensor<?x?x32xf16>
// CHECK-NEXT: %3 = rlx.attention_backward_all bias %p, %p, %p, %p, %b {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<1x4x5x5xf32>) -> tensor<6x5x32xf32>
// CHECK-NEXT: %4 = rlx.attention_backward_all sliding_window %d, %d, %d, %d {num_heads = 4, head_dim = 8, layout = bsd, window = 3} : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>) -> tensor<?x?x32xf16>
// GENERIC-LABEL: sym_name = "gradients"
// GENERIC: %0 = "rlx.attention_backward"(%q4, %k4, %k4, %q4) <{wrt = #rlx<attention_input query>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bshd>, mask_kind = #rlx<mask none>}> : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
// GENERIC-NEXT: %1 = "rlx.attention_backward"(%q4, %k2, %k2, %q4) <{mask_kind = #rlx<mask causal>, wrt = #rlx<attention_input key>, num_heads = 4 : i64, num_kv_heads = 2 : i64, head_dim = 8 : i64, layout = #rlx<layout bshd>}> : (tensor<2x5x4x8xf32>, tensor<2x7x2x8xf32>, tensor<2x7x2x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x7x2x8xf32>
// GENERIC-NEXT: %2 = "rlx.attention_backward"(%d, %d, %d, %d, %m) <{mask_kind = #rlx<mask custom>, wrt = #rlx<attention_input value>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>}> : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?xi1>) -> tensor<?x?x32xf16>
// GENERIC-NEXT: %3 = "rlx.attention_backward_all"(%p, %p, %p, %p, %b) <{mask_kind = #rlx<mask bias>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>}> : (tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<1x4x5x5xf32>) -> tensor<6x5x32xf32>
// GENERIC-NEXT: %4 = "rlx.attention_backward_all"(%d, %d, %d, %d) <{mask_kind = #rlx<mask sliding_window>, num_heads = 4 : i64, head_dim = 8 : i64, layout = #rlx<layout bsd>, window = 3 : i64}> : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>) -> tensor<?x?x32xf16>
func.func @gradients(%q4: tensor<2x5x4x8xf32>, %k4: tensor<2x7x4x8xf32>, %k2: tensor<2x7x2x8xf32>, %d: tensor<?x?x32xf16>, %m: tensor<?x?xi1>, %p: tensor<2x5x32xf32>, %b: tensor<1x4x5x5xf32>) {
  %0 = rlx.attention_backward %q4, %k4, %k4, %q4 {wrt = query, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
  %1 = rlx.attention_backward causal %q4, %k2, %k2, %q4 {wrt = key, num_heads = 4, num_kv_heads = 2, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x2x8xf32>, tensor<2x7x2x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x7x2x8xf32>
  %2 = rlx.attention_backward custom %d, %d, %d, %d, %m {wrt = value, num_heads = 4, head_dim = 8, layout = bsd} : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?xi1>) -> tensor<?x?x32xf16>
  %3 = rlx.attention_backward_all bias %p, %p, %p, %p, %b {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<2x5x32xf32>, tensor<1x4x5x5xf32>) -> tensor<6x5x32xf32>
  %4 = rlx.attention_backward_all sliding_window %d, %d, %d, %d {num_heads = 4, head_dim = 8, layout = bsd, window = 3} : (tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>, tensor<?x?x32xf16>) -> tensor<?x?x32xf16>
  func.return
}
