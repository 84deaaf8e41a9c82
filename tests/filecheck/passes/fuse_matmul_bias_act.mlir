// RUN: rlx-opt -p rlx-fuse-matmul-bias-act %s | filecheck %s
// RUN: rlx-opt -p 'rlx-fuse-matmul-bias-act{epilogues=relu,gelu}' %s | filecheck %s --check-prefix=RELU

// CHECK-LABEL: @gelu
// CHECK-SAME: {rlx.input = "x"}
// CHECK-SAME: {rlx.param = "w"}
// CHECK-SAME: {rlx.param = "bias"}
// CHECK-NEXT: [[Y:%.*]] = rlx.fused_matmul_bias_act gelu %x, %w, %bias : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: func.return [[Y]]
func.func @gelu(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"},
                %bias: tensor<16xf32> {rlx.param = "bias"}) -> tensor<4x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation gelu %1 : tensor<4x16xf32>
  func.return %2 : tensor<4x16xf32>
}

// The bias is fused, an activation that the kernel does not have stays.
// CHECK-LABEL: @relu
// CHECK-NEXT: [[SUM:%.*]] = rlx.fused_matmul_bias_act %x, %w, %bias
// CHECK-NEXT: rlx.activation relu [[SUM]]
// RELU-LABEL: @relu
// RELU-NEXT: rlx.fused_matmul_bias_act relu %x, %w, %bias
// RELU-NEXT: func.return
func.func @relu(%x: tensor<2x4x8xf16>, %w: tensor<8x16xf16>, %bias: tensor<16xf16>) -> tensor<2x4x16xf16> {
  %0 = rlx.matmul %x, %w : (tensor<2x4x8xf16>, tensor<8x16xf16>) -> tensor<2x4x16xf16>
  %1 = rlx.binary add %bias, %0 : (tensor<16xf16>, tensor<2x4x16xf16>) -> tensor<2x4x16xf16>
  %2 = rlx.activation relu %1 : tensor<2x4x16xf16>
  func.return %2 : tensor<2x4x16xf16>
}

// A row becomes a vector.
// CHECK-LABEL: @row
// CHECK-NEXT: [[B:%.*]] = rlx.reshape %bias {new_shape = [16]} : tensor<1x16xf32> -> tensor<16xf32>
// CHECK-NEXT: rlx.fused_matmul_bias_act %x, %w, [[B]] : (tensor<?x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
func.func @row(%x: tensor<?x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<1x16xf32>) -> tensor<?x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %1 = rlx.binary add %0, %bias : (tensor<?x16xf32>, tensor<1x16xf32>) -> tensor<?x16xf32>
  func.return %1 : tensor<?x16xf32>
}

// A column is no bias, also when the product is square.
// CHECK-LABEL: @column
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.binary add
// CHECK-NEXT: func.return
func.func @column(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %bias: tensor<8x1xf32>) -> tensor<8x8xf32> {
  %0 = rlx.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = rlx.binary add %0, %bias : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %1 : tensor<8x8xf32>
}

// The sum is returned: the bias is fused, gelu is not.
// CHECK-LABEL: @sum_returned
// CHECK-NEXT: [[SUM:%.*]] = rlx.fused_matmul_bias_act %x, %w, %bias
// CHECK-NEXT: [[GELU:%.*]] = rlx.activation gelu [[SUM]]
// CHECK-NEXT: func.return [[GELU]], [[SUM]]
func.func @sum_returned(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation gelu %1 : tensor<4x16xf32>
  func.return %2, %1 : tensor<4x16xf32>, tensor<4x16xf32>
}

// The product is returned: nothing is fused.
// CHECK-LABEL: @product_returned
// CHECK-NEXT: rlx.matmul
// CHECK-NEXT: rlx.binary add
// CHECK-NEXT: func.return
func.func @product_returned(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  func.return %0, %1 : tensor<4x16xf32>, tensor<4x16xf32>
}
