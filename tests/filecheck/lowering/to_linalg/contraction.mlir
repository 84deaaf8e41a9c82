// RUN: rlx-opt -p rlx-lower-to-linalg %s | filecheck %s

// A linear layer on rows in any number of axes is one matrix product; bias and activation follow in one loop nest.
func.func @linear(%x: tensor<?x3x8xf32>, %w: tensor<8x5xf32>, %b: tensor<5xf32>) -> tensor<?x3x5xf32> {
  %0 = rlx.fused_matmul_bias_act relu %x, %w, %b : (tensor<?x3x8xf32>, tensor<8x5xf32>, tensor<5xf32>) -> tensor<?x3x5xf32>
  func.return %0 : tensor<?x3x5xf32>
}

// CHECK-LABEL: func.func @linear
// CHECK:       [[n:%.*]] = tensor.dim %x
// CHECK:       [[rows:%.*]] = arith.muli [[n]]
// CHECK-NEXT:  [[flat:%.*]] = tensor.collapse_shape %x {{.*}} : tensor<?x3x8xf32> into tensor<?x8xf32>
// CHECK:       [[zero:%.*]] = arith.constant 0.000000e+00 : f32
// CHECK:       [[init:%.*]] = linalg.fill ins([[zero]] : f32)
// CHECK-NEXT:  [[p:%.*]] = linalg.matmul ins([[flat]], %w : tensor<?x8xf32>, tensor<8x5xf32>) outs([[init]] : tensor<?x5xf32>) -> tensor<?x5xf32>
// CHECK-NEXT:  [[back:%.*]] = tensor.expand_shape [[p]] {{.*}} : tensor<?x5xf32> into tensor<?x3x5xf32>
// CHECK:       linalg.generic {{.*}} ins([[back]], %b : tensor<?x3x5xf32>, tensor<5xf32>)
// CHECK:         arith.addf
// CHECK:         arith.maximumf
// CHECK-NOT:   linalg.generic

// Batches are a contraction; a batch axis of extent 1 is left out, not read by a constant map.
func.func @batches(%a: tensor<1x4x5xf32>, %b: tensor<2x5x6xf32>) -> tensor<2x4x6xf32> {
  %0 = rlx.matmul %a, %b : (tensor<1x4x5xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return %0 : tensor<2x4x6xf32>
}

// CHECK-LABEL: func.func @batches
// CHECK-NEXT:  [[a:%.*]] = tensor.collapse_shape %a {{.*}} : tensor<1x4x5xf32> into tensor<4x5xf32>
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins([[a]], %b

// bf16 is summed in f32 and rounded once.
func.func @narrow(%a: tensor<4x5xbf16>, %b: tensor<5x6xbf16>, %r: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
  %0 = rlx.fused_matmul_residual %a, %b, %r : (tensor<4x5xbf16>, tensor<5x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  func.return %0 : tensor<4x6xbf16>
}

// CHECK-LABEL: func.func @narrow
// CHECK:       linalg.generic {{.*}} ins(%a, %b : tensor<4x5xbf16>, tensor<5x6xbf16>) outs({{.*}} : tensor<4x6xf32>)
// CHECK-NOT:   arith.truncf
// CHECK:       linalg.generic {{.*}} outs({{.*}} : tensor<4x6xbf16>)
// CHECK:         arith.extf
// CHECK-NEXT:    arith.addf {{.*}} : f32
// CHECK-NEXT:    arith.truncf

func.func @dot_general(%a: tensor<2x7x4xf32>, %b: tensor<3x4x2xf32>) -> tensor<2x7x3xf32> {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [2], rhs_contracting = [1], lhs_batch = [0], rhs_batch = [2]} : (tensor<2x7x4xf32>, tensor<3x4x2xf32>) -> tensor<2x7x3xf32>
  func.return %0 : tensor<2x7x3xf32>
}

// CHECK-LABEL: func.func @dot_general
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>]

func.func @swiglu(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %0 = rlx.fused_swiglu %x {gate_first} : tensor<2x8xf32> -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @swiglu
// CHECK-NEXT:  [[low:%.*]] = tensor.extract_slice %x[0, 0] [2, 4] [1, 1]
// CHECK-NEXT:  [[high:%.*]] = tensor.extract_slice %x[0, 4] [2, 4] [1, 1]
// CHECK:       linalg.generic {{.*}} ins([[high]], [[low]]
