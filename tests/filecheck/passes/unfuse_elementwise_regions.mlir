// RUN: rlx-opt -p rlx-unfuse-elementwise-regions %s | filecheck %s
// RUN: rlx-opt -p 'rlx-unfuse-elementwise-regions{keep-prologue=true}' %s | filecheck %s --check-prefix=KEEP

// Each step has the shape of its operands, not of the region.
// CHECK-LABEL: @region
// CHECK-NEXT: [[A:%.*]] = rlx.activation exp %s : tensor<8xf32>
// CHECK-NEXT: [[B:%.*]] = rlx.binary mul %x, [[A]] : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[B]]
// KEEP-LABEL: @region
// KEEP-NEXT: rlx.activation exp %s
// KEEP-NEXT: rlx.binary mul
func.func @region(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = rlx.elementwise_region(%x, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    %1 = rlx.activation exp %b : f32
    %2 = rlx.binary mul %a, %1 : (f32, f32) -> f32
    rlx.yield %2 : f32
  }
  func.return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: @prologue
// CHECK-NEXT: [[R:%.*]] = rlx.resize_nearest_2x %x : tensor<1x3x4x5xf32> -> tensor<1x3x8x10xf32>
// CHECK-NEXT: rlx.activation relu [[R]] : tensor<1x3x8x10xf32>
// KEEP-LABEL: @prologue
// KEEP-NEXT: rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x3x4x5xf32> -> tensor<1x3x8x10xf32>
func.func @prologue(%x: tensor<1x3x4x5xf32>) -> tensor<1x3x8x10xf32> {
  %0 = rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x3x4x5xf32> -> tensor<1x3x8x10xf32> {
  ^bb0(%a: f32):
    %1 = rlx.activation relu %a : f32
    rlx.yield %1 : f32
  }
  func.return %0 : tensor<1x3x8x10xf32>
}
