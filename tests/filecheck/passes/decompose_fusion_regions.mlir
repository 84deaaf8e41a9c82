// RUN: rlx-opt -p rlx-decompose-fusion-regions %s | filecheck %s
// RUN: rlx-opt -p rlx-decompose-fusion-regions,rlx-unfuse-elementwise-regions %s | filecheck %s --check-prefix=SIMPLE
// RUN: rlx-opt -p 'rlx-decompose-fusion-regions,rlx-unfuse-elementwise-regions{keep-prologue=true}' %s | filecheck %s --check-prefix=KEEP

// CHECK-LABEL: @transform
// CHECK-NEXT: [[A:%.*]] = rlx.resize_nearest_2x %x : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32>
// CHECK-NEXT: [[B:%.*]] = rlx.resize_nearest_2x [[A]] : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
// CHECK-NEXT: func.return [[B]]
func.func @transform(%x: tensor<1x3x2x2xf32>) -> tensor<1x3x8x8xf32> {
  %0 = rlx.transform_region %x {steps = ["resize_nearest_2x", "resize_nearest_2x"]} : tensor<1x3x2x2xf32> -> tensor<1x3x8x8xf32>
  func.return %0 : tensor<1x3x8x8xf32>
}

// Slices of two rows, of rank 3.
// CHECK-LABEL: @batch
// CHECK-NEXT: [[R:%.*]] = rlx.elementwise_region(%x) : tensor<2x3x8xf32> -> tensor<2x3x8xf32> {
// CHECK: [[S:%.*]] = rlx.elementwise_region(%y) : tensor<2x3x8xf32> -> tensor<2x3x8xf32> {
// CHECK: [[T:%.*]] = rlx.concat [[R]], [[S]] {axis = 0} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<4x3x8xf32>
// CHECK-NEXT: func.return [[T]]
// SIMPLE-LABEL: @batch
// SIMPLE-NEXT: rlx.activation relu %x : tensor<2x3x8xf32>
// SIMPLE-NEXT: rlx.activation relu %y : tensor<2x3x8xf32>
// SIMPLE-NEXT: rlx.concat
func.func @batch(%x: tensor<2x3x8xf32>, %y: tensor<2x3x8xf32>) -> tensor<4x3x8xf32> {
  %0 = rlx.batch_elementwise_region(%x, %y) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<4x3x8xf32> {
  ^bb0(%a: f32):
    %1 = rlx.activation relu %a : f32
    rlx.yield %1 : f32
  }
  func.return %0 : tensor<4x3x8xf32>
}

// CHECK-LABEL: @prologue
// CHECK-NEXT: rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32> {
// SIMPLE-LABEL: @prologue
// SIMPLE-NEXT: rlx.resize_nearest_2x %x
// SIMPLE-NEXT: rlx.activation relu
// SIMPLE-NEXT: rlx.resize_nearest_2x %y
// SIMPLE-NEXT: rlx.activation relu
// SIMPLE-NEXT: rlx.concat
// KEEP-LABEL: @prologue
// KEEP-NEXT: rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"}
func.func @prologue(%x: tensor<1x3x2x2xf32>, %y: tensor<1x3x2x2xf32>) -> tensor<2x3x4x4xf32> {
  %0 = rlx.batch_elementwise_region(%x, %y) {prologue = "resize_nearest_2x"} : (tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> tensor<2x3x4x4xf32> {
  ^bb0(%a: f32):
    %1 = rlx.activation relu %a : f32
    rlx.yield %1 : f32
  }
  func.return %0 : tensor<2x3x4x4xf32>
}

// CHECK-LABEL: @region
// CHECK-NEXT: rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"}
func.func @region(%x: tensor<1x3x2x2xf32>) -> tensor<1x3x4x4xf32> {
  %0 = rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32> {
  ^bb0(%a: f32):
    %1 = rlx.activation relu %a : f32
    rlx.yield %1 : f32
  }
  func.return %0 : tensor<1x3x4x4xf32>
}
