// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// A negative index counts from the end.
func.func @embedding(%table: tensor<100x8xf32>, %ids: tensor<?x5xi32>) -> tensor<?x5x8xf32> {
  %0 = rlx.gather %table, %ids : (tensor<100x8xf32>, tensor<?x5xi32>) -> tensor<?x5x8xf32>
  func.return %0 : tensor<?x5x8xf32>
}

// CHECK-LABEL: func.func @embedding
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]{{.*}} ins(%ids
// CHECK:         [[lane:%.*]] = linalg.index 2
// CHECK-NEXT:    [[place:%.*]] = arith.index_cast {{%.*}} : i32 to index
// CHECK-NEXT:    [[extent:%.*]] = arith.constant 100 : index
// CHECK-NEXT:    [[end:%.*]] = arith.addi [[place]], [[extent]]
// CHECK:         [[negative:%.*]] = arith.cmpi slt, [[place]]
// CHECK-NEXT:    [[row:%.*]] = arith.select [[negative]], [[end]], [[place]]
// CHECK-NEXT:    tensor.extract %table{{\[}}[[row]], [[lane]]]

func.func @cache(%cache: tensor<2x16x4xf32>, %new: tensor<2x1x4xf32>) -> tensor<2x16x4xf32> {
  %0 = rlx.kv_append %cache, %new {axis = 1, pos = 7} : (tensor<2x16x4xf32>, tensor<2x1x4xf32>) -> tensor<2x16x4xf32>
  func.return %0 : tensor<2x16x4xf32>
}

// CHECK-LABEL: func.func @cache
// CHECK-NEXT:  tensor.insert_slice %new into %cache[0, 7, 0] [2, 1, 4] [1, 1, 1]
