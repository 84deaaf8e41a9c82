// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser of a constant says.

// CHECK: 'rlx.constant': a dense or dense_resource value expected, got 1.000000e+00 : f32
func.func @f() {
  %0 = rlx.constant 1.0 : f32
  func.return
}

// -----

// CHECK: Shape mismatch in dense literal. Expected [3] shape from the type, but got [2] shape.
func.func @f() {
  %0 = rlx.constant dense<[1, 2]> : tensor<3xi32>
  func.return
}

// -----

// CHECK: 0x3F8000000 has not the size of f32
func.func @f() {
  %0 = rlx.constant dense<0x3F8000000> : tensor<f32>
  func.return
}
