// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Running sums, products and extremes; the gradient of the running sum.

// CHECK-LABEL: func.func @scans(
// CHECK-NEXT: %0 = rlx.cumulative sum %x {axis = 1} : tensor<2x3xf32>
// CHECK-NEXT: %1 = rlx.cumulative prod %d {axis = 0, exclusive} : tensor<?x?xbf16>
// CHECK-NEXT: %2 = rlx.cumulative max %i {axis = -1, exclusive} : tensor<4xi8>
// CHECK-NEXT: %3 = rlx.cumulative min %t {axis = 0} : tensor<4xi1>
// CHECK-NEXT: %4 = rlx.cumsum_backward %x {axis = 1} : tensor<2x3xf32>
// CHECK-NEXT: %5 = rlx.cumsum_backward %d {axis = 0, exclusive} : tensor<?x?xbf16>
// GENERIC-LABEL: sym_name = "scans"
// GENERIC: %0 = "rlx.cumulative"(%x) <{kind = #rlx<reduce sum>, axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %1 = "rlx.cumulative"(%d) <{kind = #rlx<reduce prod>, axis = 0 : i64, exclusive}> : (tensor<?x?xbf16>) -> tensor<?x?xbf16>
// GENERIC-NEXT: %2 = "rlx.cumulative"(%i) <{kind = #rlx<reduce max>, axis = -1 : i64, exclusive}> : (tensor<4xi8>) -> tensor<4xi8>
// GENERIC-NEXT: %3 = "rlx.cumulative"(%t) <{kind = #rlx<reduce min>, axis = 0 : i64}> : (tensor<4xi1>) -> tensor<4xi1>
// GENERIC-NEXT: %4 = "rlx.cumsum_backward"(%x) <{axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %5 = "rlx.cumsum_backward"(%d) <{axis = 0 : i64, exclusive}> : (tensor<?x?xbf16>) -> tensor<?x?xbf16>
func.func @scans(%x: tensor<2x3xf32>, %d: tensor<?x?xbf16>, %i: tensor<4xi8>, %t: tensor<4xi1>) {
  %0 = rlx.cumulative sum %x {axis = 1} : tensor<2x3xf32>
  %1 = rlx.cumulative prod %d {axis = 0, exclusive} : tensor<?x?xbf16>
  %2 = rlx.cumulative max %i {axis = -1, exclusive} : tensor<4xi8>
  %3 = rlx.cumulative min %t {axis = 0} : tensor<4xi1>
  %4 = rlx.cumsum_backward %x {axis = 1} : tensor<2x3xf32>
  %5 = rlx.cumsum_backward %d {axis = 0, exclusive} : tensor<?x?xbf16>
  func.return
}
