// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of running sums, products and extremes says.

// CHECK: error: 'rlx.cumulative': kind must be sum, prod, max or min, got mean
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.cumulative mean %x {axis = 0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.cumulative': axis 2 is outside rank 2
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.cumulative sum %x {axis = 2} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.cumulative': operand 'input' of max must have a float or integer element type, got complex<f32>
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.cumulative max %c {axis = 0} : tensor<2xcomplex<f32>>
  func.return
}

// -----

// CHECK: error: 'rlx.cumulative': operand 'input' of sum must have a float or integer element type, got i1
func.func @f(%t: tensor<2xi1>) {
  %0 = rlx.cumulative sum %t {axis = 0} : tensor<2xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.cumsum_backward': operand 'dy' must have a float element type, got i32
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.cumsum_backward %i {axis = 0} : tensor<3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.cumsum_backward': axis -3 is outside rank 2
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xcomplex<f32>>, %i: tensor<3xi32>, %z: tensor<0x2xf32>, %s: tensor<f32>) {
  %0 = rlx.cumsum_backward %x {axis = -3} : tensor<2x3xf32>
  func.return
}
