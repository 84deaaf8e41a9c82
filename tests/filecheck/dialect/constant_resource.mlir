// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// A constant whose value lies outside the text. xDSL renames it when the name was seen before in this process.

// CHECK-LABEL: func.func @resource(
// GENERIC-LABEL: sym_name = "resource"
// CHECK-NEXT: %0 = rlx.constant dense_resource<w{{(_[0-9]+)?}}> : tensor<300x2xf32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense_resource<w{{(_[0-9]+)?}}> : tensor<300x2xf32>}> : () -> tensor<300x2xf32>
func.func @resource() {
  %0 = rlx.constant dense_resource<w> : tensor<300x2xf32>
  func.return
}
