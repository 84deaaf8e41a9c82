// RUN: rlx-opt -p rlx-lower-dot-general %s | filecheck %s
// RUN: rlx-opt -p 'rlx-lower-dot-general{strict=true}' %s | filecheck %s --check-prefix=STRICT

// The axes are where a product has them.
// CHECK-LABEL: @canonical
// CHECK-NEXT: [[Y:%.*]] = rlx.matmul %x, %w : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT: func.return [[Y]]
// STRICT-LABEL: @canonical
// STRICT-NEXT: rlx.dot_general
func.func @canonical(%x: tensor<?x8xf32>, %w: tensor<8x16xf32>) -> tensor<?x16xf32> {
  %0 = rlx.dot_general %x, %w {lhs_contracting = [1], rhs_contracting = [0]} : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  func.return %0 : tensor<?x16xf32>
}

// A product has any number of leading axes, so only the weight is transposed.
// CHECK-LABEL: @linear
// CHECK-NEXT: [[T:%.*]] = rlx.transpose %w {perm = [1, 0]} : tensor<16x8xf32> -> tensor<8x16xf32>
// CHECK-NEXT: [[Y:%.*]] = rlx.matmul %x, [[T]] : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<2x3x16xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @linear(%x: tensor<2x3x8xf32>, %w: tensor<16x8xf32>) -> tensor<2x3x16xf32> {
  %0 = rlx.dot_general %x, %w {lhs_contracting = [2], rhs_contracting = [1]} : (tensor<2x3x8xf32>, tensor<16x8xf32>) -> tensor<2x3x16xf32>
  func.return %0 : tensor<2x3x16xf32>
}

// Batch axis 1 and 2, two contracted axes in another order, two free axes of the right operand.
// CHECK-LABEL: @general
// CHECK-NEXT: [[L:%.*]] = rlx.transpose %a {perm = [1, 3, 2, 0]} : tensor<4x2x3x5xf16> -> tensor<2x5x3x4xf16>
// CHECK-NEXT: [[L2:%.*]] = rlx.reshape [[L]] {new_shape = [2, 5, 12]}
// CHECK-NEXT: [[R:%.*]] = rlx.transpose %b {perm = [2, 1, 0, 3, 4]} : tensor<4x3x2x6x7xf16> -> tensor<2x3x4x6x7xf16>
// CHECK-NEXT: [[R2:%.*]] = rlx.reshape [[R]] {new_shape = [2, 12, 42]}
// CHECK-NEXT: [[P:%.*]] = rlx.matmul [[L2]], [[R2]] : (tensor<2x5x12xf16>, tensor<2x12x42xf16>) -> tensor<2x5x42xf16>
// CHECK-NEXT: rlx.reshape [[P]] {new_shape = [2, 5, 6, 7]} : tensor<2x5x42xf16> -> tensor<2x5x6x7xf16>
func.func @general(%a: tensor<4x2x3x5xf16>, %b: tensor<4x3x2x6x7xf16>) -> tensor<2x5x6x7xf16> {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [2, 0], rhs_contracting = [1, 0], lhs_batch = [1], rhs_batch = [2]} : (tensor<4x2x3x5xf16>, tensor<4x3x2x6x7xf16>) -> tensor<2x5x6x7xf16>
  func.return %0 : tensor<2x5x6x7xf16>
}

// The free axes would become one, and the batch extent is not known either.
// CHECK-LABEL: @unknown
// CHECK-NEXT: rlx.dot_general
func.func @unknown(%a: tensor<?x?x4x8xf32>, %b: tensor<?x8x5xf32>) -> tensor<?x?x4x5xf32> {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [3], rhs_contracting = [1], lhs_batch = [0], rhs_batch = [0]} : (tensor<?x?x4x8xf32>, tensor<?x8x5xf32>) -> tensor<?x?x4x5xf32>
  func.return %0 : tensor<?x?x4x5xf32>
}
