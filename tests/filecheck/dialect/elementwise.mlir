// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Element-wise operations: every kind, in the custom and in the generic form.

// CHECK-LABEL: func.func @activation(
// GENERIC-LABEL: sym_name = "activation"
// CHECK-NEXT: %gelu = rlx.activation gelu %x : tensor<2x3xf32>
// CHECK-NEXT: %gelu_approx = rlx.activation gelu_approx %x : tensor<2x3xf32>
// CHECK-NEXT: %silu = rlx.activation silu %x : tensor<2x3xf32>
// CHECK-NEXT: %relu = rlx.activation relu %x : tensor<2x3xf32>
// CHECK-NEXT: %sigmoid = rlx.activation sigmoid %x : tensor<2x3xf32>
// CHECK-NEXT: %tanh = rlx.activation tanh %x : tensor<2x3xf32>
// CHECK-NEXT: %exp = rlx.activation exp %x : tensor<2x3xf32>
// CHECK-NEXT: %log = rlx.activation log %x : tensor<2x3xf32>
// CHECK-NEXT: %sqrt = rlx.activation sqrt %x : tensor<2x3xf32>
// CHECK-NEXT: %rsqrt = rlx.activation rsqrt %x : tensor<2x3xf32>
// CHECK-NEXT: %neg = rlx.activation neg %x : tensor<2x3xf32>
// CHECK-NEXT: %abs = rlx.activation abs %x : tensor<2x3xf32>
// CHECK-NEXT: %round = rlx.activation round %x : tensor<2x3xf32>
// CHECK-NEXT: %sin = rlx.activation sin %x : tensor<2x3xf32>
// CHECK-NEXT: %cos = rlx.activation cos %x : tensor<2x3xf32>
// CHECK-NEXT: %tan = rlx.activation tan %x : tensor<2x3xf32>
// CHECK-NEXT: %atan = rlx.activation atan %x : tensor<2x3xf32>
// CHECK-NEXT: %recip = rlx.activation recip %x : tensor<2x3xf32>
// CHECK-NEXT: %floor = rlx.activation floor %x : tensor<2x3xf32>
// CHECK-NEXT: %ceil = rlx.activation ceil %x : tensor<2x3xf32>
// CHECK-NEXT: %sign = rlx.activation sign %x : tensor<2x3xf32>
// CHECK-NEXT: %softplus = rlx.activation softplus %x : tensor<2x3xf32>
// CHECK-NEXT: %elu = rlx.activation elu %x : tensor<2x3xf32>
// CHECK-NEXT: %erf = rlx.activation erf %x : tensor<2x3xf32>
// CHECK-NEXT: %hard_swish = rlx.activation hard_swish %x : tensor<2x3xf32>
// CHECK-NEXT: %hard_sigmoid = rlx.activation hard_sigmoid %x : tensor<2x3xf32>
// CHECK-NEXT: %mish = rlx.activation mish %x : tensor<2x3xf32>
// CHECK-NEXT: %softsign = rlx.activation softsign %x : tensor<2x3xf32>
// CHECK-NEXT: %log_sigmoid = rlx.activation log_sigmoid %x : tensor<2x3xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<2x3xf32>):
// GENERIC-NEXT: %gelu = "rlx.activation"(%x) <{kind = #rlx<activation gelu>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %gelu_approx = "rlx.activation"(%x) <{kind = #rlx<activation gelu_approx>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %silu = "rlx.activation"(%x) <{kind = #rlx<activation silu>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %relu = "rlx.activation"(%x) <{kind = #rlx<activation relu>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %sigmoid = "rlx.activation"(%x) <{kind = #rlx<activation sigmoid>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %tanh = "rlx.activation"(%x) <{kind = #rlx<activation tanh>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %exp = "rlx.activation"(%x) <{kind = #rlx<activation exp>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %log = "rlx.activation"(%x) <{kind = #rlx<activation log>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %sqrt = "rlx.activation"(%x) <{kind = #rlx<activation sqrt>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %rsqrt = "rlx.activation"(%x) <{kind = #rlx<activation rsqrt>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %neg = "rlx.activation"(%x) <{kind = #rlx<activation neg>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %abs = "rlx.activation"(%x) <{kind = #rlx<activation abs>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %round = "rlx.activation"(%x) <{kind = #rlx<activation round>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %sin = "rlx.activation"(%x) <{kind = #rlx<activation sin>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %cos = "rlx.activation"(%x) <{kind = #rlx<activation cos>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %tan = "rlx.activation"(%x) <{kind = #rlx<activation tan>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %atan = "rlx.activation"(%x) <{kind = #rlx<activation atan>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %recip = "rlx.activation"(%x) <{kind = #rlx<activation recip>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %floor = "rlx.activation"(%x) <{kind = #rlx<activation floor>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %ceil = "rlx.activation"(%x) <{kind = #rlx<activation ceil>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %sign = "rlx.activation"(%x) <{kind = #rlx<activation sign>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %softplus = "rlx.activation"(%x) <{kind = #rlx<activation softplus>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %elu = "rlx.activation"(%x) <{kind = #rlx<activation elu>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %erf = "rlx.activation"(%x) <{kind = #rlx<activation erf>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %hard_swish = "rlx.activation"(%x) <{kind = #rlx<activation hard_swish>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %hard_sigmoid = "rlx.activation"(%x) <{kind = #rlx<activation hard_sigmoid>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %mish = "rlx.activation"(%x) <{kind = #rlx<activation mish>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %softsign = "rlx.activation"(%x) <{kind = #rlx<activation softsign>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %log_sigmoid = "rlx.activation"(%x) <{kind = #rlx<activation log_sigmoid>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @activation(%x: tensor<2x3xf32>) {
  %gelu = rlx.activation gelu %x : tensor<2x3xf32>
  %gelu_approx = rlx.activation gelu_approx %x : tensor<2x3xf32>
  %silu = rlx.activation silu %x : tensor<2x3xf32>
  %relu = rlx.activation relu %x : tensor<2x3xf32>
  %sigmoid = rlx.activation sigmoid %x : tensor<2x3xf32>
  %tanh = rlx.activation tanh %x : tensor<2x3xf32>
  %exp = rlx.activation exp %x : tensor<2x3xf32>
  %log = rlx.activation log %x : tensor<2x3xf32>
  %sqrt = rlx.activation sqrt %x : tensor<2x3xf32>
  %rsqrt = rlx.activation rsqrt %x : tensor<2x3xf32>
  %neg = rlx.activation neg %x : tensor<2x3xf32>
  %abs = rlx.activation abs %x : tensor<2x3xf32>
  %round = rlx.activation round %x : tensor<2x3xf32>
  %sin = rlx.activation sin %x : tensor<2x3xf32>
  %cos = rlx.activation cos %x : tensor<2x3xf32>
  %tan = rlx.activation tan %x : tensor<2x3xf32>
  %atan = rlx.activation atan %x : tensor<2x3xf32>
  %recip = rlx.activation recip %x : tensor<2x3xf32>
  %floor = rlx.activation floor %x : tensor<2x3xf32>
  %ceil = rlx.activation ceil %x : tensor<2x3xf32>
  %sign = rlx.activation sign %x : tensor<2x3xf32>
  %softplus = rlx.activation softplus %x : tensor<2x3xf32>
  %elu = rlx.activation elu %x : tensor<2x3xf32>
  %erf = rlx.activation erf %x : tensor<2x3xf32>
  %hard_swish = rlx.activation hard_swish %x : tensor<2x3xf32>
  %hard_sigmoid = rlx.activation hard_sigmoid %x : tensor<2x3xf32>
  %mish = rlx.activation mish %x : tensor<2x3xf32>
  %softsign = rlx.activation softsign %x : tensor<2x3xf32>
  %log_sigmoid = rlx.activation log_sigmoid %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @activation_of_integers(
// GENERIC-LABEL: sym_name = "activation_of_integers"
// CHECK-NEXT: %relu = rlx.activation relu %x : tensor<?xi32>
// CHECK-NEXT: %neg = rlx.activation neg %x : tensor<?xi32>
// CHECK-NEXT: %abs = rlx.activation abs %x : tensor<?xi32>
// CHECK-NEXT: %sign = rlx.activation sign %x : tensor<?xi32>
// GENERIC-NEXT: ^bb0(%x: tensor<?xi32>):
// GENERIC-NEXT: %relu = "rlx.activation"(%x) <{kind = #rlx<activation relu>}> : (tensor<?xi32>) -> tensor<?xi32>
// GENERIC-NEXT: %neg = "rlx.activation"(%x) <{kind = #rlx<activation neg>}> : (tensor<?xi32>) -> tensor<?xi32>
// GENERIC-NEXT: %abs = "rlx.activation"(%x) <{kind = #rlx<activation abs>}> : (tensor<?xi32>) -> tensor<?xi32>
// GENERIC-NEXT: %sign = "rlx.activation"(%x) <{kind = #rlx<activation sign>}> : (tensor<?xi32>) -> tensor<?xi32>
func.func @activation_of_integers(%x: tensor<?xi32>) {
  %relu = rlx.activation relu %x : tensor<?xi32>
  %neg = rlx.activation neg %x : tensor<?xi32>
  %abs = rlx.activation abs %x : tensor<?xi32>
  %sign = rlx.activation sign %x : tensor<?xi32>
  func.return
}

// CHECK-LABEL: func.func @binary(
// GENERIC-LABEL: sym_name = "binary"
// CHECK-NEXT: %add = rlx.binary add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %sub = rlx.binary sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %mul = rlx.binary mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %div = rlx.binary div %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %max = rlx.binary max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %min = rlx.binary min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %pow = rlx.binary pow %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %mod = rlx.binary mod %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %atan2 = rlx.binary atan2 %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: ^bb0(%a: tensor<2x3xf32>, %b: tensor<3xf32>):
// GENERIC-NEXT: %add = "rlx.binary"(%a, %b) <{kind = #rlx<binary add>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %sub = "rlx.binary"(%a, %b) <{kind = #rlx<binary sub>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %mul = "rlx.binary"(%a, %b) <{kind = #rlx<binary mul>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %div = "rlx.binary"(%a, %b) <{kind = #rlx<binary div>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %max = "rlx.binary"(%a, %b) <{kind = #rlx<binary max>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %min = "rlx.binary"(%a, %b) <{kind = #rlx<binary min>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %pow = "rlx.binary"(%a, %b) <{kind = #rlx<binary pow>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %mod = "rlx.binary"(%a, %b) <{kind = #rlx<binary mod>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %atan2 = "rlx.binary"(%a, %b) <{kind = #rlx<binary atan2>}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @binary(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %add = rlx.binary add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %sub = rlx.binary sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %mul = rlx.binary mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %div = rlx.binary div %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %max = rlx.binary max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %min = rlx.binary min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %pow = rlx.binary pow %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %mod = rlx.binary mod %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %atan2 = rlx.binary atan2 %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @binary_of_integers(
// GENERIC-LABEL: sym_name = "binary_of_integers"
// CHECK-NEXT: %add = rlx.binary add %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %sub = rlx.binary sub %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %mul = rlx.binary mul %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %div = rlx.binary div %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %max = rlx.binary max %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %min = rlx.binary min %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %pow = rlx.binary pow %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %mod = rlx.binary mod %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %bit_and = rlx.binary bit_and %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %bit_or = rlx.binary bit_or %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %bit_xor = rlx.binary bit_xor %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %shl = rlx.binary shl %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %shr = rlx.binary shr %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: ^bb0(%a: tensor<2x1xi32>, %b: tensor<1x3xi32>):
// GENERIC-NEXT: %add = "rlx.binary"(%a, %b) <{kind = #rlx<binary add>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %sub = "rlx.binary"(%a, %b) <{kind = #rlx<binary sub>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %mul = "rlx.binary"(%a, %b) <{kind = #rlx<binary mul>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %div = "rlx.binary"(%a, %b) <{kind = #rlx<binary div>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %max = "rlx.binary"(%a, %b) <{kind = #rlx<binary max>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %min = "rlx.binary"(%a, %b) <{kind = #rlx<binary min>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %pow = "rlx.binary"(%a, %b) <{kind = #rlx<binary pow>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %mod = "rlx.binary"(%a, %b) <{kind = #rlx<binary mod>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %bit_and = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_and>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %bit_or = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_or>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %bit_xor = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_xor>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %shl = "rlx.binary"(%a, %b) <{kind = #rlx<binary shl>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// GENERIC-NEXT: %shr = "rlx.binary"(%a, %b) <{kind = #rlx<binary shr>}> : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
func.func @binary_of_integers(%a: tensor<2x1xi32>, %b: tensor<1x3xi32>) {
  %add = rlx.binary add %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %sub = rlx.binary sub %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %mul = rlx.binary mul %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %div = rlx.binary div %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %max = rlx.binary max %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %min = rlx.binary min %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %pow = rlx.binary pow %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %mod = rlx.binary mod %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %bit_and = rlx.binary bit_and %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %bit_or = rlx.binary bit_or %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %bit_xor = rlx.binary bit_xor %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %shl = rlx.binary shl %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  %shr = rlx.binary shr %a, %b : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
  func.return
}

// CHECK-LABEL: func.func @binary_of_truth_values(
// GENERIC-LABEL: sym_name = "binary_of_truth_values"
// CHECK-NEXT: %max = rlx.binary max %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// CHECK-NEXT: %min = rlx.binary min %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// CHECK-NEXT: %bit_and = rlx.binary bit_and %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// CHECK-NEXT: %bit_or = rlx.binary bit_or %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// CHECK-NEXT: %bit_xor = rlx.binary bit_xor %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// GENERIC-NEXT: ^bb0(%a: tensor<2xi1>, %b: tensor<2xi1>):
// GENERIC-NEXT: %max = "rlx.binary"(%a, %b) <{kind = #rlx<binary max>}> : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// GENERIC-NEXT: %min = "rlx.binary"(%a, %b) <{kind = #rlx<binary min>}> : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// GENERIC-NEXT: %bit_and = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_and>}> : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// GENERIC-NEXT: %bit_or = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_or>}> : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
// GENERIC-NEXT: %bit_xor = "rlx.binary"(%a, %b) <{kind = #rlx<binary bit_xor>}> : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
func.func @binary_of_truth_values(%a: tensor<2xi1>, %b: tensor<2xi1>) {
  %max = rlx.binary max %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %min = rlx.binary min %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %bit_and = rlx.binary bit_and %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %bit_or = rlx.binary bit_or %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %bit_xor = rlx.binary bit_xor %a, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// CHECK-LABEL: func.func @binary_of_complex_numbers(
// GENERIC-LABEL: sym_name = "binary_of_complex_numbers"
// CHECK-NEXT: %add = rlx.binary add %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// CHECK-NEXT: %sub = rlx.binary sub %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// CHECK-NEXT: %mul = rlx.binary mul %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// CHECK-NEXT: %div = rlx.binary div %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// CHECK-NEXT: %pow = rlx.binary pow %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: ^bb0(%a: tensor<2xcomplex<f32>>):
// GENERIC-NEXT: %add = "rlx.binary"(%a, %a) <{kind = #rlx<binary add>}> : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: %sub = "rlx.binary"(%a, %a) <{kind = #rlx<binary sub>}> : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: %mul = "rlx.binary"(%a, %a) <{kind = #rlx<binary mul>}> : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: %div = "rlx.binary"(%a, %a) <{kind = #rlx<binary div>}> : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: %pow = "rlx.binary"(%a, %a) <{kind = #rlx<binary pow>}> : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
func.func @binary_of_complex_numbers(%a: tensor<2xcomplex<f32>>) {
  %add = rlx.binary add %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %sub = rlx.binary sub %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %mul = rlx.binary mul %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %div = rlx.binary div %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %pow = rlx.binary pow %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  func.return
}

// CHECK-LABEL: func.func @compare(
// GENERIC-LABEL: sym_name = "compare"
// CHECK-NEXT: %eq = rlx.compare eq %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// CHECK-NEXT: %ne = rlx.compare ne %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// CHECK-NEXT: %lt = rlx.compare lt %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// CHECK-NEXT: %le = rlx.compare le %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// CHECK-NEXT: %gt = rlx.compare gt %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// CHECK-NEXT: %ge = rlx.compare ge %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: ^bb0(%a: tensor<2x3xf32>, %b: tensor<f32>):
// GENERIC-NEXT: %eq = "rlx.compare"(%a, %b) <{kind = #rlx<compare eq>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: %ne = "rlx.compare"(%a, %b) <{kind = #rlx<compare ne>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: %lt = "rlx.compare"(%a, %b) <{kind = #rlx<compare lt>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: %le = "rlx.compare"(%a, %b) <{kind = #rlx<compare le>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: %gt = "rlx.compare"(%a, %b) <{kind = #rlx<compare gt>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
// GENERIC-NEXT: %ge = "rlx.compare"(%a, %b) <{kind = #rlx<compare ge>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
func.func @compare(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %eq = rlx.compare eq %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %ne = rlx.compare ne %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %lt = rlx.compare lt %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %le = rlx.compare le %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %gt = rlx.compare gt %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %ge = rlx.compare ge %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: func.func @select_and_fma(
// GENERIC-LABEL: sym_name = "select_and_fma"
// CHECK-NEXT: %w = rlx.where %c, %a, %b : (tensor<3xi1>, tensor<2x1xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
// CHECK-NEXT: %f = rlx.fma %a, %w, %b : (tensor<2x1xbf16>, tensor<2x3xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
// GENERIC-NEXT: ^bb0(%c: tensor<3xi1>, %a: tensor<2x1xbf16>, %b: tensor<bf16>):
// GENERIC-NEXT: %w = "rlx.where"(%c, %a, %b) : (tensor<3xi1>, tensor<2x1xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
// GENERIC-NEXT: %f = "rlx.fma"(%a, %w, %b) : (tensor<2x1xbf16>, tensor<2x3xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
func.func @select_and_fma(%c: tensor<3xi1>, %a: tensor<2x1xbf16>, %b: tensor<bf16>) {
  %w = rlx.where %c, %a, %b : (tensor<3xi1>, tensor<2x1xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
  %f = rlx.fma %a, %w, %b : (tensor<2x1xbf16>, tensor<2x3xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
  func.return
}

// CHECK-LABEL: func.func @cast(
// GENERIC-LABEL: sym_name = "cast"
// CHECK-NEXT: %half = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xf16>
// CHECK-NEXT: %brain = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xbf16>
// CHECK-NEXT: %double = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xf64>
// CHECK-NEXT: %byte = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xi8>
// CHECK-NEXT: %unsigned = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xui8>
// CHECK-NEXT: %truth = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xi1>
// CHECK-NEXT: %position = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xindex>
// CHECK-NEXT: %pair = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xcomplex<f32>>
// GENERIC-NEXT: ^bb0(%x: tensor<2x?xf32>):
// GENERIC-NEXT: %half = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xf16>
// GENERIC-NEXT: %brain = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xbf16>
// GENERIC-NEXT: %double = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xf64>
// GENERIC-NEXT: %byte = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xi8>
// GENERIC-NEXT: %unsigned = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xui8>
// GENERIC-NEXT: %truth = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xi1>
// GENERIC-NEXT: %position = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xindex>
// GENERIC-NEXT: %pair = "rlx.cast"(%x) : (tensor<2x?xf32>) -> tensor<2x?xcomplex<f32>>
func.func @cast(%x: tensor<2x?xf32>) {
  %half = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xf16>
  %brain = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xbf16>
  %double = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xf64>
  %byte = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xi8>
  %unsigned = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xui8>
  %truth = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xi1>
  %position = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xindex>
  %pair = rlx.cast %x : tensor<2x?xf32> -> tensor<2x?xcomplex<f32>>
  func.return
}

// CHECK-LABEL: func.func @clamp_and_stop_gradient(
// GENERIC-LABEL: sym_name = "clamp_and_stop_gradient"
// CHECK-NEXT: %c = rlx.clamp %x {min = -1.5, max = inf} : tensor<2x?xf16>
// CHECK-NEXT: %s = rlx.stop_gradient %c : tensor<2x?xf16>
// GENERIC-NEXT: ^bb0(%x: tensor<2x?xf16>):
// GENERIC-NEXT: %c = "rlx.clamp"(%x) <{min = -1.500000e+00 : f64, max = 0x7ff0000000000000 : f64}> : (tensor<2x?xf16>) -> tensor<2x?xf16>
// GENERIC-NEXT: %s = "rlx.stop_gradient"(%c) : (tensor<2x?xf16>) -> tensor<2x?xf16>
func.func @clamp_and_stop_gradient(%x: tensor<2x?xf16>) {
  %c = rlx.clamp %x {min = -1.5, max = inf} : tensor<2x?xf16>
  %s = rlx.stop_gradient %c : tensor<2x?xf16>
  func.return
}

// Scalars are broadcast like tensors of rank 0.
// CHECK-LABEL: func.func @scalars(
// GENERIC-LABEL: sym_name = "scalars"
// CHECK-NEXT: %s = rlx.binary add %a, %b : (f32, f32) -> f32
// CHECK-NEXT: %n = rlx.activation neg %s : f32
// CHECK-NEXT: %l = rlx.compare lt %n, %a : (f32, f32) -> i1
// CHECK-NEXT: %w = rlx.where %l, %a, %b : (i1, f32, f32) -> f32
// CHECK-NEXT: %h = rlx.cast %w : f32 -> f16
// CHECK-NEXT: %c = rlx.clamp %w {min = 0.0, max = 6.0} : f32
// CHECK-NEXT: %m = rlx.binary mul %t, %c : (tensor<2xf32>, f32) -> tensor<2xf32>
// GENERIC-NEXT: ^bb0(%a: f32, %b: f32, %t: tensor<2xf32>):
// GENERIC-NEXT: %s = "rlx.binary"(%a, %b) <{kind = #rlx<binary add>}> : (f32, f32) -> f32
// GENERIC-NEXT: %n = "rlx.activation"(%s) <{kind = #rlx<activation neg>}> : (f32) -> f32
// GENERIC-NEXT: %l = "rlx.compare"(%n, %a) <{kind = #rlx<compare lt>}> : (f32, f32) -> i1
// GENERIC-NEXT: %w = "rlx.where"(%l, %a, %b) : (i1, f32, f32) -> f32
// GENERIC-NEXT: %h = "rlx.cast"(%w) : (f32) -> f16
// GENERIC-NEXT: %c = "rlx.clamp"(%w) <{min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}> : (f32) -> f32
// GENERIC-NEXT: %m = "rlx.binary"(%t, %c) <{kind = #rlx<binary mul>}> : (tensor<2xf32>, f32) -> tensor<2xf32>
func.func @scalars(%a: f32, %b: f32, %t: tensor<2xf32>) {
  %s = rlx.binary add %a, %b : (f32, f32) -> f32
  %n = rlx.activation neg %s : f32
  %l = rlx.compare lt %n, %a : (f32, f32) -> i1
  %w = rlx.where %l, %a, %b : (i1, f32, f32) -> f32
  %h = rlx.cast %w : f32 -> f16
  %c = rlx.clamp %w {min = 0.0, max = 6.0} : f32
  %m = rlx.binary mul %t, %c : (tensor<2xf32>, f32) -> tensor<2xf32>
  func.return
}

// The result type may know more extents than the operand types tell.
// CHECK-LABEL: func.func @dynamic(
// GENERIC-LABEL: sym_name = "dynamic"
// CHECK-NEXT: %s = rlx.binary add %a, %b : (tensor<?x3xf32>, tensor<4x?xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: %d = rlx.binary add %a, %c : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: %e = rlx.binary add %a, %c : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<5x3xf32>
// GENERIC-NEXT: ^bb0(%a: tensor<?x3xf32>, %b: tensor<4x?xf32>, %c: tensor<?x1xf32>):
// GENERIC-NEXT: %s = "rlx.binary"(%a, %b) <{kind = #rlx<binary add>}> : (tensor<?x3xf32>, tensor<4x?xf32>) -> tensor<4x3xf32>
// GENERIC-NEXT: %d = "rlx.binary"(%a, %c) <{kind = #rlx<binary add>}> : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<?x3xf32>
// GENERIC-NEXT: %e = "rlx.binary"(%a, %c) <{kind = #rlx<binary add>}> : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<5x3xf32>
func.func @dynamic(%a: tensor<?x3xf32>, %b: tensor<4x?xf32>, %c: tensor<?x1xf32>) {
  %s = rlx.binary add %a, %b : (tensor<?x3xf32>, tensor<4x?xf32>) -> tensor<4x3xf32>
  %d = rlx.binary add %a, %c : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<?x3xf32>
  %e = rlx.binary add %a, %c : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<5x3xf32>
  func.return
}

// CHECK-LABEL: func.func @discardable_attributes(
// GENERIC-LABEL: sym_name = "discardable_attributes"
// CHECK-NEXT: %r = rlx.activation relu %x {note.layer = 3 : i64, note.mark} : tensor<2x3xf32>
// CHECK-NEXT: %c = rlx.clamp %r {min = 0.0, max = 6.0, note.name = "six"} : tensor<2x3xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<2x3xf32>):
// GENERIC-NEXT: %r = "rlx.activation"(%x) <{kind = #rlx<activation relu>}> {note.layer = 3 : i64, note.mark} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %c = "rlx.clamp"(%r) <{min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}> {note.name = "six"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @discardable_attributes(%x: tensor<2x3xf32>) {
  %r = rlx.activation relu %x {note.layer = 3 : i64, note.mark} : tensor<2x3xf32>
  %c = rlx.clamp %r {min = 0.0, max = 6.0, "note.name" = "six"} : tensor<2x3xf32>
  func.return
}
