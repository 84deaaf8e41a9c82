// RUN: rlx-opt -p rlx-mark-elementwise-regions,rlx-fuse-region-prologue,rlx-fuse-batch-preprocess %s | filecheck %s

// Two slices of two images each, halved and resized.
// CHECK-LABEL: @images
// CHECK: [[R:%.*]] = rlx.batch_elementwise_region({{%.*}}, {{%.*}}) {prologue = "resize_nearest_2x"} : (tensor<2x3x4x4xf16>, tensor<2x3x4x4xf16>) -> tensor<4x3x8x8xf16> {
// CHECK: rlx.activation neg
// CHECK-NEXT: rlx.activation exp
// CHECK: }
// CHECK-NEXT: func.return [[R]]
func.func @images(%x: tensor<4x3x4x4xf16>) -> tensor<4x3x8x8xf16> {
  %0 = rlx.narrow %x {axis = 0, start = 0, len = 2} : tensor<4x3x4x4xf16> -> tensor<2x3x4x4xf16>
  %1 = rlx.narrow %x {axis = 0, start = 2, len = 2} : tensor<4x3x4x4xf16> -> tensor<2x3x4x4xf16>
  %2 = rlx.resize_nearest_2x %0 : tensor<2x3x4x4xf16> -> tensor<2x3x8x8xf16>
  %3 = rlx.resize_nearest_2x %1 : tensor<2x3x4x4xf16> -> tensor<2x3x8x8xf16>
  %4 = rlx.activation neg %2 : tensor<2x3x8x8xf16>
  %5 = rlx.activation neg %3 : tensor<2x3x8x8xf16>
  %6 = rlx.activation exp %4 : tensor<2x3x8x8xf16>
  %7 = rlx.activation exp %5 : tensor<2x3x8x8xf16>
  %8 = rlx.concat %6, %7 {axis = 0} : (tensor<2x3x8x8xf16>, tensor<2x3x8x8xf16>) -> tensor<4x3x8x8xf16>
  func.return %8 : tensor<4x3x8x8xf16>
}

// CHECK-LABEL: @other_order
// CHECK: rlx.concat
func.func @other_order(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.narrow %x {axis = 0, start = 0, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %1 = rlx.narrow %x {axis = 0, start = 1, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %2 = rlx.activation neg %0 : tensor<1x8xf32>
  %3 = rlx.activation neg %1 : tensor<1x8xf32>
  %4 = rlx.activation exp %2 : tensor<1x8xf32>
  %5 = rlx.activation exp %3 : tensor<1x8xf32>
  %6 = rlx.concat %5, %4 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  func.return %6 : tensor<2x8xf32>
}
