// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of sorting, extremes and histograms says.

// CHECK: error: 'rlx.sort': axis 2 is outside rank 2
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.sort %x {axis = 2} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.sort': operand 'input' must be real, got complex<f32>
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.sort %c : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>
  func.return
}

// -----

// CHECK: error: 'rlx.sort': result #0 must be tensor<2x3xf32>, got tensor<3x2xf32>
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.sort %x : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.argsort': indices must have an integer element type, got f32
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.argsort %x : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.argsort': axis -1 is outside rank 0
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.argsort %s : tensor<f32> -> tensor<i64>
  func.return
}

// -----

// CHECK: error: 'rlx.top_k': k 4 must be 0 to the last extent of operand 'input', got 2x3
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.top_k %x {k = 4} : tensor<2x3xf32> -> tensor<2x4xi64>
  func.return
}

// -----

// CHECK: error: 'rlx.top_k': k -1 must be 0 to the last extent of operand 'input', got 2x3
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.top_k %x {k = -1} : tensor<2x3xf32> -> tensor<2x4xi64>
  func.return
}

// -----

// CHECK: error: 'rlx.top_k': indices must have an integer element type, got i1
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.top_k %x {k = 1} : tensor<2x3xf32> -> tensor<2x1xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.arg_reduce': kind must be max or min, got sum
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.arg_reduce sum %x {axis = 0} : tensor<2x3xf32> -> tensor<3xi64>
  func.return
}

// -----

// CHECK: error: 'rlx.arg_reduce': axis 0 of operand 'input' must not be empty, got 0x2
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.arg_reduce max %z {axis = 0} : tensor<0x2xf32> -> tensor<2xi64>
  func.return
}

// -----

// CHECK: error: 'rlx.histogram': operand 'input' must have a float element type, got i32
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.histogram %i {bins = 2, min = 0.0, max = 1.0} : tensor<3xi32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.histogram': bins must be positive, got 0
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.histogram %x {bins = 0, min = 0.0, max = 1.0} : tensor<2x3xf32> -> tensor<0xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.histogram': min 1.0 must be below max 1.0
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.histogram %x {bins = 2, min = 1.0, max = 1.0} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}
