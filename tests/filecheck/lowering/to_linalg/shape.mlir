// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// A reshape that keeps a dynamic batch is one view.
func.func @reshape(%x: tensor<?x4x6xf32>) -> (tensor<?x24xf32>, tensor<?x2x2x6xf32>) {
  %0 = rlx.reshape %x {new_shape = [-1, 24]} : tensor<?x4x6xf32> -> tensor<?x24xf32>
  %1 = rlx.reshape %x {new_shape = [-1, 2, 2, 6]} : tensor<?x4x6xf32> -> tensor<?x2x2x6xf32>
  func.return %0, %1 : tensor<?x24xf32>, tensor<?x2x2x6xf32>
}

// CHECK-LABEL: func.func @reshape
// CHECK-NEXT:  arith.constant
// CHECK-NEXT:  [[n:%.*]] = tensor.dim %x
// CHECK-NEXT:  tensor.collapse_shape %x [{{\[}}0 : i64], [1 : i64, 2 : i64]] : tensor<?x4x6xf32> into tensor<?x24xf32>
// CHECK-NEXT:  tensor.expand_shape %x {{\[\[}}0 : i64], [1 : i64, 2 : i64], [3 : i64]] output_shape {{\[}}[[n]], 2, 2, 6] : tensor<?x4x6xf32> into tensor<?x2x2x6xf32>
// CHECK-NEXT:  func.return

func.func @slices(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  %0 = rlx.narrow %x {axis = 1, start = 3, len = 2} : tensor<4x6xf32> -> tensor<4x2xf32>
  %1 = rlx.slice %x {axis = 1, start = 1, len = 3, step = 2} : tensor<4x6xf32> -> tensor<4x3xf32>
  %2 = rlx.slice %x {axis = 1, start = 5, len = 3, step = -2} : tensor<4x6xf32> -> tensor<4x3xf32>
  func.return %0, %1, %2 : tensor<4x2xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// CHECK-LABEL: func.func @slices
// CHECK-NEXT:  tensor.extract_slice %x[0, 3] [4, 2] [1, 1]
// CHECK:       linalg.generic
// CHECK:         [[row:%.*]] = linalg.index 0
// CHECK-NEXT:    [[column:%.*]] = linalg.index 1
// CHECK:         [[steps:%.*]] = arith.muli [[column]], {{%.*}}
// CHECK:         [[from:%.*]] = arith.addi [[steps]], {{%.*}}
// CHECK-NEXT:    tensor.extract %x{{\[}}[[row]], [[from]]]
// CHECK:       linalg.generic
// CHECK:         tensor.extract %x{{\[}}

func.func @join(%x: tensor<?x2xf32>, %y: tensor<?x3xf32>) -> (tensor<?x5xf32>, tensor<?x2xf32>) {
  %0 = rlx.concat %x, %y {axis = 1} : (tensor<?x2xf32>, tensor<?x3xf32>) -> tensor<?x5xf32>
  %1 = rlx.concat %x, %x {axis = 0} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %0, %1 : tensor<?x5xf32>, tensor<?x2xf32>
}

// CHECK-LABEL: func.func @join
// CHECK-NEXT:  tensor.concat dim(1) %x, %y : (tensor<?x2xf32>, tensor<?x3xf32>) -> tensor<?x5xf32>
// CHECK-NEXT:  tensor.concat dim(0) %x, %x

func.func @repeat(%x: tensor<2x3xf32>, %v: tensor<3x1xf32>) -> (tensor<4x3xf32>, tensor<2x3x5xf32>, tensor<3x2xf32>) {
  %0 = rlx.tile %x {reps = [2, 1]} : tensor<2x3xf32> -> tensor<4x3xf32>
  %1 = rlx.expand %v {shape = [2, 3, 5]} : tensor<3x1xf32> -> tensor<2x3x5xf32>
  %2 = rlx.transpose %x {perm = [1, 0]} : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return %0, %1, %2 : tensor<4x3xf32>, tensor<2x3x5xf32>, tensor<3x2xf32>
}

// CHECK-LABEL: func.func @repeat
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK:       tensor.collapse_shape {{.*}} : tensor<2x2x3xf32> into tensor<4x3xf32>
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, 0)>
// CHECK:       linalg.transpose ins(%x:tensor<2x3xf32>)

func.func @pad(%x: tensor<4x6xf32>) -> (tensor<5x5xf32>, tensor<6x6xf32>) {
  %0 = rlx.pad %x {pads = [1, -1, 0, 0], value = -inf} : tensor<4x6xf32> -> tensor<5x5xf32>
  %1 = rlx.pad reflect %x {pads = [2, 0, 0, 0]} : tensor<4x6xf32> -> tensor<6x6xf32>
  func.return %0, %1 : tensor<5x5xf32>, tensor<6x6xf32>
}

// CHECK-LABEL: func.func @pad
// CHECK-NEXT:  [[kept:%.*]] = tensor.extract_slice %x[0, 1] [4, 5] [1, 1]
// CHECK-NEXT:  [[inf:%.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:  tensor.pad [[kept]] low[1, 0] high[0, 0]
// CHECK:         tensor.yield [[inf]] : f32
// CHECK:       linalg.generic
// CHECK:         tensor.extract %x
