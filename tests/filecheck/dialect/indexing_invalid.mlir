// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of gather and scatter says.

// CHECK: error: 'rlx.gather': operand 'indices' must have an integer element type, got f32
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xf32>) {
  %0 = rlx.gather %a, %b : (tensor<5x4x3xf32>, tensor<2xf32>) -> tensor<2x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather': operand 'indices' must have an integer element type, got i1
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xi1>) {
  %0 = rlx.gather %a, %b : (tensor<5x4x3xf32>, tensor<2xi1>) -> tensor<2x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather': axis 3 is outside rank 3
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xi32>) {
  %0 = rlx.gather %a, %b {axis = 3} : (tensor<5x4x3xf32>, tensor<2xi32>) -> tensor<2x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather': result #0 must be tensor<5x2x3xf32>, got tensor<2x4x3xf32>
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xi32>) {
  %0 = rlx.gather %a, %b {axis = 1} : (tensor<5x4x3xf32>, tensor<2xi32>) -> tensor<2x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_nd': operand 'indices' must have a static last extent of 1 to 3, got 7x4
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<7x4xi32>) {
  %0 = rlx.gather_nd %a, %b : (tensor<5x4x3xf32>, tensor<7x4xi32>) -> tensor<7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_nd': operand 'indices' must have a static last extent of 1 to 3, got 7x?
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<7x?xi32>) {
  %0 = rlx.gather_nd %a, %b : (tensor<5x4x3xf32>, tensor<7x?xi32>) -> tensor<7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_nd': operands 'data' and 'indices' must have 1 leading batch axes in common and others, got 5x4x3 and 7x1
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<7x1xi32>) {
  %0 = rlx.gather_nd %a, %b {batch_dims = 1} : (tensor<5x4x3xf32>, tensor<7x1xi32>) -> tensor<7x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_nd': operands 'data' and 'indices' must have 1 leading batch axes in common and others, got 5x4x3 and 5
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<5xi32>) {
  %0 = rlx.gather_nd %a, %b {batch_dims = 1} : (tensor<5x4x3xf32>, tensor<5xi32>) -> tensor<5x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_elements': operand 'indices' must have rank 3 and fit ?x4x3, got 2x5x3
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2x5x3xi32>) {
  %0 = rlx.gather_elements %a, %b : (tensor<5x4x3xf32>, tensor<2x5x3xi32>) -> tensor<2x5x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_elements': operand 'indices' must have rank 3 and fit ?x4x3, got 2x4
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2x4xi32>) {
  %0 = rlx.gather_elements %a, %b : (tensor<5x4x3xf32>, tensor<2x4xi32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_add': operand 'updates' must have shape 2x4x3, got 5x2x3
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xi32>, %c: tensor<5x2x3xf32>) {
  %0 = rlx.scatter_add %a, %b, %c : (tensor<5x4x3xf32>, tensor<2xi32>, tensor<5x2x3xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_add': operand 'updates' must have element type f32 like operand 'data', got f16
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2xi32>, %c: tensor<2x4x3xf16>) {
  %0 = rlx.scatter_add %a, %b, %c : (tensor<5x4x3xf32>, tensor<2xi32>, tensor<2x4x3xf16>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_add': operand 'data' of add must be numbers, got i1
func.func @f(%a: tensor<5x3xi1>, %b: tensor<2xi32>, %c: tensor<2x3xi1>) {
  %0 = rlx.scatter_add %a, %b, %c : (tensor<5x3xi1>, tensor<2xi32>, tensor<2x3xi1>) -> tensor<5x3xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_nd': operand 'updates' must have shape 7x3, got 7
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<7x2xi32>, %c: tensor<7xf32>) {
  %0 = rlx.scatter_nd %a, %b, %c : (tensor<5x4x3xf32>, tensor<7x2xi32>, tensor<7xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_nd': operand 'indices' must have a static last extent of 1 to 3, got scalar
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<i32>, %c: tensor<7xf32>) {
  %0 = rlx.scatter_nd %a, %b, %c : (tensor<5x4x3xf32>, tensor<i32>, tensor<7xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_nd': result #0 must be tensor<5x4x3xf32>, got tensor<5x4x4xf32>
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<7x2xi32>, %c: tensor<7x3xf32>) {
  %0 = rlx.scatter_nd %a, %b, %c : (tensor<5x4x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<5x4x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_nd': operand 'data' of max must be real, got complex<f32>
func.func @f(%a: tensor<5xcomplex<f32>>, %b: tensor<2x1xi32>, %c: tensor<2xcomplex<f32>>) {
  %0 = rlx.scatter_nd max %a, %b, %c : (tensor<5xcomplex<f32>>, tensor<2x1xi32>, tensor<2xcomplex<f32>>) -> tensor<5xcomplex<f32>>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_elements': operand 'updates' must have shape 2x4x3, got 2x4x2
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2x4x3xi32>, %c: tensor<2x4x2xf32>) {
  %0 = rlx.scatter_elements %a, %b, %c : (tensor<5x4x3xf32>, tensor<2x4x3xi32>, tensor<2x4x2xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.scatter_elements': operand 'indices' must have rank 3 and fit 5x?x3, got 2x4x4
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<2x4x4xi32>, %c: tensor<2x4x4xf32>) {
  %0 = rlx.scatter_elements %a, %b, %c {axis = 1} : (tensor<5x4x3xf32>, tensor<2x4x4xi32>, tensor<2x4x4xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.kv_append': pos 3 + extent 2 of operand 'update' exceeds 4
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<5x2x3xf32>) {
  %0 = rlx.kv_append %a, %b {axis = 1, pos = 3} : (tensor<5x4x3xf32>, tensor<5x2x3xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.kv_append': pos -1 + extent 2 of operand 'update' exceeds 4
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<5x2x3xf32>) {
  %0 = rlx.kv_append %a, %b {axis = 1, pos = -1} : (tensor<5x4x3xf32>, tensor<5x2x3xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.kv_append': operand 'update' must have shape 5x?x3, got 5x2x2
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<5x2x2xf32>) {
  %0 = rlx.kv_append %a, %b {axis = 1, pos = 0} : (tensor<5x4x3xf32>, tensor<5x2x2xf32>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.kv_append': operand 'update' must have element type f32 like operand 'cache', got f16
func.func @f(%a: tensor<5x4x3xf32>, %b: tensor<5x2x3xf16>) {
  %0 = rlx.kv_append %a, %b {axis = 1, pos = 0} : (tensor<5x4x3xf32>, tensor<5x2x3xf16>) -> tensor<5x4x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': operand 'dy' must have the extents 2 at axis 0, got 3x4
func.func @f(%a: tensor<3x4xf32>, %b: tensor<2xi32>) {
  %0 = rlx.gather_backward %a, %b {extent = 7} : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<7x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': axis 2 is outside rank 2
func.func @f(%a: tensor<3x4xf32>, %b: tensor<3xi32>) {
  %0 = rlx.gather_backward %a, %b {axis = 2, extent = 7} : (tensor<3x4xf32>, tensor<3xi32>) -> tensor<7x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': axis 0 is outside rank 0
func.func @f(%a: tensor<f32>, %b: tensor<3xi32>) {
  %0 = rlx.gather_backward %a, %b {extent = 7} : (tensor<f32>, tensor<3xi32>) -> tensor<7xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': extent must not be negative, got -1
func.func @f(%a: tensor<3x4xf32>, %b: tensor<3xi32>) {
  %0 = rlx.gather_backward %a, %b {extent = -1} : (tensor<3x4xf32>, tensor<3xi32>) -> tensor<7x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': operand 'dy' must be of numbers, got i1
func.func @f(%a: tensor<3x4xi1>, %b: tensor<3xi32>) {
  %0 = rlx.gather_backward %a, %b {extent = 7} : (tensor<3x4xi1>, tensor<3xi32>) -> tensor<7x4xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': operand 'indices' must have an integer element type, got f32
func.func @f(%a: tensor<3x4xf32>, %b: tensor<3xf32>) {
  %0 = rlx.gather_backward %a, %b {extent = 7} : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<7x4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.gather_backward': result #0 must be tensor<7x4xf32>, got tensor<6x4xf32>
func.func @f(%a: tensor<3x4xf32>, %b: tensor<3xi32>) {
  %0 = rlx.gather_backward %a, %b {extent = 7} : (tensor<3x4xf32>, tensor<3xi32>) -> tensor<6x4xf32>
  func.return
}
