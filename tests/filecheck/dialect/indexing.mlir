// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Gather and scatter; axis 0, no batch axes and the reduction none are defaults.

// CHECK-LABEL: func.func @gather(
// CHECK-NEXT: %0 = rlx.gather %t, %i : (tensor<5x4x3xf32>, tensor<2x6xi64>) -> tensor<2x6x4x3xf32>
// CHECK-NEXT: %1 = rlx.gather %t, %d {axis = 1} : (tensor<5x4x3xf32>, tensor<?x?xi64>) -> tensor<5x?x?x3xf32>
// CHECK-NEXT: %2 = rlx.gather_nd %t, %n : (tensor<5x4x3xf32>, tensor<7x2xi32>) -> tensor<7x3xf32>
// CHECK-NEXT: %3 = rlx.gather_nd %t, %b {batch_dims = 2} : (tensor<5x4x3xf32>, tensor<5x4x1xindex>) -> tensor<5x4xf32>
// CHECK-NEXT: %4 = rlx.gather_elements %t, %e : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %5 = rlx.gather_elements %t, %e {axis = 2} : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
// GENERIC-LABEL: sym_name = "gather"
// GENERIC: %0 = "rlx.gather"(%t, %i) <{axis = 0 : i64}> : (tensor<5x4x3xf32>, tensor<2x6xi64>) -> tensor<2x6x4x3xf32>
// GENERIC-NEXT: %1 = "rlx.gather"(%t, %d) <{axis = 1 : i64}> : (tensor<5x4x3xf32>, tensor<?x?xi64>) -> tensor<5x?x?x3xf32>
// GENERIC-NEXT: %2 = "rlx.gather_nd"(%t, %n) <{batch_dims = 0 : i64}> : (tensor<5x4x3xf32>, tensor<7x2xi32>) -> tensor<7x3xf32>
// GENERIC-NEXT: %3 = "rlx.gather_nd"(%t, %b) <{batch_dims = 2 : i64}> : (tensor<5x4x3xf32>, tensor<5x4x1xindex>) -> tensor<5x4xf32>
// GENERIC-NEXT: %4 = "rlx.gather_elements"(%t, %e) <{axis = 0 : i64}> : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
// GENERIC-NEXT: %5 = "rlx.gather_elements"(%t, %e) <{axis = 2 : i64}> : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
func.func @gather(%t: tensor<5x4x3xf32>, %i: tensor<2x6xi64>, %n: tensor<7x2xi32>, %e: tensor<2x4x3xi8>, %d: tensor<?x?xi64>, %b: tensor<5x4x1xindex>) {
  %0 = rlx.gather %t, %i : (tensor<5x4x3xf32>, tensor<2x6xi64>) -> tensor<2x6x4x3xf32>
  %1 = rlx.gather %t, %d {axis = 1} : (tensor<5x4x3xf32>, tensor<?x?xi64>) -> tensor<5x?x?x3xf32>
  %2 = rlx.gather_nd %t, %n : (tensor<5x4x3xf32>, tensor<7x2xi32>) -> tensor<7x3xf32>
  %3 = rlx.gather_nd %t, %b {batch_dims = 2} : (tensor<5x4x3xf32>, tensor<5x4x1xindex>) -> tensor<5x4xf32>
  %4 = rlx.gather_elements %t, %e : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
  %5 = rlx.gather_elements %t, %e {axis = 2} : (tensor<5x4x3xf32>, tensor<2x4x3xi8>) -> tensor<2x4x3xf32>
  func.return
}

// CHECK-LABEL: func.func @scatter(
// CHECK-NEXT: %0 = rlx.scatter_add %t, %i, %a {axis = 1} : (tensor<5x4x3xf16>, tensor<2xi64>, tensor<5x2x3xf16>) -> tensor<5x4x3xf16>
// CHECK-NEXT: %1 = rlx.scatter_nd %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// CHECK-NEXT: %2 = rlx.scatter_nd add %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// CHECK-NEXT: %3 = rlx.scatter_nd mul %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// CHECK-NEXT: %4 = rlx.scatter_elements max %t, %e, %v {axis = 2} : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
// CHECK-NEXT: %5 = rlx.scatter_elements min %t, %e, %v : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-LABEL: sym_name = "scatter"
// GENERIC: %0 = "rlx.scatter_add"(%t, %i, %a) <{axis = 1 : i64}> : (tensor<5x4x3xf16>, tensor<2xi64>, tensor<5x2x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-NEXT: %1 = "rlx.scatter_nd"(%t, %n, %u) <{reduction = #rlx<scatter_reduction none>}> : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-NEXT: %2 = "rlx.scatter_nd"(%t, %n, %u) <{reduction = #rlx<scatter_reduction add>}> : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-NEXT: %3 = "rlx.scatter_nd"(%t, %n, %u) <{reduction = #rlx<scatter_reduction mul>}> : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-NEXT: %4 = "rlx.scatter_elements"(%t, %e, %v) <{reduction = #rlx<scatter_reduction max>, axis = 2 : i64}> : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
// GENERIC-NEXT: %5 = "rlx.scatter_elements"(%t, %e, %v) <{reduction = #rlx<scatter_reduction min>, axis = 0 : i64}> : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
func.func @scatter(%t: tensor<5x4x3xf16>, %i: tensor<2xi64>, %a: tensor<5x2x3xf16>, %n: tensor<7x2xi32>, %u: tensor<7x3xf16>, %e: tensor<2x4x3xi64>, %v: tensor<2x4x3xf16>) {
  %0 = rlx.scatter_add %t, %i, %a {axis = 1} : (tensor<5x4x3xf16>, tensor<2xi64>, tensor<5x2x3xf16>) -> tensor<5x4x3xf16>
  %1 = rlx.scatter_nd %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
  %2 = rlx.scatter_nd add %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
  %3 = rlx.scatter_nd mul %t, %n, %u : (tensor<5x4x3xf16>, tensor<7x2xi32>, tensor<7x3xf16>) -> tensor<5x4x3xf16>
  %4 = rlx.scatter_elements max %t, %e, %v {axis = 2} : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
  %5 = rlx.scatter_elements min %t, %e, %v : (tensor<5x4x3xf16>, tensor<2x4x3xi64>, tensor<2x4x3xf16>) -> tensor<5x4x3xf16>
  func.return
}

// CHECK-LABEL: func.func @kv_append(
// CHECK-NEXT: %0 = rlx.kv_append %c, %u {axis = 1, pos = 13} : (tensor<2x16x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x16x4xbf16>
// CHECK-NEXT: %1 = rlx.kv_append %c, %d {axis = 1, pos = 0} : (tensor<2x16x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x16x4xbf16>
// GENERIC-LABEL: sym_name = "kv_append"
// GENERIC: %0 = "rlx.kv_append"(%c, %u) <{axis = 1 : i64, pos = 13 : i64}> : (tensor<2x16x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x16x4xbf16>
// GENERIC-NEXT: %1 = "rlx.kv_append"(%c, %d) <{axis = 1 : i64, pos = 0 : i64}> : (tensor<2x16x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x16x4xbf16>
func.func @kv_append(%c: tensor<2x16x4xbf16>, %u: tensor<2x3x4xbf16>, %d: tensor<2x?x4xbf16>) {
  %0 = rlx.kv_append %c, %u {axis = 1, pos = 13} : (tensor<2x16x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x16x4xbf16>
  %1 = rlx.kv_append %c, %d {axis = 1, pos = 0} : (tensor<2x16x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x16x4xbf16>
  func.return
}

// CHECK-LABEL: func.func @gather_backward(
// CHECK-NEXT: %0 = rlx.gather_backward %g, %i {extent = 7} : (tensor<2x6x4xf32>, tensor<2x6xi64>) -> tensor<7x4xf32>
// CHECK-NEXT: %1 = rlx.gather_backward %d, %j {axis = 1, extent = 9} : (tensor<?x5x?xbf16>, tensor<?xi32>) -> tensor<?x9x?xbf16>
// GENERIC-LABEL: sym_name = "gather_backward"
// GENERIC: %0 = "rlx.gather_backward"(%g, %i) <{extent = 7 : i64, axis = 0 : i64}> : (tensor<2x6x4xf32>, tensor<2x6xi64>) -> tensor<7x4xf32>
// GENERIC-NEXT: %1 = "rlx.gather_backward"(%d, %j) <{axis = 1 : i64, extent = 9 : i64}> : (tensor<?x5x?xbf16>, tensor<?xi32>) -> tensor<?x9x?xbf16>
func.func @gather_backward(%g: tensor<2x6x4xf32>, %i: tensor<2x6xi64>, %d: tensor<?x5x?xbf16>, %j: tensor<?xi32>) {
  %0 = rlx.gather_backward %g, %i {extent = 7} : (tensor<2x6x4xf32>, tensor<2x6xi64>) -> tensor<7x4xf32>
  %1 = rlx.gather_backward %d, %j {axis = 1, extent = 9} : (tensor<?x5x?xbf16>, tensor<?xi32>) -> tensor<?x9x?xbf16>
  func.return
}
