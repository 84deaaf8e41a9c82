// RUN: rlx-opt -p rlx-canonicalize-ops %s | filecheck %s

// CHECK-LABEL: @halves
// CHECK: [[C:%.*]] = rlx.activation cos
// CHECK: [[S:%.*]] = rlx.activation sin
// CHECK: [[Y:%.*]] = rlx.rope %x, [[C]], [[S]] {head_dim = 4, layout = bhsd} : (tensor<2x3x5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @halves(%x: tensor<2x3x5x4xf32>, %t: tensor<5x2xf32>) -> tensor<2x3x5x4xf32> {
  %0 = rlx.concat %t, %t {axis = 1} : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x4xf32>
  %1 = rlx.activation cos %0 : tensor<5x4xf32>
  %2 = rlx.activation sin %0 : tensor<5x4xf32>
  %3 = rlx.narrow %x {axis = 3, start = 0, len = 2} : tensor<2x3x5x4xf32> -> tensor<2x3x5x2xf32>
  %4 = rlx.narrow %x {axis = 3, start = 2, len = 2} : tensor<2x3x5x4xf32> -> tensor<2x3x5x2xf32>
  %5 = rlx.activation neg %4 : tensor<2x3x5x2xf32>
  %6 = rlx.concat %5, %3 {axis = 3} : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x4xf32>
  %7 = rlx.binary mul %6, %2 : (tensor<2x3x5x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %8 = rlx.binary mul %x, %1 : (tensor<2x3x5x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %9 = rlx.binary add %7, %8 : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  func.return %9 : tensor<2x3x5x4xf32>
}

// Nothing is known of the tables: the lanes of a pair may turn by different angles.
// CHECK-LABEL: @any_tables
// CHECK-NOT: rlx.rope
// CHECK: func.return
func.func @any_tables(%x: tensor<2x3x5x4xf32>, %c: tensor<5x4xf32>, %s: tensor<5x4xf32>) -> tensor<2x3x5x4xf32> {
  %3 = rlx.narrow %x {axis = 3, start = 0, len = 2} : tensor<2x3x5x4xf32> -> tensor<2x3x5x2xf32>
  %4 = rlx.narrow %x {axis = 3, start = 2, len = 2} : tensor<2x3x5x4xf32> -> tensor<2x3x5x2xf32>
  %5 = rlx.activation neg %4 : tensor<2x3x5x2xf32>
  %6 = rlx.concat %5, %3 {axis = 3} : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x4xf32>
  %7 = rlx.binary mul %6, %s : (tensor<2x3x5x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %8 = rlx.binary mul %x, %c : (tensor<2x3x5x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %9 = rlx.binary add %8, %7 : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  func.return %9 : tensor<2x3x5x4xf32>
}
