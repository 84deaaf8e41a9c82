// RUN: rlx-opt -p rlx-lower-to-stablehlo %s | filecheck %s

// What is static stays so; XLA folds what is computed of extents once it knows the shapes of the inputs.
func.func @main(%x: tensor<?x4xf32>, %b: tensor<?x1xf32>) -> tensor<?xf32> {
  %0 = rlx.binary add %x, %b : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %1 = rlx.reshape %0 {new_shape = [-1]} : tensor<?x4xf32> -> tensor<?xf32>
  func.return %1 : tensor<?xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:      [[x:%.*]] = "stablehlo.get_dimension_size"(%x) <{dimension = 0 : i64}> : (tensor<?x4xf32>) -> tensor<i32>
// CHECK:      [[b:%.*]] = "stablehlo.get_dimension_size"(%b)
// CHECK:      [[one:%.*]] = "stablehlo.compare"([[x]]
// CHECK:      [[n:%.*]] = "stablehlo.select"([[one]], [[b]], [[x]])
// CHECK:      "stablehlo.dynamic_broadcast_in_dim"(%x, {{.*}}) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
// CHECK:      [[sum:%.*]] = "stablehlo.add"
// CHECK:      [[count:%.*]] = "stablehlo.multiply"({{.*}}[[n]]) : (tensor<i32>, tensor<i32>) -> tensor<i32>
// CHECK-NEXT: [[shape:%.*]] = "stablehlo.reshape"([[count]]) : (tensor<i32>) -> tensor<1xi32>
// CHECK-NEXT: "stablehlo.dynamic_reshape"([[sum]], [[shape]]) : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>

// An index becomes i64, and a negative one counts from the end.
func.func @index(%table: tensor<5x?xf32>, %i: tensor<3xindex>) -> tensor<3x?xf32> {
  %0 = rlx.gather %table, %i : (tensor<5x?xf32>, tensor<3xindex>) -> tensor<3x?xf32>
  func.return %0 : tensor<3x?xf32>
}

// CHECK-LABEL: func.func @index(%table: tensor<5x?xf32>, %i: tensor<3xi64>)
// CHECK:      [[end:%.*]] = "stablehlo.add"(%i, {{.*}}) : (tensor<3xi64>
// CHECK:      [[at:%.*]] = "stablehlo.select"({{.*}}, [[end]], %i)
// CHECK:      "stablehlo.dynamic_gather"(%table, [[at]], {{.*}}) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
