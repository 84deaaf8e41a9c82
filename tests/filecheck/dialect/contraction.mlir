// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Matrix products and what is fused into them.

// CHECK-LABEL: func.func @matmul(
// GENERIC-LABEL: sym_name = "matmul"
// CHECK-NEXT: %0 = rlx.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
// GENERIC-NEXT: ^bb0(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>):
// GENERIC-NEXT: %0 = "rlx.matmul"(%a, %b) : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  %0 = rlx.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  func.return
}

// CHECK-LABEL: func.func @matmul_batches(
// GENERIC-LABEL: sym_name = "matmul_batches"
// CHECK-NEXT: %0 = rlx.matmul %a, %b : (tensor<7x1x2x3xi8>, tensor<4x3x5xi8>) -> tensor<7x4x2x5xi8>
// GENERIC-NEXT: ^bb0(%a: tensor<7x1x2x3xi8>, %b: tensor<4x3x5xi8>):
// GENERIC-NEXT: %0 = "rlx.matmul"(%a, %b) : (tensor<7x1x2x3xi8>, tensor<4x3x5xi8>) -> tensor<7x4x2x5xi8>
func.func @matmul_batches(%a: tensor<7x1x2x3xi8>, %b: tensor<4x3x5xi8>) {
  %0 = rlx.matmul %a, %b : (tensor<7x1x2x3xi8>, tensor<4x3x5xi8>) -> tensor<7x4x2x5xi8>
  func.return
}

// CHECK-LABEL: func.func @matmul_dynamic(
// GENERIC-LABEL: sym_name = "matmul_dynamic"
// CHECK-NEXT: %0 = rlx.matmul %a, %b : (tensor<?x2x?xbf16>, tensor<3x?xbf16>) -> tensor<?x2x?xbf16>
// GENERIC-NEXT: ^bb0(%a: tensor<?x2x?xbf16>, %b: tensor<3x?xbf16>):
// GENERIC-NEXT: %0 = "rlx.matmul"(%a, %b) : (tensor<?x2x?xbf16>, tensor<3x?xbf16>) -> tensor<?x2x?xbf16>
func.func @matmul_dynamic(%a: tensor<?x2x?xbf16>, %b: tensor<3x?xbf16>) {
  %0 = rlx.matmul %a, %b : (tensor<?x2x?xbf16>, tensor<3x?xbf16>) -> tensor<?x2x?xbf16>
  func.return
}

// CHECK-LABEL: func.func @dot_general(
// GENERIC-LABEL: sym_name = "dot_general"
// CHECK-NEXT: %0 = rlx.dot_general %a, %b {lhs_contracting = [2], rhs_contracting = [1], lhs_batch = [0], rhs_batch = [2]} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x5xf32>
// CHECK-NEXT: %1 = rlx.dot_general %a, %b {lhs_contracting = [2, 0], rhs_contracting = [1, 2]} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<3x5xf32>
// CHECK-NEXT: %2 = rlx.dot_general %a, %b {lhs_contracting = [], rhs_contracting = []} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x4x5x4x2xf32>
// GENERIC-NEXT: ^bb0(%a: tensor<2x3x4xf32>, %b: tensor<5x4x2xf32>):
// GENERIC-NEXT: %0 = "rlx.dot_general"(%a, %b) <{lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>, lhs_batch = array<i64: 0>, rhs_batch = array<i64: 2>}> : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x5xf32>
// GENERIC-NEXT: %1 = "rlx.dot_general"(%a, %b) <{lhs_contracting = array<i64: 2, 0>, rhs_contracting = array<i64: 1, 2>, lhs_batch = array<i64>, rhs_batch = array<i64>}> : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<3x5xf32>
// GENERIC-NEXT: %2 = "rlx.dot_general"(%a, %b) <{lhs_contracting = array<i64>, rhs_contracting = array<i64>, lhs_batch = array<i64>, rhs_batch = array<i64>}> : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x4x5x4x2xf32>
func.func @dot_general(%a: tensor<2x3x4xf32>, %b: tensor<5x4x2xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [2], rhs_contracting = [1], lhs_batch = [0], rhs_batch = [2]} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x5xf32>
  %1 = rlx.dot_general %a, %b {lhs_contracting = [2, 0], rhs_contracting = [1, 2]} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<3x5xf32>
  %2 = rlx.dot_general %a, %b {lhs_contracting = [], rhs_contracting = []} : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x4x5x4x2xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_matmul_bias_act(
// GENERIC-LABEL: sym_name = "fused_matmul_bias_act"
// CHECK-NEXT: %plain = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %gelu = rlx.fused_matmul_bias_act gelu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %gelu_approx = rlx.fused_matmul_bias_act gelu_approx %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %silu = rlx.fused_matmul_bias_act silu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %relu = rlx.fused_matmul_bias_act relu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %sigmoid = rlx.fused_matmul_bias_act sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %tanh = rlx.fused_matmul_bias_act tanh %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %exp = rlx.fused_matmul_bias_act exp %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %log = rlx.fused_matmul_bias_act log %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %sqrt = rlx.fused_matmul_bias_act sqrt %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %rsqrt = rlx.fused_matmul_bias_act rsqrt %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %neg = rlx.fused_matmul_bias_act neg %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %abs = rlx.fused_matmul_bias_act abs %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %round = rlx.fused_matmul_bias_act round %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %sin = rlx.fused_matmul_bias_act sin %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %cos = rlx.fused_matmul_bias_act cos %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %tan = rlx.fused_matmul_bias_act tan %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %atan = rlx.fused_matmul_bias_act atan %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %recip = rlx.fused_matmul_bias_act recip %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %floor = rlx.fused_matmul_bias_act floor %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %ceil = rlx.fused_matmul_bias_act ceil %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %sign = rlx.fused_matmul_bias_act sign %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %softplus = rlx.fused_matmul_bias_act softplus %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %elu = rlx.fused_matmul_bias_act elu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %erf = rlx.fused_matmul_bias_act erf %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %hard_swish = rlx.fused_matmul_bias_act hard_swish %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %hard_sigmoid = rlx.fused_matmul_bias_act hard_sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %mish = rlx.fused_matmul_bias_act mish %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %softsign = rlx.fused_matmul_bias_act softsign %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// CHECK-NEXT: %log_sigmoid = rlx.fused_matmul_bias_act log_sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<4x2x3xf32>, %w: tensor<3x5xf32>, %b: tensor<5xf32>):
// GENERIC-NEXT: %plain = "rlx.fused_matmul_bias_act"(%x, %w, %b) : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %gelu = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation gelu>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %gelu_approx = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation gelu_approx>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %silu = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation silu>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %relu = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation relu>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %sigmoid = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation sigmoid>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %tanh = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation tanh>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %exp = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation exp>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %log = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation log>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %sqrt = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation sqrt>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %rsqrt = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation rsqrt>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %neg = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation neg>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %abs = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation abs>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %round = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation round>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %sin = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation sin>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %cos = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation cos>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %tan = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation tan>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %atan = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation atan>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %recip = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation recip>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %floor = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation floor>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %ceil = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation ceil>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %sign = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation sign>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %softplus = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation softplus>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %elu = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation elu>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %erf = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation erf>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %hard_swish = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation hard_swish>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %hard_sigmoid = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation hard_sigmoid>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %mish = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation mish>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %softsign = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation softsign>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: %log_sigmoid = "rlx.fused_matmul_bias_act"(%x, %w, %b) <{activation = #rlx<activation log_sigmoid>}> : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
func.func @fused_matmul_bias_act(%x: tensor<4x2x3xf32>, %w: tensor<3x5xf32>, %b: tensor<5xf32>) {
  %plain = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %gelu = rlx.fused_matmul_bias_act gelu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %gelu_approx = rlx.fused_matmul_bias_act gelu_approx %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %silu = rlx.fused_matmul_bias_act silu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %relu = rlx.fused_matmul_bias_act relu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %sigmoid = rlx.fused_matmul_bias_act sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %tanh = rlx.fused_matmul_bias_act tanh %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %exp = rlx.fused_matmul_bias_act exp %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %log = rlx.fused_matmul_bias_act log %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %sqrt = rlx.fused_matmul_bias_act sqrt %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %rsqrt = rlx.fused_matmul_bias_act rsqrt %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %neg = rlx.fused_matmul_bias_act neg %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %abs = rlx.fused_matmul_bias_act abs %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %round = rlx.fused_matmul_bias_act round %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %sin = rlx.fused_matmul_bias_act sin %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %cos = rlx.fused_matmul_bias_act cos %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %tan = rlx.fused_matmul_bias_act tan %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %atan = rlx.fused_matmul_bias_act atan %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %recip = rlx.fused_matmul_bias_act recip %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %floor = rlx.fused_matmul_bias_act floor %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %ceil = rlx.fused_matmul_bias_act ceil %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %sign = rlx.fused_matmul_bias_act sign %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %softplus = rlx.fused_matmul_bias_act softplus %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %elu = rlx.fused_matmul_bias_act elu %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %erf = rlx.fused_matmul_bias_act erf %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %hard_swish = rlx.fused_matmul_bias_act hard_swish %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %hard_sigmoid = rlx.fused_matmul_bias_act hard_sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %mish = rlx.fused_matmul_bias_act mish %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %softsign = rlx.fused_matmul_bias_act softsign %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  %log_sigmoid = rlx.fused_matmul_bias_act log_sigmoid %x, %w, %b : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<4x2x5xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_matmul_residual(
// GENERIC-LABEL: sym_name = "fused_matmul_residual"
// CHECK-NEXT: %0 = rlx.fused_matmul_residual %x, %w, %r : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<4x2x3xf32>, %w: tensor<3x5xf32>, %r: tensor<4x2x5xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_matmul_residual"(%x, %w, %r) : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
func.func @fused_matmul_residual(%x: tensor<4x2x3xf32>, %w: tensor<3x5xf32>, %r: tensor<4x2x5xf32>) {
  %0 = rlx.fused_matmul_residual %x, %w, %r : (tensor<4x2x3xf32>, tensor<3x5xf32>, tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  func.return
}

// CHECK-LABEL: func.func @fused_swiglu(
// GENERIC-LABEL: sym_name = "fused_swiglu"
// CHECK-NEXT: %0 = rlx.fused_swiglu %p : tensor<4x?x10xf32> -> tensor<4x?x5xf32>
// CHECK-NEXT: %1 = rlx.fused_swiglu %p {gate_first} : tensor<4x?x10xf32> -> tensor<4x?x5xf32>
// CHECK-NEXT: %2 = rlx.fused_swiglu %p : tensor<4x?x10xf32> -> tensor<4x?x5xbf16>
// GENERIC-NEXT: ^bb0(%p: tensor<4x?x10xf32>):
// GENERIC-NEXT: %0 = "rlx.fused_swiglu"(%p) : (tensor<4x?x10xf32>) -> tensor<4x?x5xf32>
// GENERIC-NEXT: %1 = "rlx.fused_swiglu"(%p) <{gate_first}> : (tensor<4x?x10xf32>) -> tensor<4x?x5xf32>
// GENERIC-NEXT: %2 = "rlx.fused_swiglu"(%p) : (tensor<4x?x10xf32>) -> tensor<4x?x5xbf16>
func.func @fused_swiglu(%p: tensor<4x?x10xf32>) {
  %0 = rlx.fused_swiglu %p : tensor<4x?x10xf32> -> tensor<4x?x5xf32>
  %1 = rlx.fused_swiglu %p {gate_first} : tensor<4x?x10xf32> -> tensor<4x?x5xf32>
  %2 = rlx.fused_swiglu %p : tensor<4x?x10xf32> -> tensor<4x?x5xbf16>
  func.return
}

// CHECK-LABEL: func.func @corrected(
// CHECK-NEXT: %0 = rlx.lora_matmul %x, %w, %a, %b {scale = 0.5} : (tensor<2x3x4xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<2x5xf32>) -> tensor<2x3x5xf32>
// CHECK-NEXT: %1 = rlx.lora_matmul %d, %d, %d, %d {scale = 2.0} : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
// GENERIC-LABEL: sym_name = "corrected"
// GENERIC: %0 = "rlx.lora_matmul"(%x, %w, %a, %b) <{scale = 5.000000e-01 : f64}> : (tensor<2x3x4xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<2x5xf32>) -> tensor<2x3x5xf32>
// GENERIC-NEXT: %1 = "rlx.lora_matmul"(%d, %d, %d, %d) <{scale = 2.000000e+00 : f64}> : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
func.func @corrected(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %a: tensor<4x2xf32>, %b: tensor<2x5xf32>, %d: tensor<?x?xbf16>) {
  %0 = rlx.lora_matmul %x, %w, %a, %b {scale = 0.5} : (tensor<2x3x4xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<2x5xf32>) -> tensor<2x3x5xf32>
  %1 = rlx.lora_matmul %d, %d, %d, %d {scale = 2.0} : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  func.return
}

// CHECK-LABEL: func.func @grouped(
// CHECK-NEXT: %0 = rlx.grouped_matmul %x, %w, %i : (tensor<6x3xf32>, tensor<4x3x5xf32>, tensor<6xi32>) -> tensor<6x5xf32>
// CHECK-NEXT: %1 = rlx.grouped_matmul %d, %v, %j : (tensor<?x3xi8>, tensor<4x3x5xi8>, tensor<?xi64>) -> tensor<?x5xi8>
// GENERIC-LABEL: sym_name = "grouped"
// GENERIC: %0 = "rlx.grouped_matmul"(%x, %w, %i) : (tensor<6x3xf32>, tensor<4x3x5xf32>, tensor<6xi32>) -> tensor<6x5xf32>
// GENERIC-NEXT: %1 = "rlx.grouped_matmul"(%d, %v, %j) : (tensor<?x3xi8>, tensor<4x3x5xi8>, tensor<?xi64>) -> tensor<?x5xi8>
func.func @grouped(%x: tensor<6x3xf32>, %w: tensor<4x3x5xf32>, %i: tensor<6xi32>, %d: tensor<?x3xi8>, %v: tensor<4x3x5xi8>, %j: tensor<?xi64>) {
  %0 = rlx.grouped_matmul %x, %w, %i : (tensor<6x3xf32>, tensor<4x3x5xf32>, tensor<6xi32>) -> tensor<6x5xf32>
  %1 = rlx.grouped_matmul %d, %v, %j : (tensor<?x3xi8>, tensor<4x3x5xi8>, tensor<?xi64>) -> tensor<?x5xi8>
  func.return
}
