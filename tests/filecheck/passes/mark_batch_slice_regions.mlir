// RUN: rlx-opt -p rlx-mark-batch-slice-regions %s | filecheck %s
// RUN: rlx-opt -p rlx-mark-batch-slice-regions,rlx-fuse-batch-preprocess %s | filecheck %s --check-prefix=FUSED
// RUN: rlx-opt -p rlx-mark-batch-slice-regions,rlx-fuse-batch-preprocess,rlx-decompose-fusion-regions %s | filecheck %s

// CHECK-LABEL: @halves
// CHECK-NEXT: [[A:%.*]] = rlx.narrow %x {axis = 0, start = 0, len = 1}
// CHECK-NEXT: [[B:%.*]] = rlx.narrow %x {axis = 0, start = 1, len = 1}
// CHECK-NEXT: [[R:%.*]] = rlx.elementwise_region([[A]]) : tensor<1x8xf32> -> tensor<1x8xf32> {
// CHECK-NEXT: ^bb0([[X:%.*]]: f32):
// CHECK-NEXT: [[Y:%.*]] = rlx.activation relu [[X]] : f32
// CHECK-NEXT: rlx.yield [[Y]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: [[S:%.*]] = rlx.elementwise_region([[B]])
// CHECK: rlx.concat [[R]], [[S]] {axis = 0}
// FUSED-LABEL: @halves
// FUSED-NEXT: [[A:%.*]] = rlx.narrow %x {axis = 0, start = 0, len = 1}
// FUSED-NEXT: [[B:%.*]] = rlx.narrow %x {axis = 0, start = 1, len = 1}
// FUSED-NEXT: [[R:%.*]] = rlx.batch_elementwise_region([[A]], [[B]]) : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32> {
// FUSED-NEXT: ^bb0([[X:%.*]]: f32):
// FUSED-NEXT: [[Y:%.*]] = rlx.activation relu [[X]] : f32
// FUSED-NEXT: rlx.yield [[Y]] : f32
// FUSED-NEXT: }
// FUSED-NEXT: func.return [[R]]
func.func @halves(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.narrow %x {axis = 0, start = 0, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %1 = rlx.narrow %x {axis = 0, start = 1, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %2 = rlx.activation relu %0 : tensor<1x8xf32>
  %3 = rlx.activation relu %1 : tensor<1x8xf32>
  %4 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  func.return %4 : tensor<2x8xf32>
}

// CHECK-LABEL: @other_activation
// CHECK: rlx.activation relu
// CHECK-NEXT: rlx.activation sigmoid
// FUSED-LABEL: @other_activation
// FUSED: rlx.concat
func.func @other_activation(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = rlx.narrow %x {axis = 0, start = 0, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %1 = rlx.narrow %x {axis = 0, start = 1, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
  %2 = rlx.activation relu %0 : tensor<1x8xf32>
  %3 = rlx.activation sigmoid %1 : tensor<1x8xf32>
  %4 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  func.return %4 : tensor<2x8xf32>
}
