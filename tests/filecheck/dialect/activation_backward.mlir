// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Gradients of activations, of static and of dynamic shape.

// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: %0 = rlx.activation_backward gelu %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %1 = rlx.activation_backward hard_swish %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %2 = rlx.relu_backward %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-LABEL: sym_name = "gradients"
// GENERIC: %0 = "rlx.activation_backward"(%x, %dy) <{kind = #rlx<activation gelu>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %1 = "rlx.activation_backward"(%x, %dy) <{kind = #rlx<activation hard_swish>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %2 = "rlx.relu_backward"(%x, %dy) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @gradients(%x: tensor<2x3xf32>, %dy: tensor<2x3xf32>) {
  %0 = rlx.activation_backward gelu %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = rlx.activation_backward hard_swish %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = rlx.relu_backward %x, %dy : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: %0 = rlx.activation_backward silu %x, %dy : (tensor<?x3xf16>, tensor<2x?xf16>) -> tensor<?x3xf16>
// CHECK-NEXT: %1 = rlx.relu_backward %dy, %x : (tensor<2x?xf16>, tensor<?x3xf16>) -> tensor<2x?xf16>
// GENERIC-LABEL: sym_name = "dynamic"
// GENERIC: %0 = "rlx.activation_backward"(%x, %dy) <{kind = #rlx<activation silu>}> : (tensor<?x3xf16>, tensor<2x?xf16>) -> tensor<?x3xf16>
// GENERIC-NEXT: %1 = "rlx.relu_backward"(%dy, %x) : (tensor<2x?xf16>, tensor<?x3xf16>) -> tensor<2x?xf16>
func.func @dynamic(%x: tensor<?x3xf16>, %dy: tensor<2x?xf16>) {
  %0 = rlx.activation_backward silu %x, %dy : (tensor<?x3xf16>, tensor<2x?xf16>) -> tensor<?x3xf16>
  %1 = rlx.relu_backward %dy, %x : (tensor<2x?xf16>, tensor<?x3xf16>) -> tensor<2x?xf16>
  func.return
}
