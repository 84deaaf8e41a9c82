// RUN: rlx-opt -p rlx-mark-transform-regions %s | filecheck %s

// CHECK-LABEL: @chain
// CHECK-NEXT: [[R:%.*]] = rlx.transform_region %x {steps = ["resize_nearest_2x", "resize_nearest_2x", "resize_nearest_2x"]} : tensor<?x3x2x2xf16> -> tensor<?x3x16x16xf16>
// CHECK-NEXT: func.return [[R]]
func.func @chain(%x: tensor<?x3x2x2xf16>) -> tensor<?x3x16x16xf16> {
  %0 = rlx.resize_nearest_2x %x : tensor<?x3x2x2xf16> -> tensor<?x3x4x4xf16>
  %1 = rlx.resize_nearest_2x %0 : tensor<?x3x4x4xf16> -> tensor<?x3x8x8xf16>
  %2 = rlx.resize_nearest_2x %1 : tensor<?x3x8x8xf16> -> tensor<?x3x16x16xf16>
  func.return %2 : tensor<?x3x16x16xf16>
}

// The last one is left to become the prologue of a region.
// CHECK-LABEL: @before_activation
// CHECK-NEXT: [[R:%.*]] = rlx.transform_region %x {steps = ["resize_nearest_2x"]} : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32>
// CHECK-NEXT: [[S:%.*]] = rlx.resize_nearest_2x [[R]]
// CHECK-NEXT: rlx.activation relu [[S]]
func.func @before_activation(%x: tensor<1x3x2x2xf32>) -> tensor<1x3x8x8xf32> {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32>
  %1 = rlx.resize_nearest_2x %0 : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
  %2 = rlx.activation relu %1 : tensor<1x3x8x8xf32>
  func.return %2 : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: @returned
// CHECK-NEXT: [[R:%.*]] = rlx.transform_region %x {steps = ["resize_nearest_2x"]}
// CHECK-NEXT: [[S:%.*]] = rlx.transform_region [[R]] {steps = ["resize_nearest_2x"]}
// CHECK-NEXT: func.return [[S]], [[R]]
func.func @returned(%x: tensor<1x3x2x2xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x4x4xf32>) {
  %0 = rlx.resize_nearest_2x %x : tensor<1x3x2x2xf32> -> tensor<1x3x4x4xf32>
  %1 = rlx.resize_nearest_2x %0 : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
  func.return %1, %0 : tensor<1x3x8x8xf32>, tensor<1x3x4x4xf32>
}
