// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Reductions and softmax: every kind, static and dynamic extents, floats and integers.

// CHECK-LABEL: func.func @reduce(
// CHECK-NEXT: %sum = rlx.reduce sum %x {axes = [1]} : tensor<2x3x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT: %mean = rlx.reduce mean %x {axes = [2], keep_dim} : tensor<2x3x4xf32> -> tensor<2x3x1xf32>
// CHECK-NEXT: %max = rlx.reduce max %x {axes = [0, 2]} : tensor<2x3x4xf32> -> tensor<3xf32>
// CHECK-NEXT: %min = rlx.reduce min %x {axes = [-1, 0], keep_dim} : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
// CHECK-NEXT: %prod = rlx.reduce prod %x {axes = [0, 1, 2]} : tensor<2x3x4xf32> -> tensor<f32>
// CHECK-NEXT: %none = rlx.reduce sum %x {axes = []} : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
// GENERIC-LABEL: sym_name = "reduce"
// GENERIC: %sum = "rlx.reduce"(%x) <{kind = #rlx<reduce sum>, axes = array<i64: 1>}> : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
// GENERIC-NEXT: %mean = "rlx.reduce"(%x) <{kind = #rlx<reduce mean>, axes = array<i64: 2>, keep_dim}> : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
// GENERIC-NEXT: %max = "rlx.reduce"(%x) <{kind = #rlx<reduce max>, axes = array<i64: 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<3xf32>
// GENERIC-NEXT: %min = "rlx.reduce"(%x) <{kind = #rlx<reduce min>, axes = array<i64: -1, 0>, keep_dim}> : (tensor<2x3x4xf32>) -> tensor<1x3x1xf32>
// GENERIC-NEXT: %prod = "rlx.reduce"(%x) <{kind = #rlx<reduce prod>, axes = array<i64: 0, 1, 2>}> : (tensor<2x3x4xf32>) -> tensor<f32>
// GENERIC-NEXT: %none = "rlx.reduce"(%x) <{kind = #rlx<reduce sum>, axes = array<i64>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
func.func @reduce(%x: tensor<2x3x4xf32>) {
  %sum = rlx.reduce sum %x {axes = [1]} : tensor<2x3x4xf32> -> tensor<2x4xf32>
  %mean = rlx.reduce mean %x {axes = [2], keep_dim} : tensor<2x3x4xf32> -> tensor<2x3x1xf32>
  %max = rlx.reduce max %x {axes = [0, 2]} : tensor<2x3x4xf32> -> tensor<3xf32>
  %min = rlx.reduce min %x {axes = [-1, 0], keep_dim} : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  %prod = rlx.reduce prod %x {axes = [0, 1, 2]} : tensor<2x3x4xf32> -> tensor<f32>
  %none = rlx.reduce sum %x {axes = []} : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return
}

// CHECK-LABEL: func.func @reduce_types(
// CHECK-NEXT: %0 = rlx.reduce mean %h {axes = [2]} : tensor<?x3x?xf16> -> tensor<?x3xf16>
// CHECK-NEXT: %1 = rlx.reduce sum %h {axes = [1], keep_dim} : tensor<?x3x?xf16> -> tensor<?x1x?xf16>
// CHECK-NEXT: %2 = rlx.reduce prod %i {axes = [0]} : tensor<2x3xi32> -> tensor<3xi32>
// CHECK-NEXT: %3 = rlx.reduce max %t {axes = [1]} : tensor<2x3xi1> -> tensor<2xi1>
// CHECK-NEXT: %4 = rlx.reduce min %h {axes = [0]} : tensor<?x3x?xf16> -> tensor<3x5xf16>
// GENERIC-LABEL: sym_name = "reduce_types"
// GENERIC: %0 = "rlx.reduce"(%h) <{kind = #rlx<reduce mean>, axes = array<i64: 2>}> : (tensor<?x3x?xf16>) -> tensor<?x3xf16>
// GENERIC-NEXT: %1 = "rlx.reduce"(%h) <{kind = #rlx<reduce sum>, axes = array<i64: 1>, keep_dim}> : (tensor<?x3x?xf16>) -> tensor<?x1x?xf16>
// GENERIC-NEXT: %2 = "rlx.reduce"(%i) <{kind = #rlx<reduce prod>, axes = array<i64: 0>}> : (tensor<2x3xi32>) -> tensor<3xi32>
// GENERIC-NEXT: %3 = "rlx.reduce"(%t) <{kind = #rlx<reduce max>, axes = array<i64: 1>}> : (tensor<2x3xi1>) -> tensor<2xi1>
// GENERIC-NEXT: %4 = "rlx.reduce"(%h) <{kind = #rlx<reduce min>, axes = array<i64: 0>}> : (tensor<?x3x?xf16>) -> tensor<3x5xf16>
func.func @reduce_types(%h: tensor<?x3x?xf16>, %i: tensor<2x3xi32>, %t: tensor<2x3xi1>) {
  %0 = rlx.reduce mean %h {axes = [2]} : tensor<?x3x?xf16> -> tensor<?x3xf16>
  %1 = rlx.reduce sum %h {axes = [1], keep_dim} : tensor<?x3x?xf16> -> tensor<?x1x?xf16>
  %2 = rlx.reduce prod %i {axes = [0]} : tensor<2x3xi32> -> tensor<3xi32>
  %3 = rlx.reduce max %t {axes = [1]} : tensor<2x3xi1> -> tensor<2xi1>
  %4 = rlx.reduce min %h {axes = [0]} : tensor<?x3x?xf16> -> tensor<3x5xf16>
  func.return
}

// CHECK-LABEL: func.func @softmax(
// CHECK-NEXT: %0 = rlx.softmax %x : tensor<2x3x4xf32>
// CHECK-NEXT: %1 = rlx.softmax %x {axis = 1} : tensor<2x3x4xf32>
// CHECK-NEXT: %2 = rlx.softmax %d {axis = 0} : tensor<?x5xbf16>
// GENERIC-LABEL: sym_name = "softmax"
// GENERIC: %0 = "rlx.softmax"(%x) <{axis = -1 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// GENERIC-NEXT: %1 = "rlx.softmax"(%x) <{axis = 1 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// GENERIC-NEXT: %2 = "rlx.softmax"(%d) <{axis = 0 : i64}> : (tensor<?x5xbf16>) -> tensor<?x5xbf16>
func.func @softmax(%x: tensor<2x3x4xf32>, %d: tensor<?x5xbf16>) {
  %0 = rlx.softmax %x : tensor<2x3x4xf32>
  %1 = rlx.softmax %x {axis = 1} : tensor<2x3x4xf32>
  %2 = rlx.softmax %d {axis = 0} : tensor<?x5xbf16>
  func.return
}
