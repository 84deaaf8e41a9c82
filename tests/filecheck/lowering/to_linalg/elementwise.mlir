// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

func.func @broadcast(%x: tensor<4x1x5xf32> {rlx.input = "x"}, %b: tensor<3x5xf32> {rlx.param = "b"}) -> tensor<4x3x5xf32> {
  %y = rlx.binary add %x, %b : (tensor<4x1x5xf32>, tensor<3x5xf32>) -> tensor<4x3x5xf32>
  func.return %y : tensor<4x3x5xf32>
}

// CHECK-LABEL: func.func @broadcast(%x: tensor<4x1x5xf32> {rlx.input = "x"}, %b: tensor<3x5xf32> {rlx.param = "b"})
// CHECK:       [[init:%.*]] = tensor.empty() : tensor<4x3x5xf32>
// CHECK-NEXT:  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, 0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %b : tensor<4x1x5xf32>, tensor<3x5xf32>) outs([[init]] : tensor<4x3x5xf32>)
// CHECK-NEXT:  ^bb0([[l:%.*]]: f32, [[r:%.*]]: f32, {{%.*}}: f32):
// CHECK-NEXT:    [[s:%.*]] = arith.addf [[l]], [[r]] : f32
// CHECK-NEXT:    linalg.yield [[s]] : f32
// CHECK-NEXT:  } -> tensor<4x3x5xf32>
// CHECK-NEXT:  func.return %y

// Dynamic extents are asked for once; a constant with one value is part of the body.
func.func @dynamic(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %low = rlx.constant dense<0xFF800000> : tensor<f32>
  %0 = rlx.binary max %x, %low : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %1 = rlx.activation silu %0 : tensor<?x8xf32>
  func.return %1 : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @dynamic
// CHECK:       [[n:%.*]] = tensor.dim %x
// CHECK-NEXT:  tensor.empty([[n]])
// CHECK-NEXT:  linalg.generic {{.*}} ins(%x : tensor<?x8xf32>)
// CHECK-NEXT:  ^bb0([[e:%.*]]: f32, {{.*}}):
// CHECK-NEXT:    [[c:%.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:    arith.maximumf [[e]], [[c]]
// CHECK-NOT:   tensor.dim
// CHECK:       tensor.empty([[n]])
// CHECK:         arith.negf
// CHECK-NEXT:    math.exp
// CHECK:         arith.divf
// CHECK-NEXT:    arith.mulf

// f16 is computed in f32 and rounded after each operation; a comparison with NaN is false.
func.func @narrow(%x: tensor<6xf16>, %y: tensor<6xf16>) -> (tensor<6xf16>, tensor<6xi1>) {
  %0 = rlx.fma %x, %y, %x : (tensor<6xf16>, tensor<6xf16>, tensor<6xf16>) -> tensor<6xf16>
  %1 = rlx.compare le %0, %y : (tensor<6xf16>, tensor<6xf16>) -> tensor<6xi1>
  func.return %0, %1 : tensor<6xf16>, tensor<6xi1>
}

// CHECK-LABEL: func.func @narrow
// CHECK:       arith.extf
// CHECK-NEXT:  arith.extf
// CHECK-NEXT:  arith.extf
// CHECK-NEXT:  [[w:%.*]] = math.fma {{.*}} : f32
// CHECK-NEXT:  [[h:%.*]] = arith.truncf [[w]] : f32 to f16
// CHECK-NEXT:  linalg.yield [[h]] : f16
// CHECK:       arith.cmpf ole, {{.*}} : f32

// Unsigned integers lose their sign and leave a mark; division by zero is 0.
func.func @unsigned(%x: tensor<6xui8>, %y: tensor<6xui8>) -> tensor<6xui8> {
  %0 = rlx.binary div %x, %y : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  func.return %0 : tensor<6xui8>
}

// CHECK-LABEL: func.func @unsigned(%x: tensor<6xi8> {rlx.unsigned}, %y: tensor<6xi8> {rlx.unsigned}) -> (tensor<6xi8> {rlx.unsigned})
// CHECK:       [[zero:%.*]] = arith.cmpi eq
// CHECK:       [[safe:%.*]] = arith.select [[zero]]
// CHECK-NEXT:  [[q:%.*]] = arith.divui {{%.*}}, [[safe]] : i8
// CHECK-NEXT:  arith.select [[zero]], {{%.*}}, [[q]] : i8
