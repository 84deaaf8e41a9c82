// RUN: rlx-opt -p rlx-canonicalize-ops %s | filecheck %s
// RUN: rlx-opt -p 'rlx-canonicalize-ops{strict=true}' %s | filecheck %s --check-prefix=STRICT

// Casts to the own type, transposes there and back, dead operations and duplicates go; names stay.
// CHECK-LABEL: @clean
// CHECK-NEXT: %t = rlx.activation tanh %x : tensor<2x8xf32>
// CHECK-NEXT: %y = rlx.binary add %t, %t
// CHECK-NEXT: func.return %y
// STRICT-LABEL: @clean
// STRICT-NEXT: %t = rlx.activation tanh %x
// STRICT-NEXT: %y = rlx.binary add %t, %t
func.func @clean(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.cast %x : tensor<2x8xf32> -> tensor<2x8xf32>
  %1 = rlx.transpose %0 {perm = [1, 0]} : tensor<2x8xf32> -> tensor<8x2xf32>
  %2 = rlx.transpose %1 {perm = [1, 0]} : tensor<8x2xf32> -> tensor<2x8xf32>
  %t = rlx.activation tanh %2 : tensor<2x8xf32>
  %u = rlx.activation tanh %x : tensor<2x8xf32>
  %dead = rlx.activation exp %u : tensor<2x8xf32>
  %y = rlx.binary add %t, %u : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// The element-wise operation broadcasts by itself.
// CHECK-LABEL: @bias
// CHECK-NEXT: %y = rlx.binary add %x, %b : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
func.func @bias(%x: tensor<2x3x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %row = rlx.reshape %b {new_shape = [1, 1, 8]} : tensor<8xf32> -> tensor<1x1x8xf32>
  %full = rlx.expand %row {shape = [2, 3, 8]} : tensor<1x1x8xf32> -> tensor<2x3x8xf32>
  %y = rlx.binary add %x, %full : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return %y : tensor<2x3x8xf32>
}

// Gelu in primitives is gelu, but rounds otherwise.
// CHECK-LABEL: @gelu
// CHECK-NEXT: %y = rlx.activation gelu %x
// CHECK-NEXT: func.return %y
// STRICT-LABEL: @gelu
// STRICT: rlx.activation erf
func.func @gelu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = rlx.constant dense<0.5> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %root = rlx.constant dense<1.41421354> : tensor<f32>
  %0 = rlx.binary div %x, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = rlx.activation erf %0 : tensor<2x8xf32>
  %2 = rlx.binary add %1, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = rlx.binary mul %x, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %y = rlx.binary mul %3, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// An RMS norm in f32 between casts, as decoders have it, is the norm of f16.
// CHECK-LABEL: @rms_norm
// CHECK-NEXT: %[[zero:.*]] = rlx.constant dense<0.000000e+00> : tensor<8xf16>
// CHECK-NEXT: %y = rlx.rms_norm %x, %w, %[[zero]] {eps = 1.0e-6}
// CHECK-NEXT: func.return %y
func.func @rms_norm(%x: tensor<2x3x8xf16>, %w: tensor<8xf16>) -> tensor<2x3x8xf16> {
  %two = rlx.constant dense<2.0> : tensor<f32>
  %eps = rlx.constant dense<1.0e-6> : tensor<f32>
  %0 = rlx.cast %x : tensor<2x3x8xf16> -> tensor<2x3x8xf32>
  %1 = rlx.binary pow %0, %two : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %2 = rlx.reduce mean %1 {axes = [2], keep_dim} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %3 = rlx.binary add %2, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %4 = rlx.activation rsqrt %3 : tensor<2x3x1xf32>
  %5 = rlx.binary mul %0, %4 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %6 = rlx.cast %5 : tensor<2x3x8xf32> -> tensor<2x3x8xf16>
  %y = rlx.binary mul %w, %6 : (tensor<8xf16>, tensor<2x3x8xf16>) -> tensor<2x3x8xf16>
  func.return %y : tensor<2x3x8xf16>
}

// A softmax in primitives is one, and nothing that is not exact.
// CHECK-LABEL: @softmax
// CHECK-NEXT: %y = rlx.softmax %x : tensor<2x8xf32>
// STRICT-LABEL: @softmax
// STRICT-NEXT: %y = rlx.softmax %x : tensor<2x8xf32>
func.func @softmax(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.reduce max %x {axes = [1], keep_dim} : tensor<2x8xf32> -> tensor<2x1xf32>
  %1 = rlx.binary sub %x, %0 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = rlx.activation exp %1 : tensor<2x8xf32>
  %3 = rlx.reduce sum %2 {axes = [1], keep_dim} : tensor<2x8xf32> -> tensor<2x1xf32>
  %y = rlx.binary div %2, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// A weight [N, K] is transposed, and the rows need no flattening.
// CHECK-LABEL: @products
// CHECK-NEXT: %[[wt:.*]] = rlx.transpose %w {perm = [1, 0]}
// CHECK-NEXT: %y = rlx.matmul %x, %[[wt]] : (tensor<?x3x8xf32>, tensor<8x16xf32>) -> tensor<?x3x16xf32>
// CHECK-NEXT: func.return %y
func.func @products(%x: tensor<?x3x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x3x16xf32> {
  %0 = rlx.reshape %x {new_shape = [-1, 8]} : tensor<?x3x8xf32> -> tensor<?x8xf32>
  %1 = rlx.dot_general %0, %w {lhs_contracting = [1], rhs_contracting = [1]} : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %y = rlx.reshape %1 {new_shape = [-1, 3, 16]} : tensor<?x16xf32> -> tensor<?x3x16xf32>
  func.return %y : tensor<?x3x16xf32>
}
