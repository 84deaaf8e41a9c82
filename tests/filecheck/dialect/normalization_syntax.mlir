// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser says of a normalisation.

// CHECK: 'rlx.ada_layer_norm': 'group_norm' is none of layer_norm, rms_norm
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.ada_layer_norm group_norm %x, %x, %x {eps = 1.0e-5} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: 'rlx.layer_norm' has no property 'axis' (it has: eps)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.layer_norm %x, %x, %x {axis = -1, eps = 1.0e-5} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
