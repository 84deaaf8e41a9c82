// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// An infinity is filled in, never a dense constant; NaN propagates.
func.func @max(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %0 = rlx.reduce max %x {axes = [1, 2], keep_dim} : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  func.return %0 : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @max
// CHECK-NEXT:  [[low:%.*]] = arith.constant 0xff800000 : f32
// CHECK:       [[init:%.*]] = linalg.fill ins([[low]] : f32)
// CHECK-NEXT:  [[r:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs([[init]] : tensor<2xf32>)
// CHECK:         arith.maximumf
// CHECK:       tensor.expand_shape [[r]] {{.*}} : tensor<2xf32> into tensor<2x1x1xf32>

// The number of elements of a mean is computed where it is not known.
func.func @mean(%x: tensor<2x?xf16>) -> tensor<2xf16> {
  %0 = rlx.reduce mean %x {axes = [1]} : tensor<2x?xf16> -> tensor<2xf16>
  func.return %0 : tensor<2xf16>
}

// CHECK-LABEL: func.func @mean
// CHECK:       [[n:%.*]] = tensor.dim %x
// CHECK:       linalg.generic {{.*}} ins(%x : tensor<2x?xf16>) outs({{.*}} : tensor<2xf32>)
// CHECK:         [[i:%.*]] = arith.index_cast [[n]] : index to i64
// CHECK-NEXT:    [[c:%.*]] = arith.sitofp [[i]] : i64 to f32
// CHECK-NEXT:    arith.divf {{%.*}}, [[c]] : f32
// CHECK:       arith.truncf {{.*}} : f32 to f16

func.func @softmax(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = rlx.softmax %x : tensor<2x5xf32>
  func.return %0 : tensor<2x5xf32>
}

// CHECK-LABEL: func.func @softmax
// CHECK:       [[max:%.*]] = linalg.generic
// CHECK:         arith.maximumf
// CHECK:       [[e:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>]{{.*}} ins(%x, [[max]]
// CHECK:         arith.subf
// CHECK-NEXT:    math.exp
// CHECK:       [[sum:%.*]] = linalg.generic {{.*}} ins([[e]]
// CHECK:         arith.addf
// CHECK:       linalg.generic {{.*}} ins([[e]], [[sum]]
// CHECK:         arith.divf
