// RUN: rlx-opt -p rlx-lower-to-stablehlo %s | filecheck %s
// RUN: rlx-opt -p "rlx-lower-to-stablehlo{precision=default}" %s | filecheck %s --check-prefix=FAST

// A linear layer is one product without batches; bf16 is summed in f32 and rounded once, at the end.
func.func @linear(%x: tensor<4x3x8xbf16>, %w: tensor<8x5xbf16>, %b: tensor<5xbf16>) -> tensor<4x3x5xbf16> {
  %0 = rlx.fused_matmul_bias_act relu %x, %w, %b : (tensor<4x3x8xbf16>, tensor<8x5xbf16>, tensor<5xbf16>) -> tensor<4x3x5xbf16>
  func.return %0 : tensor<4x3x5xbf16>
}

// CHECK-LABEL: func.func @linear
// CHECK:      [[p:%.*]] = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x3x8xbf16>, tensor<8x5xbf16>) -> tensor<4x3x5xf32>
// CHECK:      [[b:%.*]] = "stablehlo.convert"(%b) : (tensor<5xbf16>) -> tensor<5xf32>
// CHECK:      [[s:%.*]] = "stablehlo.add"([[p]], {{.*}}) : (tensor<4x3x5xf32>
// CHECK:      [[y:%.*]] = "stablehlo.maximum"([[s]]
// CHECK-NEXT: [[n:%.*]] = "stablehlo.convert"([[y]]) : (tensor<4x3x5xf32>) -> tensor<4x3x5xbf16>
// CHECK-NEXT: func.return [[n]]
// FAST:       precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]

func.func @batches(%a: tensor<1x4x5xf32>, %b: tensor<2x5x6xf32>) -> tensor<2x4x6xf32> {
  %0 = rlx.matmul %a, %b : (tensor<1x4x5xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return %0 : tensor<2x4x6xf32>
}

// CHECK-LABEL: func.func @batches
// CHECK-NEXT:  [[a:%.*]] = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x4x5xf32>) -> tensor<2x4x5xf32>
// CHECK-NEXT:  "stablehlo.dot_general"([[a]], %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>

func.func @conv(%x: tensor<1x4x9x9xf16>, %w: tensor<8x2x3x3xf16>) -> tensor<1x8x4x5xf16> {
  %0 = rlx.conv %x, %w {kernel_size = [3, 3], stride = [2, 2], padding = [0, 1], groups = 2} : (tensor<1x4x9x9xf16>, tensor<8x2x3x3xf16>) -> tensor<1x8x4x5xf16>
  func.return %0 : tensor<1x8x4x5xf16>
}

// CHECK-LABEL: func.func @conv
// CHECK-NEXT:  [[y:%.*]] = "stablehlo.convolution"(%x, %w) <{window_strides = array<i64: 2, 2>, padding = dense<{{\[\[}}0, 0], [1, 1]]> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64
// CHECK-SAME:  : (tensor<1x4x9x9xf16>, tensor<8x2x3x3xf16>) -> tensor<1x8x4x5xf32>
// CHECK-NEXT:  "stablehlo.convert"([[y]])
