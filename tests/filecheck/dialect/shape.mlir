// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Operations that move, repeat or select elements by static positions.

// CHECK-LABEL: func.func @reshape(
// CHECK-NEXT: %0 = rlx.reshape %x {new_shape = [6, 4]} : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK-NEXT: %1 = rlx.reshape %x {new_shape = [3, -1, 2]} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
// CHECK-NEXT: %2 = rlx.reshape %d {new_shape = [-1, 12]} : tensor<?x3x4xi8> -> tensor<?x12xi8>
// CHECK-NEXT: %3 = rlx.reshape %d {new_shape = [-1, 12]} : tensor<?x3x4xi8> -> tensor<5x12xi8>
// CHECK-NEXT: %4 = rlx.reshape %s {new_shape = [1, 1]} : tensor<f64> -> tensor<1x1xf64>
// CHECK-NEXT: %5 = rlx.reshape %4 {new_shape = []} : tensor<1x1xf64> -> tensor<f64>
// GENERIC-LABEL: sym_name = "reshape"
// GENERIC: %0 = "rlx.reshape"(%x) <{new_shape = array<i64: 6, 4>}> : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
// GENERIC-NEXT: %1 = "rlx.reshape"(%x) <{new_shape = array<i64: 3, -1, 2>}> : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
// GENERIC-NEXT: %2 = "rlx.reshape"(%d) <{new_shape = array<i64: -1, 12>}> : (tensor<?x3x4xi8>) -> tensor<?x12xi8>
// GENERIC-NEXT: %3 = "rlx.reshape"(%d) <{new_shape = array<i64: -1, 12>}> : (tensor<?x3x4xi8>) -> tensor<5x12xi8>
// GENERIC-NEXT: %4 = "rlx.reshape"(%s) <{new_shape = array<i64: 1, 1>}> : (tensor<f64>) -> tensor<1x1xf64>
// GENERIC-NEXT: %5 = "rlx.reshape"(%4) <{new_shape = array<i64>}> : (tensor<1x1xf64>) -> tensor<f64>
func.func @reshape(%x: tensor<2x3x4xf32>, %d: tensor<?x3x4xi8>, %s: tensor<f64>) {
  %0 = rlx.reshape %x {new_shape = [6, 4]} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = rlx.reshape %x {new_shape = [3, -1, 2]} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %2 = rlx.reshape %d {new_shape = [-1, 12]} : tensor<?x3x4xi8> -> tensor<?x12xi8>
  %3 = rlx.reshape %d {new_shape = [-1, 12]} : tensor<?x3x4xi8> -> tensor<5x12xi8>
  %4 = rlx.reshape %s {new_shape = [1, 1]} : tensor<f64> -> tensor<1x1xf64>
  %5 = rlx.reshape %4 {new_shape = []} : tensor<1x1xf64> -> tensor<f64>
  func.return
}

// CHECK-LABEL: func.func @select(
// CHECK-NEXT: %0 = rlx.transpose %x {perm = [2, 0, 1]} : tensor<2x3x8xf32> -> tensor<8x2x3xf32>
// CHECK-NEXT: %1 = rlx.transpose %d {perm = [1, 0]} : tensor<?x4xbf16> -> tensor<4x?xbf16>
// CHECK-NEXT: %2 = rlx.narrow %x {axis = 2, start = 3, len = 5} : tensor<2x3x8xf32> -> tensor<2x3x5xf32>
// CHECK-NEXT: %3 = rlx.narrow %d {axis = -2, start = 1, len = 2} : tensor<?x4xbf16> -> tensor<2x4xbf16>
// CHECK-NEXT: %4 = rlx.slice %x {axis = 2, start = 7, len = 3, step = -3} : tensor<2x3x8xf32> -> tensor<2x3x3xf32>
// CHECK-NEXT: %5 = rlx.slice %d {axis = 1, start = 1, len = 2, step = 2} : tensor<?x4xbf16> -> tensor<?x2xbf16>
// CHECK-NEXT: %6 = rlx.reverse %x {axes = [0, 2]} : tensor<2x3x8xf32>
// CHECK-NEXT: %7 = rlx.trilu %x : tensor<2x3x8xf32>
// CHECK-NEXT: %8 = rlx.trilu %x {upper, diagonal = -1} : tensor<2x3x8xf32>
// CHECK-NEXT: %9 = rlx.roll %x {shifts = [1, -2], dims = [0, 2]} : tensor<2x3x8xf32>
// GENERIC-LABEL: sym_name = "select"
// GENERIC: %0 = "rlx.transpose"(%x) <{perm = array<i64: 2, 0, 1>}> : (tensor<2x3x8xf32>) -> tensor<8x2x3xf32>
// GENERIC-NEXT: %1 = "rlx.transpose"(%d) <{perm = array<i64: 1, 0>}> : (tensor<?x4xbf16>) -> tensor<4x?xbf16>
// GENERIC-NEXT: %2 = "rlx.narrow"(%x) <{axis = 2 : i64, start = 3 : i64, len = 5 : i64}> : (tensor<2x3x8xf32>) -> tensor<2x3x5xf32>
// GENERIC-NEXT: %3 = "rlx.narrow"(%d) <{axis = -2 : i64, start = 1 : i64, len = 2 : i64}> : (tensor<?x4xbf16>) -> tensor<2x4xbf16>
// GENERIC-NEXT: %4 = "rlx.slice"(%x) <{axis = 2 : i64, start = 7 : i64, len = 3 : i64, step = -3 : i64}> : (tensor<2x3x8xf32>) -> tensor<2x3x3xf32>
// GENERIC-NEXT: %5 = "rlx.slice"(%d) <{axis = 1 : i64, start = 1 : i64, len = 2 : i64, step = 2 : i64}> : (tensor<?x4xbf16>) -> tensor<?x2xbf16>
// GENERIC-NEXT: %6 = "rlx.reverse"(%x) <{axes = array<i64: 0, 2>}> : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %7 = "rlx.trilu"(%x) <{diagonal = 0 : i64}> : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %8 = "rlx.trilu"(%x) <{upper, diagonal = -1 : i64}> : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// GENERIC-NEXT: %9 = "rlx.roll"(%x) <{shifts = array<i64: 1, -2>, dims = array<i64: 0, 2>}> : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
func.func @select(%x: tensor<2x3x8xf32>, %d: tensor<?x4xbf16>) {
  %0 = rlx.transpose %x {perm = [2, 0, 1]} : tensor<2x3x8xf32> -> tensor<8x2x3xf32>
  %1 = rlx.transpose %d {perm = [1, 0]} : tensor<?x4xbf16> -> tensor<4x?xbf16>
  %2 = rlx.narrow %x {axis = 2, start = 3, len = 5} : tensor<2x3x8xf32> -> tensor<2x3x5xf32>
  %3 = rlx.narrow %d {axis = -2, start = 1, len = 2} : tensor<?x4xbf16> -> tensor<2x4xbf16>
  %4 = rlx.slice %x {axis = 2, start = 7, len = 3, step = -3} : tensor<2x3x8xf32> -> tensor<2x3x3xf32>
  %5 = rlx.slice %d {axis = 1, start = 1, len = 2, step = 2} : tensor<?x4xbf16> -> tensor<?x2xbf16>
  %6 = rlx.reverse %x {axes = [0, 2]} : tensor<2x3x8xf32>
  %7 = rlx.trilu %x : tensor<2x3x8xf32>
  %8 = rlx.trilu %x {upper, diagonal = -1} : tensor<2x3x8xf32>
  %9 = rlx.roll %x {shifts = [1, -2], dims = [0, 2]} : tensor<2x3x8xf32>
  func.return
}

// CHECK-LABEL: func.func @repeat(
// CHECK-NEXT: %0 = rlx.concat %x, %y, %x {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x3xf32>) -> tensor<2x11xf32>
// CHECK-NEXT: %1 = rlx.concat %d, %d {axis = 0} : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x1xi64>
// CHECK-NEXT: %2 = rlx.expand %d {shape = [2, -1, 4]} : tensor<?x1xi64> -> tensor<2x?x4xi64>
// CHECK-NEXT: %3 = rlx.tile %x {reps = [2, 3]} : tensor<2x3xf32> -> tensor<4x9xf32>
// CHECK-NEXT: %4 = rlx.pad %x {pads = [0, 1, 2, 0]} : tensor<2x3xf32> -> tensor<4x4xf32>
// CHECK-NEXT: %5 = rlx.pad %x {pads = [0, 1, 0, -2], value = -inf} : tensor<2x3xf32> -> tensor<2x2xf32>
// CHECK-NEXT: %6 = rlx.pad reflect %x {pads = [1, 2, 1, 1]} : tensor<2x3xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %7 = rlx.pad edge %i {pads = [0, 9, 0, 0]} : tensor<4x3xi32> -> tensor<4x12xi32>
// CHECK-NEXT: %8 = rlx.pad wrap %d {pads = [1, 1, 0, 0]} : tensor<?x1xi64> -> tensor<?x2xi64>
// GENERIC-LABEL: sym_name = "repeat"
// GENERIC: %0 = "rlx.concat"(%x, %y, %x) <{axis = 1 : i64}> : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x3xf32>) -> tensor<2x11xf32>
// GENERIC-NEXT: %1 = "rlx.concat"(%d, %d) <{axis = 0 : i64}> : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x1xi64>
// GENERIC-NEXT: %2 = "rlx.expand"(%d) <{shape = array<i64: 2, -1, 4>}> : (tensor<?x1xi64>) -> tensor<2x?x4xi64>
// GENERIC-NEXT: %3 = "rlx.tile"(%x) <{reps = array<i64: 2, 3>}> : (tensor<2x3xf32>) -> tensor<4x9xf32>
// GENERIC-NEXT: %4 = "rlx.pad"(%x) <{pads = array<i64: 0, 1, 2, 0>, mode = #rlx<pad_mode constant>, value = 0.000000e+00 : f64}> : (tensor<2x3xf32>) -> tensor<4x4xf32>
// GENERIC-NEXT: %5 = "rlx.pad"(%x) <{pads = array<i64: 0, 1, 0, -2>, value = 0xfff0000000000000 : f64, mode = #rlx<pad_mode constant>}> : (tensor<2x3xf32>) -> tensor<2x2xf32>
// GENERIC-NEXT: %6 = "rlx.pad"(%x) <{mode = #rlx<pad_mode reflect>, pads = array<i64: 1, 2, 1, 1>, value = 0.000000e+00 : f64}> : (tensor<2x3xf32>) -> tensor<4x6xf32>
// GENERIC-NEXT: %7 = "rlx.pad"(%i) <{mode = #rlx<pad_mode edge>, pads = array<i64: 0, 9, 0, 0>, value = 0.000000e+00 : f64}> : (tensor<4x3xi32>) -> tensor<4x12xi32>
// GENERIC-NEXT: %8 = "rlx.pad"(%d) <{mode = #rlx<pad_mode wrap>, pads = array<i64: 1, 1, 0, 0>, value = 0.000000e+00 : f64}> : (tensor<?x1xi64>) -> tensor<?x2xi64>
func.func @repeat(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>, %d: tensor<?x1xi64>, %i: tensor<4x3xi32>) {
  %0 = rlx.concat %x, %y, %x {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x3xf32>) -> tensor<2x11xf32>
  %1 = rlx.concat %d, %d {axis = 0} : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x1xi64>
  %2 = rlx.expand %d {shape = [2, -1, 4]} : tensor<?x1xi64> -> tensor<2x?x4xi64>
  %3 = rlx.tile %x {reps = [2, 3]} : tensor<2x3xf32> -> tensor<4x9xf32>
  %4 = rlx.pad %x {pads = [0, 1, 2, 0]} : tensor<2x3xf32> -> tensor<4x4xf32>
  %5 = rlx.pad %x {pads = [0, 1, 0, -2], value = -inf} : tensor<2x3xf32> -> tensor<2x2xf32>
  %6 = rlx.pad reflect %x {pads = [1, 2, 1, 1]} : tensor<2x3xf32> -> tensor<4x6xf32>
  %7 = rlx.pad edge %i {pads = [0, 9, 0, 0]} : tensor<4x3xi32> -> tensor<4x12xi32>
  %8 = rlx.pad wrap %d {pads = [1, 1, 0, 0]} : tensor<?x1xi64> -> tensor<?x2xi64>
  func.return
}
