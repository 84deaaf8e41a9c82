// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Sorting, the greatest elements, histograms.

// CHECK-LABEL: func.func @sorting(
// CHECK-NEXT: %0 = rlx.sort %x : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
// CHECK-NEXT: %1 = rlx.sort %i {axis = 0, descending} : tensor<?x?xi8> -> tensor<?x?xi8>
// CHECK-NEXT: %2 = rlx.argsort %x {descending} : tensor<2x3x4xf32> -> tensor<2x3x4xi64>
// CHECK-NEXT: %3 = rlx.argsort %t {axis = 0} : tensor<3x2xi1> -> tensor<3x2xi32>
// CHECK-NEXT: %4 = rlx.top_k %x {k = 2} : tensor<2x3x4xf32> -> tensor<2x3x2xi64>
// CHECK-NEXT: %5 = rlx.top_k %i {k = 5} : tensor<?x?xi8> -> tensor<?x5xui8>
// GENERIC-LABEL: sym_name = "sorting"
// GENERIC: %0 = "rlx.sort"(%x) <{axis = -1 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// GENERIC-NEXT: %1 = "rlx.sort"(%i) <{axis = 0 : i64, descending}> : (tensor<?x?xi8>) -> tensor<?x?xi8>
// GENERIC-NEXT: %2 = "rlx.argsort"(%x) <{descending, axis = -1 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xi64>
// GENERIC-NEXT: %3 = "rlx.argsort"(%t) <{axis = 0 : i64}> : (tensor<3x2xi1>) -> tensor<3x2xi32>
// GENERIC-NEXT: %4 = "rlx.top_k"(%x) <{k = 2 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x3x2xi64>
// GENERIC-NEXT: %5 = "rlx.top_k"(%i) <{k = 5 : i64}> : (tensor<?x?xi8>) -> tensor<?x5xui8>
func.func @sorting(%x: tensor<2x3x4xf32>, %i: tensor<?x?xi8>, %t: tensor<3x2xi1>) {
  %0 = rlx.sort %x : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %1 = rlx.sort %i {axis = 0, descending} : tensor<?x?xi8> -> tensor<?x?xi8>
  %2 = rlx.argsort %x {descending} : tensor<2x3x4xf32> -> tensor<2x3x4xi64>
  %3 = rlx.argsort %t {axis = 0} : tensor<3x2xi1> -> tensor<3x2xi32>
  %4 = rlx.top_k %x {k = 2} : tensor<2x3x4xf32> -> tensor<2x3x2xi64>
  %5 = rlx.top_k %i {k = 5} : tensor<?x?xi8> -> tensor<?x5xui8>
  func.return
}

// CHECK-LABEL: func.func @extremes(
// CHECK-NEXT: %0 = rlx.arg_reduce max %x {axis = 1} : tensor<2x3x4xf32> -> tensor<2x4xi64>
// CHECK-NEXT: %1 = rlx.arg_reduce min %x {axis = 2, keep_dim} : tensor<2x3x4xf32> -> tensor<2x3x1xi32>
// CHECK-NEXT: %2 = rlx.arg_reduce min %d {axis = -1} : tensor<?x?xf16> -> tensor<?xi64>
// CHECK-NEXT: %3 = rlx.histogram %x {bins = 8, min = -1.0, max = 1.0} : tensor<2x3x4xf32> -> tensor<8xf32>
// CHECK-NEXT: %4 = rlx.histogram %d {bins = 1, min = 0.0, max = 255.0} : tensor<?x?xf16> -> tensor<1xf32>
// GENERIC-LABEL: sym_name = "extremes"
// GENERIC: %0 = "rlx.arg_reduce"(%x) <{kind = #rlx<reduce max>, axis = 1 : i64}> : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
// GENERIC-NEXT: %1 = "rlx.arg_reduce"(%x) <{kind = #rlx<reduce min>, axis = 2 : i64, keep_dim}> : (tensor<2x3x4xf32>) -> tensor<2x3x1xi32>
// GENERIC-NEXT: %2 = "rlx.arg_reduce"(%d) <{kind = #rlx<reduce min>, axis = -1 : i64}> : (tensor<?x?xf16>) -> tensor<?xi64>
// GENERIC-NEXT: %3 = "rlx.histogram"(%x) <{bins = 8 : i64, min = -1.000000e+00 : f64, max = 1.000000e+00 : f64}> : (tensor<2x3x4xf32>) -> tensor<8xf32>
// GENERIC-NEXT: %4 = "rlx.histogram"(%d) <{bins = 1 : i64, min = 0.000000e+00 : f64, max = 2.550000e+02 : f64}> : (tensor<?x?xf16>) -> tensor<1xf32>
func.func @extremes(%x: tensor<2x3x4xf32>, %d: tensor<?x?xf16>) {
  %0 = rlx.arg_reduce max %x {axis = 1} : tensor<2x3x4xf32> -> tensor<2x4xi64>
  %1 = rlx.arg_reduce min %x {axis = 2, keep_dim} : tensor<2x3x4xf32> -> tensor<2x3x1xi32>
  %2 = rlx.arg_reduce min %d {axis = -1} : tensor<?x?xf16> -> tensor<?xi64>
  %3 = rlx.histogram %x {bins = 8, min = -1.0, max = 1.0} : tensor<2x3x4xf32> -> tensor<8xf32>
  %4 = rlx.histogram %d {bins = 1, min = 0.0, max = 255.0} : tensor<?x?xf16> -> tensor<1xf32>
  func.return
}
