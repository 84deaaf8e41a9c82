// RUN: rlx-opt %s | filecheck %s
// Control flow: bodies see their arguments only; what they capture are operands.

// CHECK-LABEL: func.func @branch(
// CHECK-NEXT: %0 = rlx.if(%p, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {
// CHECK-NEXT: ^bb0(%a: tensor<2x3xf32>):
// CHECK-NEXT: %1 = rlx.activation exp %a : tensor<2x3xf32>
// CHECK-NEXT: rlx.yield %1 : tensor<2x3xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT: ^bb0(%b: tensor<2x3xf32>):
// CHECK-NEXT: rlx.yield %b : tensor<2x3xf32>
// CHECK-NEXT: }
func.func @branch(%p: tensor<i1>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = rlx.if(%p, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %1 = rlx.activation exp %a : tensor<2x3xf32>
    rlx.yield %1 : tensor<2x3xf32>
  } else {
  ^bb0(%b: tensor<2x3xf32>):
    rlx.yield %b : tensor<2x3xf32>
  }
  func.return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @loop(
// CHECK-NEXT: %0, %1 = rlx.while(%x, %n) {max_iterations = 4} : (tensor<2x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
// CHECK: rlx.yield %c : tensor<i1>
// CHECK-NEXT: } do {
// CHECK: rlx.yield %w, %d : tensor<2x3xf32>, tensor<i32>
// CHECK-NEXT: }
func.func @loop(%x: tensor<2x3xf32>, %n: tensor<i32>) -> tensor<2x3xf32> {
  %0, %1 = rlx.while(%x, %n) {max_iterations = 4} : (tensor<2x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<i32>):
    %z = rlx.constant dense<0> : tensor<i32>
    %c = rlx.compare gt %b, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
    rlx.yield %c : tensor<i1>
  } do {
  ^bb0(%v: tensor<2x3xf32>, %m: tensor<i32>):
    %o = rlx.constant dense<1> : tensor<i32>
    %w = rlx.binary mul %v, %v : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %d = rlx.binary sub %m, %o : (tensor<i32>, tensor<i32>) -> tensor<i32>
    rlx.yield %w, %d : tensor<2x3xf32>, tensor<i32>
  }
  func.return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @scan(
// CHECK-NEXT: %0 = rlx.scan(%c, %xs) {length = 4, save_trajectory} : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> {
// CHECK-NEXT: ^bb0(%carry: tensor<3xf32>, %part: tensor<3xf32>):
func.func @scan(%c: tensor<3xf32>, %xs: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = rlx.scan(%c, %xs) {length = 4, save_trajectory} : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> {
  ^bb0(%carry: tensor<3xf32>, %part: tensor<3xf32>):
    %s = rlx.binary add %carry, %part : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    rlx.yield %s : tensor<3xf32>
  }
  func.return %0 : tensor<4x3xf32>
}
