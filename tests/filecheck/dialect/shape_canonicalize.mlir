// RUN: rlx-opt -p canonicalize %s | filecheck %s
// What xDSL's canonicalize makes of shape operations: identities go, chains become one, small constants fold.

// CHECK-LABEL: func.func @identities(
// CHECK-NEXT: func.return %x, %x, %x, %x, %x, %x, %x, %x, %x, %x
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = rlx.reshape %x {new_shape = [2, -1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = rlx.transpose %x {perm = [0, 1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = rlx.narrow %x {axis = 1, start = 0, len = 3} : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = rlx.slice %x {axis = 0, start = 0, len = 2, step = 1} : tensor<2x3xf32> -> tensor<2x3xf32>
  %4 = rlx.expand %x {shape = [-1, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %5 = rlx.concat %x {axis = 0} : tensor<2x3xf32> -> tensor<2x3xf32>
  %6 = rlx.reverse %x {axes = []} : tensor<2x3xf32>
  %7 = rlx.pad %x {pads = [0, 0, 0, 0]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %8 = rlx.tile %x {reps = [1, 1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %9 = rlx.roll %x {shifts = [4, -3], dims = [0, 1]} : tensor<2x3xf32>
  func.return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Equal types alone make no identity.
// CHECK-LABEL: func.func @no_identities(
// CHECK-NEXT: %0 = rlx.transpose %x {perm = [1, 0]}
// CHECK-NEXT: %1 = rlx.slice %x {axis = 1, start = 2, len = 3, step = -1}
// CHECK-NEXT: %2 = rlx.reverse %x {axes = [1]}
// CHECK-NEXT: %3 = rlx.pad %x {pads = [1, 0, -1, 0]}
// CHECK-NEXT: %4 = rlx.roll %x {shifts = [3, 1], dims = [0, 1]}
// CHECK-NEXT: func.return %0, %1, %2, %3, %4
func.func @no_identities(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) {
  %0 = rlx.transpose %x {perm = [1, 0]} : tensor<3x3xf32> -> tensor<3x3xf32>
  %1 = rlx.slice %x {axis = 1, start = 2, len = 3, step = -1} : tensor<3x3xf32> -> tensor<3x3xf32>
  %2 = rlx.reverse %x {axes = [1]} : tensor<3x3xf32>
  %3 = rlx.pad %x {pads = [1, 0, -1, 0]} : tensor<3x3xf32> -> tensor<3x3xf32>
  %4 = rlx.roll %x {shifts = [3, 1], dims = [0, 1]} : tensor<3x3xf32>
  func.return %0, %1, %2, %3, %4 : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
}

// One unknown extent follows from the number of elements; two do not, and an extent given a length may broadcast.
// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: %0 = rlx.reshape %y {new_shape = [-1, 3]}
// CHECK-NEXT: %1 = rlx.expand %x {shape = [4, 3]}
// CHECK-NEXT: %2 = rlx.narrow %x {axis = 0, start = 0, len = 4}
// CHECK-NEXT: %3 = rlx.roll %x {shifts = [2], dims = [0]}
// CHECK-NEXT: func.return %x, %x, %0, %1, %2, %3
func.func @dynamic(%x: tensor<?x3xf32>, %y: tensor<?x?xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %0 = rlx.reshape %x {new_shape = [-1, 3]} : tensor<?x3xf32> -> tensor<?x3xf32>
  %1 = rlx.expand %x {shape = [-1, 3]} : tensor<?x3xf32> -> tensor<?x3xf32>
  %2 = rlx.reshape %y {new_shape = [-1, 3]} : tensor<?x?xf32> -> tensor<?x?xf32>
  %3 = rlx.expand %x {shape = [4, 3]} : tensor<?x3xf32> -> tensor<?x3xf32>
  %4 = rlx.narrow %x {axis = 0, start = 0, len = 4} : tensor<?x3xf32> -> tensor<?x3xf32>
  %5 = rlx.roll %x {shifts = [2], dims = [0]} : tensor<?x3xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}

// CHECK-LABEL: func.func @chains(
// CHECK-NEXT: %0 = rlx.transpose %x {perm = [2, 1, 0]} : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
// CHECK-NEXT: %1 = rlx.reshape %x {new_shape = [4, -1]} : tensor<2x3x4xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %2 = rlx.narrow %x {axis = 2, start = 2, len = 1} : tensor<2x3x4xf32> -> tensor<2x3x1xf32>
// CHECK-NEXT: %3 = rlx.narrow %x {axis = 2, start = 1, len = 2} : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
// CHECK-NEXT: %4 = rlx.slice %x {axis = 2, start = 3, len = 2, step = -2} : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
// CHECK-NEXT: func.return %0, %x, %1, %x, %2, %3, %4
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<4x6xf32>, tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>) {
  %0 = rlx.transpose %x {perm = [2, 0, 1]} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = rlx.transpose %0 {perm = [0, 2, 1]} : tensor<4x2x3xf32> -> tensor<4x3x2xf32>
  %2 = rlx.transpose %0 {perm = [1, 2, 0]} : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  %3 = rlx.reshape %x {new_shape = [6, 4]} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %4 = rlx.reshape %3 {new_shape = [4, -1]} : tensor<6x4xf32> -> tensor<4x6xf32>
  %5 = rlx.reshape %4 {new_shape = [2, 3, 4]} : tensor<4x6xf32> -> tensor<2x3x4xf32>
  %6 = rlx.narrow %x {axis = 2, start = 1, len = 3} : tensor<2x3x4xf32> -> tensor<2x3x3xf32>
  %7 = rlx.narrow %6 {axis = -1, start = 1, len = 1} : tensor<2x3x3xf32> -> tensor<2x3x1xf32>
  %8 = rlx.slice %x {axis = 2, start = 1, len = 2, step = 1} : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  %9 = rlx.slice %x {axis = 2, start = 3, len = 2, step = -2} : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  func.return %1, %2, %4, %5, %7, %8, %9 : tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<4x6xf32>, tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>
}

// Narrows of different axes stay two.
// CHECK-LABEL: func.func @two_axes(
// CHECK-NEXT: %0 = rlx.narrow %x {axis = 1, start = 1, len = 2}
// CHECK-NEXT: %1 = rlx.narrow %0 {axis = 0, start = 1, len = 1}
// CHECK-NEXT: func.return %1
func.func @two_axes(%x: tensor<2x3xf32>) -> tensor<1x2xf32> {
  %0 = rlx.narrow %x {axis = 1, start = 1, len = 2} : tensor<2x3xf32> -> tensor<2x2xf32>
  %1 = rlx.narrow %0 {axis = 0, start = 1, len = 1} : tensor<2x2xf32> -> tensor<1x2xf32>
  func.return %1 : tensor<1x2xf32>
}

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT: %0 = rlx.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi32>
// CHECK-NEXT: %1 = rlx.constant dense<[6, 15]> : tensor<2xi32>
// CHECK-NEXT: func.return %0, %1
func.func @constants() -> (tensor<3x2xi32>, tensor<2xi32>) {
  %0 = rlx.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %1 = rlx.transpose %0 {perm = [1, 0]} : tensor<2x3xi32> -> tensor<3x2xi32>
  %2 = rlx.reduce sum %0 {axes = [1]} : tensor<2x3xi32> -> tensor<2xi32>
  func.return %1, %2 : tensor<3x2xi32>, tensor<2xi32>
}

// Where nothing is taken, a slice may start anywhere; a narrow may not.
// CHECK-LABEL: func.func @empty_slices(
// CHECK-NEXT: %0 = rlx.narrow %x {axis = 0, start = 0, len = 0}
// CHECK-NEXT: %1 = rlx.narrow %x {axis = 0, start = 0, len = 0}
func.func @empty_slices(%x: tensor<4xf32>) -> (tensor<0xf32>, tensor<0xf32>) {
  %0 = rlx.slice %x {axis = 0, start = 7, len = 0, step = 1} : tensor<4xf32> -> tensor<0xf32>
  %1 = rlx.slice %x {axis = 0, start = -1, len = 0, step = 1} : tensor<4xf32> -> tensor<0xf32>
  func.return %0, %1 : tensor<0xf32>, tensor<0xf32>
}

// An index out of range has no meaning: the operation is left as it is.
// CHECK-LABEL: func.func @undefined(
// CHECK: %2 = rlx.gather %0, %1
// CHECK-NEXT: func.return %2
func.func @undefined() -> tensor<1xi32> {
  %0 = rlx.constant dense<[1, 2]> : tensor<2xi32>
  %1 = rlx.constant dense<[2]> : tensor<1xi64>
  %2 = rlx.gather %0, %1 : (tensor<2xi32>, tensor<1xi64>) -> tensor<1xi32>
  func.return %2 : tensor<1xi32>
}

// Attributes of the outer operation stay.
// CHECK-LABEL: func.func @attributes(
// CHECK-NEXT: rlx.reshape %x {new_shape = [3, 2], rlx.note = "kept"}
func.func @attributes(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = rlx.reshape %x {new_shape = [6]} : tensor<2x3xf32> -> tensor<6xf32>
  %1 = rlx.reshape %0 {new_shape = [3, 2], rlx.note = "kept"} : tensor<6xf32> -> tensor<3x2xf32>
  func.return %1 : tensor<3x2xf32>
}
