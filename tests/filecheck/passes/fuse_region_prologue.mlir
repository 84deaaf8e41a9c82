// RUN: rlx-opt -p rlx-fuse-region-prologue %s | filecheck %s

// CHECK-LABEL: @activation
// CHECK-NEXT: [[R:%.*]] = rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32> {
// CHECK-NEXT: ^bb0([[A:%.*]]: f32):
// CHECK-NEXT: [[B:%.*]] = rlx.activation relu [[A]] : f32
// CHECK-NEXT: rlx.yield [[B]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: func.return [[R]]
func.func @activation(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32> {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
  %1 = rlx.activation relu %0 : tensor<1x3x16x16xf32>
  func.return %1 : tensor<1x3x16x16xf32>
}

// The resized operand comes first.
// CHECK-LABEL: @swapped
// CHECK-NEXT: rlx.elementwise_region(%x, %y) {prologue = "resize_nearest_2x"} : (tensor<1x3x8x8xf32>, tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xf32> {
// CHECK-NEXT: ^bb0([[B:%.*]]: f32, [[A:%.*]]: f32):
// CHECK-NEXT: rlx.binary sub [[A]], [[B]] : (f32, f32) -> f32
func.func @swapped(%x: tensor<1x3x8x8xf32>, %y: tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xf32> {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
  %1 = rlx.elementwise_region(%y, %0) : (tensor<1x3x16x16xf32>, tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %2 = rlx.binary sub %a, %b : (f32, f32) -> f32
    rlx.yield %2 : f32
  }
  func.return %1 : tensor<1x3x16x16xf32>
}

// The resized operand is broadcast along the batch.
// CHECK-LABEL: @broadcast
// CHECK-NEXT: [[A:%.*]] = rlx.resize_nearest_2x %x
// CHECK-NEXT: rlx.elementwise_region(%y, [[A]]) : (tensor<2x3x16x16xf32>, tensor<1x3x16x16xf32>)
func.func @broadcast(%x: tensor<1x3x8x8xf32>, %y: tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32> {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
  %1 = rlx.elementwise_region(%y, %0) : (tensor<2x3x16x16xf32>, tensor<1x3x16x16xf32>) -> tensor<2x3x16x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %2 = rlx.binary sub %a, %b : (f32, f32) -> f32
    rlx.yield %2 : f32
  }
  func.return %1 : tensor<2x3x16x16xf32>
}

// A region does not evaluate softplus.
// CHECK-LABEL: @softplus
// CHECK-NEXT: rlx.resize_nearest_2x
// CHECK-NEXT: rlx.activation softplus
func.func @softplus(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32> {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
  %1 = rlx.activation softplus %0 : tensor<1x3x16x16xf32>
  func.return %1 : tensor<1x3x16x16xf32>
}
