// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// Channels are last in the loops; padding comes first.
func.func @conv(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x5x5xf32> {
  %0 = rlx.conv %x, %w {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x5x5xf32>
  func.return %0 : tensor<1x6x5x5xf32>
}

// CHECK-LABEL: func.func @conv
// CHECK:       [[last:%.*]] = linalg.transpose ins(%x:tensor<1x4x9x9xf32>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK:       [[padded:%.*]] = tensor.pad [[last]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK:       [[y:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, ((d1 * 2) + d4), ((d2 * 2) + d5), d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins([[padded]]
// CHECK:       linalg.transpose ins([[y]]:tensor<1x5x5x6xf32>) {{.*}} permutation = [0, 3, 1, 2]

// A depthwise convolution has no loop over the channels of a group.
func.func @depthwise(%x: tensor<1x4x9x9xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x7x7xf32> {
  %0 = rlx.conv %x, %w {kernel_size = [3, 3], groups = 4} : (tensor<1x4x9x9xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x7x7xf32>
  func.return %0 : tensor<1x4x7x7xf32>
}

// CHECK-LABEL: func.func @depthwise
// CHECK:       affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, (d1 + d4), (d2 + d5), d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5, d3)>

// A window of one element is no window: what the stride leaves, contracted over channels.
func.func @pointwise(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x1x1xf32>) -> tensor<1x6x5x5xf32> {
  %0 = rlx.conv %x, %w {kernel_size = [1, 1], stride = [2, 2]} : (tensor<1x4x9x9xf32>, tensor<6x4x1x1xf32>) -> tensor<1x6x5x5xf32>
  func.return %0 : tensor<1x6x5x5xf32>
}

// CHECK-LABEL: func.func @pointwise
// CHECK-NEXT:  [[left:%.*]] = tensor.extract_slice %x[0, 0, 0, 0] [1, 4, 5, 5] [1, 1, 2, 2]
// CHECK-NEXT:  [[weight:%.*]] = tensor.collapse_shape %w {{.*}} into tensor<6x4xf32>
// CHECK:       linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins([[left]], [[weight]]

// A mean counts elements, not padding.
func.func @pool(%x: tensor<1x4x5xf32>) -> tensor<1x4x3xf32> {
  %0 = rlx.pool mean %x {kernel_size = [3], stride = [2], padding = [1]} : tensor<1x4x5xf32> -> tensor<1x4x3xf32>
  func.return %0 : tensor<1x4x3xf32>
}

// CHECK-LABEL: func.func @pool
// CHECK:       tensor.pad %x low[0, 0, 1] high[0, 0, 1]
// CHECK:       [[sums:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, ((d2 * 2) + d3))>, affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK:       [[counts:%.*]] = arith.constant dense<[2.000000e+00, 3.000000e+00, 2.000000e+00]> : tensor<3xf32>
// CHECK:       linalg.generic {{.*}} ins([[sums]], [[counts]]
