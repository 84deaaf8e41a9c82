// RUN: rlx-opt -p rlx-dce %s | filecheck %s

// Dead operations go; arguments stay, with their names.
// CHECK-LABEL: @dead
// CHECK-SAME: (%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8xf32> {rlx.param = "unused"})
// CHECK-NEXT: rlx.activation tanh %x
// CHECK-NEXT: func.return
func.func @dead(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8xf32> {rlx.param = "unused"}) -> tensor<4x8xf32> {
  %0 = rlx.activation exp %x : tensor<4x8xf32>
  %1 = rlx.binary add %0, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = rlx.activation tanh %x : tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}

// Operations with effects stay.
// CHECK-LABEL: @effects
// CHECK-NEXT: "test.op"(%x)
// CHECK-NEXT: func.return
func.func @effects(%x: tensor<4x8xf32>) {
  %0 = "test.op"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "test.pureop"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
