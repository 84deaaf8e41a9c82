// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of operations that move, repeat or select elements says.

// CHECK: error: 'rlx.reshape': 2x3 has 6 elements, new_shape [4, 2] has 8
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reshape %x {new_shape = [4, 2]} : tensor<2x3xf32> -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reshape': 6 elements of 2x3 do not divide into new_shape [4, -1]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reshape %x {new_shape = [4, -1]} : tensor<2x3xf32> -> tensor<4x1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reshape': new_shape [-1, 0]: what is left for -1 is not known beside an extent of 0
func.func @f(%x: tensor<?xf32>) {
  %0 = rlx.reshape %x {new_shape = [-1, 0]} : tensor<?xf32> -> tensor<?x0xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reshape': new_shape [-1, -1] may hold one -1 and no other negative extent
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reshape %x {new_shape = [-1, -1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reshape': result #0 must be tensor<?x12xi8>, got tensor<5x13xi8>
func.func @f(%x: tensor<?x3x4xi8>) {
  %0 = rlx.reshape %x {new_shape = [-1, 12]} : tensor<?x3x4xi8> -> tensor<5x13xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.reshape': ?x3x4 cannot have the 35 elements of new_shape [5, 7]
func.func @f(%x: tensor<?x3x4xi8>) {
  %0 = rlx.reshape %x {new_shape = [5, 7]} : tensor<?x3x4xi8> -> tensor<5x7xi8>
  func.return
}

// -----

// CHECK: error: 'rlx.transpose': perm [1, 1] is no permutation of the 2 axes
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.transpose %x {perm = [1, 1]} : tensor<2x3xf32> -> tensor<3x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.transpose': result #0 must be tensor<3x2xf32>, got tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.transpose %x {perm = [1, 0]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.narrow': start 2 + len 2 exceeds extent 3 of axis 1
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.narrow %x {axis = 1, start = 2, len = 2} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.narrow': start -1 and len 2 must not be negative
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.narrow %x {axis = 1, start = -1, len = 2} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.narrow': axis 2 is outside rank 2
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.narrow %x {axis = 2, start = 0, len = 2} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.slice': step 0 must not be 0 and len 2 must not be negative
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.slice %x {axis = 1, start = 0, len = 2, step = 0} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.slice': positions -1 to 1 exceed extent 3 of axis 1 of operand 'input'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.slice %x {axis = 1, start = 1, len = 3, step = -1} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.slice': positions 0 to 3 exceed extent 3 of axis 1 of operand 'input'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.slice %x {axis = 1, start = 0, len = 2, step = 3} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.slice': positions -1 to 1 exceed extent ? of axis 0 of operand 'input'
func.func @f(%x: tensor<?x3xf32>) {
  %0 = rlx.slice %x {axis = 0, start = 1, len = 3, step = -1} : tensor<?x3xf32> -> tensor<3x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.concat': extents of axis 1: 3 and 4 differ
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  %0 = rlx.concat %a, %b {axis = 0} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.concat': ranks differ: 2x3 and 3
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %0 = rlx.concat %a, %b {axis = 0} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.concat': operand #1 must have element type f32 like operand #0, got f16
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf16>) {
  %0 = rlx.concat %a, %b {axis = 0} : (tensor<2x3xf32>, tensor<2x3xf16>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.concat': at least one operand expected, got none
func.func @f() {
  %0 = rlx.concat {axis = 0} : () -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.expand': 2x3 does not broadcast to target [2, 4] at axis 1
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.expand %x {shape = [2, 4]} : tensor<2x3xf32> -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.expand': 2x3 has more axes than target [3]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.expand %x {shape = [3]} : tensor<2x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.expand': target [-1, 2, 3]: extent -1 of axis 0 has nothing to keep
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.expand %x {shape = [-1, 2, 3]} : tensor<2x3xf32> -> tensor<?x2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reverse': axis 2 is outside rank 2
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reverse %x {axes = [2]} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.reverse': axes [1, -1] name one axis twice
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.reverse %x {axes = [1, -1]} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': pads [1, 1] must list 4 numbers for operand 'input' of rank 2
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pad %x {pads = [1, 1]} : tensor<2x3xf32> -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': pads [-2, -2] of axis 1 remove more than its extent 3
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pad %x {pads = [0, -2, 0, -2]} : tensor<2x3xf32> -> tensor<2x0xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': pads [3, 0] of axis 1 are too large for extent 3 in mode reflect
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pad reflect %x {pads = [0, 3, 0, 0]} : tensor<2x3xf32> -> tensor<2x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': pads [3, 4] of axis 1 are too large for extent 3 in mode wrap
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.pad wrap %x {pads = [0, 3, 0, 4]} : tensor<2x3xf32> -> tensor<2x10xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': pads [1, 0] of axis 1 are too large for extent 0 in mode edge
func.func @f(%x: tensor<2x0xf32>) {
  %0 = rlx.pad edge %x {pads = [0, 1, 0, 0]} : tensor<2x0xf32> -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': value must be an integer for element type i32, got 0.5
func.func @f(%x: tensor<2x3xi32>) {
  %0 = rlx.pad %x {pads = [0, 1, 0, 0], value = 0.5} : tensor<2x3xi32> -> tensor<2x4xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.pad': value must be 0 to 1 for element type i1, got 2.0
func.func @f(%x: tensor<2x3xi1>) {
  %0 = rlx.pad %x {pads = [0, 1, 0, 0], value = 2.0} : tensor<2x3xi1> -> tensor<2x4xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.tile': reps [2] must list 2 numbers that are not negative
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.tile %x {reps = [2]} : tensor<2x3xf32> -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.tile': reps [2, -1] must list 2 numbers that are not negative
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.tile %x {reps = [2, -1]} : tensor<2x3xf32> -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.trilu': operand 'input' must have rank 2 or more, got 3
func.func @f(%x: tensor<3xf32>) {
  %0 = rlx.trilu %x : tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.roll': shifts [1] and dims [0, 1] must have one length
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.roll %x {shifts = [1], dims = [0, 1]} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.roll': axis -3 is outside rank 2
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.roll %x {shifts = [1], dims = [-3]} : tensor<2x3xf32>
  func.return
}
