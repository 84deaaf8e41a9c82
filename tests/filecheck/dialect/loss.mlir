// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Cross entropy of softmax and its gradient.

// CHECK-LABEL: func.func @losses(
// CHECK-NEXT: %0 = rlx.softmax_cross_entropy %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>
// CHECK-NEXT: %1 = rlx.softmax_cross_entropy %d, %d : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?xbf16>
// CHECK-NEXT: %2 = rlx.softmax_cross_entropy_with_logits %x, %l : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
// CHECK-NEXT: %3 = rlx.softmax_cross_entropy_with_logits %d, %m : (tensor<?x?xbf16>, tensor<?xi32>) -> tensor<?xbf16>
// CHECK-NEXT: %4 = rlx.softmax_cross_entropy_backward %x, %l, %g : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: %5 = rlx.softmax_cross_entropy_backward %d, %m, %h : (tensor<?x?xbf16>, tensor<?xi32>, tensor<?xbf16>) -> tensor<?x?xbf16>
// GENERIC-LABEL: sym_name = "losses"
// GENERIC: %0 = "rlx.softmax_cross_entropy"(%x, %x) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>
// GENERIC-NEXT: %1 = "rlx.softmax_cross_entropy"(%d, %d) : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?xbf16>
// GENERIC-NEXT: %2 = "rlx.softmax_cross_entropy_with_logits"(%x, %l) : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
// GENERIC-NEXT: %3 = "rlx.softmax_cross_entropy_with_logits"(%d, %m) : (tensor<?x?xbf16>, tensor<?xi32>) -> tensor<?xbf16>
// GENERIC-NEXT: %4 = "rlx.softmax_cross_entropy_backward"(%x, %l, %g) : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
// GENERIC-NEXT: %5 = "rlx.softmax_cross_entropy_backward"(%d, %m, %h) : (tensor<?x?xbf16>, tensor<?xi32>, tensor<?xbf16>) -> tensor<?x?xbf16>
func.func @losses(%x: tensor<4x6xf32>, %d: tensor<?x?xbf16>, %l: tensor<4xi64>, %m: tensor<?xi32>, %g: tensor<4xf32>, %h: tensor<?xbf16>) {
  %0 = rlx.softmax_cross_entropy %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>
  %1 = rlx.softmax_cross_entropy %d, %d : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?xbf16>
  %2 = rlx.softmax_cross_entropy_with_logits %x, %l : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
  %3 = rlx.softmax_cross_entropy_with_logits %d, %m : (tensor<?x?xbf16>, tensor<?xi32>) -> tensor<?xbf16>
  %4 = rlx.softmax_cross_entropy_backward %x, %l, %g : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
  %5 = rlx.softmax_cross_entropy_backward %d, %m, %h : (tensor<?x?xbf16>, tensor<?xi32>, tensor<?xbf16>) -> tensor<?x?xbf16>
  func.return
}
