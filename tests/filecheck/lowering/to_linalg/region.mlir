// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// The body is cloned into one loop nest; the scalar constant is read where it is used.
func.func @region(%x: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xi1> {
  %c = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.elementwise_region(%x, %b, %c) : (tensor<4x6xf32>, tensor<6xf32>, tensor<f32>) -> tensor<4x6xi1> {
  ^bb0(%s: f32, %t: f32, %u: f32):
    %sum = rlx.binary add %s, %t : (f32, f32) -> f32
    %root = rlx.activation sqrt %sum : f32
    %above = rlx.compare gt %root, %u : (f32, f32) -> i1
    rlx.yield %above : i1
  }
  func.return %0 : tensor<4x6xi1>
}

// CHECK-LABEL: func.func @region
// CHECK-NEXT:  tensor.empty() : tensor<4x6xi1>
// CHECK-NEXT:  linalg.generic {{.*}} ins(%x, %b : tensor<4x6xf32>, tensor<6xf32>)
// CHECK-NEXT:  ^bb0([[s:%.*]]: f32, [[t:%.*]]: f32, {{%.*}}: i1):
// CHECK-NEXT:    [[u:%.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:    %sum = arith.addf [[s]], [[t]] : f32
// CHECK-NEXT:    %root = math.sqrt %sum : f32
// CHECK-NEXT:    %above = arith.cmpf ogt, %root, [[u]] : f32
// CHECK-NEXT:    linalg.yield %above : i1
// CHECK-NEXT:  } -> tensor<4x6xi1>
// CHECK-NEXT:  func.return

// The prologue repeats elements; no position is computed.
func.func @prologue(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x6x8xf32> {
  %0 = rlx.elementwise_region(%x) {prologue = "resize_nearest_2x"} : tensor<1x2x3x4xf32> -> tensor<1x2x6x8xf32> {
  ^bb0(%s: f32):
    %1 = rlx.activation exp %s : f32
    rlx.yield %1 : f32
  }
  func.return %0 : tensor<1x2x6x8xf32>
}

// CHECK-LABEL: func.func @prologue
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK:       tensor.collapse_shape {{.*}} [{{\[}}0 : i64], [1 : i64], [2 : i64, 3 : i64], [4 : i64, 5 : i64]] : tensor<1x2x3x2x4x2xf32> into tensor<1x2x6x8xf32>
// CHECK:       math.exp
