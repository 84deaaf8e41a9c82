// RUN: rlx-opt -p rlx-fuse-ada-layer-norm %s | filecheck %s
// RUN: rlx-opt -p 'rlx-fuse-ada-layer-norm{strict=true}' %s | filecheck %s --check-prefix=STRICT

// CHECK-LABEL: @one_plus_scale
// CHECK-NEXT: [[Y:%.*]] = rlx.ada_layer_norm %x, %scale, %shift {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: func.return [[Y]]
// STRICT-LABEL: @one_plus_scale
// STRICT-NEXT: rlx.ada_layer_norm %x, %scale, %shift
func.func @one_plus_scale(%x: tensor<2x3x8xf32>, %scale: tensor<2x1x8xf32>, %shift: tensor<2x1x8xf32>) -> tensor<2x3x8xf32> {
  %g = rlx.constant dense<1.0> : tensor<8xf32>
  %b = rlx.constant dense<0.0> : tensor<8xf32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-6} : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %1 = rlx.binary add %one, %scale : (tensor<f32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
  %2 = rlx.binary mul %0, %1 : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  %3 = rlx.binary add %2, %shift : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  func.return %3 : tensor<2x3x8xf32>
}

// The other form, of an RMS norm; it changes the order of operations. A reshape of the condition stays.
// CHECK-LABEL: @norm_plus_scaled
// CHECK-NEXT: [[C:%.*]] = rlx.reshape %scale {new_shape = [2, 1, 8]}
// CHECK-NEXT: [[Y:%.*]] = rlx.ada_layer_norm rms_norm %x, [[C]], %shift {eps = 1.0e-6}
// CHECK-NEXT: func.return [[Y]]
// STRICT-LABEL: @norm_plus_scaled
// STRICT: rlx.rms_norm
func.func @norm_plus_scaled(%x: tensor<2x2x8xf32>, %scale: tensor<2x8xf32>, %shift: tensor<8xf32>) -> tensor<2x2x8xf32> {
  %g = rlx.constant dense<1.0> : tensor<8xf32>
  %b = rlx.constant dense<0.0> : tensor<8xf32>
  %0 = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<2x2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x2x8xf32>
  %1 = rlx.reshape %scale {new_shape = [2, 1, 8]} : tensor<2x8xf32> -> tensor<2x1x8xf32>
  %2 = rlx.binary mul %1, %0 : (tensor<2x1x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
  %3 = rlx.binary add %2, %0 : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
  %4 = rlx.binary add %shift, %3 : (tensor<8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
  func.return %4 : tensor<2x2x8xf32>
}

// What is expanded is taken from before; ones that others use stay.
// CHECK-LABEL: @shared_ones
// CHECK-NEXT: [[G:%.*]] = rlx.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK-NEXT: [[Y:%.*]] = rlx.ada_layer_norm %x, %scale, %scale
// CHECK-NEXT: func.return [[Y]], [[G]]
func.func @shared_ones(%x: tensor<3x8xf32>, %scale: tensor<1x8xf32>) -> (tensor<3x8xf32>, tensor<8xf32>) {
  %g = rlx.constant dense<1.0> : tensor<8xf32>
  %b = rlx.constant dense<0.0> : tensor<8xf32>
  %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-6} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %1 = rlx.expand %scale {shape = [3, 8]} : tensor<1x8xf32> -> tensor<3x8xf32>
  %2 = rlx.binary add %1, %g : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %3 = rlx.binary mul %2, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = rlx.binary add %1, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  func.return %4, %g : tensor<3x8xf32>, tensor<8xf32>
}

// A norm with weights of its own.
// CHECK-LABEL: @weights
// CHECK-NOT: rlx.ada_layer_norm
func.func @weights(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %scale: tensor<8xf32>) -> tensor<3x8xf32> {
  %b = rlx.constant dense<0.0> : tensor<8xf32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.layer_norm %x, %g, %b {eps = 1.0e-6} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %1 = rlx.binary add %scale, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = rlx.binary mul %0, %1 : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %3 = rlx.binary add %2, %scale : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  func.return %3 : tensor<3x8xf32>
}
