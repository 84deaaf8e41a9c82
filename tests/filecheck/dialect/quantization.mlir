// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Integer quantisation; the scale mode per_batch, the ste identity and one group are defaults.

// CHECK-LABEL: func.func @quantize(
// CHECK-NEXT: %0 = rlx.quantize %x {scales = [0.5], zero_points = [3]} : tensor<2x3xf32> -> tensor<2x3xi8>
// CHECK-NEXT: %1 = rlx.quantize %d {axis = 1, scales = [0.1, 2.0, 1.0e-5], zero_points = [0, -128, 127]} : tensor<?x3xbf16> -> tensor<?x3xi8>
// CHECK-NEXT: %2 = rlx.quantize %x {scales = [1.0], zero_points = [255]} : tensor<2x3xf32> -> tensor<2x3xui8>
// CHECK-NEXT: %3 = rlx.dequantize %q {axis = 0, scales = [0.5, 0.25], zero_points = [1, -1]} : tensor<2x3xi8> -> tensor<2x3xf32>
// CHECK-NEXT: %4 = rlx.dequantize %u {scales = [0.5], zero_points = [128]} : tensor<4x?xui8> -> tensor<4x?xf16>
// GENERIC-LABEL: sym_name = "quantize"
// GENERIC: %0 = "rlx.quantize"(%x) <{scales = array<f64: 5.000000e-01>, zero_points = array<i64: 3>}> : (tensor<2x3xf32>) -> tensor<2x3xi8>
// GENERIC-NEXT: %1 = "rlx.quantize"(%d) <{axis = 1 : i64, scales = array<f64: 1.000000e-01, 2.000000e+00, 1.000000e-05>, zero_points = array<i64: 0, -128, 127>}> : (tensor<?x3xbf16>) -> tensor<?x3xi8>
// GENERIC-NEXT: %2 = "rlx.quantize"(%x) <{scales = array<f64: 1.000000e+00>, zero_points = array<i64: 255>}> : (tensor<2x3xf32>) -> tensor<2x3xui8>
// GENERIC-NEXT: %3 = "rlx.dequantize"(%q) <{axis = 0 : i64, scales = array<f64: 5.000000e-01, 2.500000e-01>, zero_points = array<i64: 1, -1>}> : (tensor<2x3xi8>) -> tensor<2x3xf32>
// GENERIC-NEXT: %4 = "rlx.dequantize"(%u) <{scales = array<f64: 5.000000e-01>, zero_points = array<i64: 128>}> : (tensor<4x?xui8>) -> tensor<4x?xf16>
func.func @quantize(%x: tensor<2x3xf32>, %d: tensor<?x3xbf16>, %q: tensor<2x3xi8>, %u: tensor<4x?xui8>) {
  %0 = rlx.quantize %x {scales = [0.5], zero_points = [3]} : tensor<2x3xf32> -> tensor<2x3xi8>
  %1 = rlx.quantize %d {axis = 1, scales = [0.1, 2.0, 1.0e-5], zero_points = [0, -128, 127]} : tensor<?x3xbf16> -> tensor<?x3xi8>
  %2 = rlx.quantize %x {scales = [1.0], zero_points = [255]} : tensor<2x3xf32> -> tensor<2x3xui8>
  %3 = rlx.dequantize %q {axis = 0, scales = [0.5, 0.25], zero_points = [1, -1]} : tensor<2x3xi8> -> tensor<2x3xf32>
  %4 = rlx.dequantize %u {scales = [0.5], zero_points = [128]} : tensor<4x?xui8> -> tensor<4x?xf16>
  func.return
}

// CHECK-LABEL: func.func @fake_quantize(
// CHECK-NEXT: %0 = rlx.fake_quantize %x {bits = 8} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: %1 = rlx.fake_quantize fixed %d, %c {axis = 1, bits = 4, ste = tanh} : (tensor<?x3xbf16>, tensor<3xbf16>) -> tensor<?x3xbf16>
// CHECK-NEXT: %2 = rlx.fake_quantize ema %x, %s {bits = 2, decay = 0.99, ste = hard_tanh} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %3, %4 = rlx.fake_quantize ema %d, %c {axis = 1, bits = 8, decay = 0.5, ste = clipped_identity} : (tensor<?x3xbf16>, tensor<3xbf16>) -> (tensor<?x3xbf16>, tensor<3xbf16>)
// GENERIC-LABEL: sym_name = "fake_quantize"
// GENERIC: %0 = "rlx.fake_quantize"(%x) <{bits = 8 : i64, scale_mode = #rlx<scale_mode per_batch>, ste = #rlx<ste identity>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %1 = "rlx.fake_quantize"(%d, %c) <{scale_mode = #rlx<scale_mode fixed>, axis = 1 : i64, bits = 4 : i64, ste = #rlx<ste tanh>}> : (tensor<?x3xbf16>, tensor<3xbf16>) -> tensor<?x3xbf16>
// GENERIC-NEXT: %2 = "rlx.fake_quantize"(%x, %s) <{scale_mode = #rlx<scale_mode ema>, bits = 2 : i64, decay = 9.900000e-01 : f64, ste = #rlx<ste hard_tanh>}> : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
// GENERIC-NEXT: %3, %4 = "rlx.fake_quantize"(%d, %c) <{scale_mode = #rlx<scale_mode ema>, axis = 1 : i64, bits = 8 : i64, decay = 5.000000e-01 : f64, ste = #rlx<ste clipped_identity>}> : (tensor<?x3xbf16>, tensor<3xbf16>) -> (tensor<?x3xbf16>, tensor<3xbf16>)
func.func @fake_quantize(%x: tensor<2x3xf32>, %s: tensor<1xf32>, %d: tensor<?x3xbf16>, %c: tensor<3xbf16>) {
  %0 = rlx.fake_quantize %x {bits = 8} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = rlx.fake_quantize fixed %d, %c {axis = 1, bits = 4, ste = tanh} : (tensor<?x3xbf16>, tensor<3xbf16>) -> tensor<?x3xbf16>
  %2 = rlx.fake_quantize ema %x, %s {bits = 2, decay = 0.99, ste = hard_tanh} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %3, %4 = rlx.fake_quantize ema %d, %c {axis = 1, bits = 8, decay = 0.5, ste = clipped_identity} : (tensor<?x3xbf16>, tensor<3xbf16>) -> (tensor<?x3xbf16>, tensor<3xbf16>)
  func.return
}

// CHECK-LABEL: func.func @products(
// CHECK-NEXT: %0 = rlx.q_matmul %x, %w, %b {x_zp = 1, w_zp = 0, out_zp = -3, mult = 0.015625} : (tensor<?x4xi8>, tensor<4x5xi8>, tensor<5xi32>) -> tensor<?x5xi8>
// CHECK-NEXT: %1 = rlx.q_conv2d %i, %k, %c {kernel_size = [3, 3], padding = [1, 1], stride = [2, 2], groups = 2, x_zp = 1, w_zp = 0, out_zp = -3, mult = 0.25} : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x4xi8>
// GENERIC-LABEL: sym_name = "products"
// GENERIC: %0 = "rlx.q_matmul"(%x, %w, %b) <{x_zp = 1 : i64, w_zp = 0 : i64, out_zp = -3 : i64, mult = 1.562500e-02 : f64}> : (tensor<?x4xi8>, tensor<4x5xi8>, tensor<5xi32>) -> tensor<?x5xi8>
// GENERIC-NEXT: %1 = "rlx.q_conv2d"(%i, %k, %c) <{kernel_size = array<i64: 3, 3>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, groups = 2 : i64, x_zp = 1 : i64, w_zp = 0 : i64, out_zp = -3 : i64, mult = 2.500000e-01 : f64}> : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x4xi8>
func.func @products(%x: tensor<?x4xi8>, %w: tensor<4x5xi8>, %b: tensor<5xi32>, %i: tensor<1x4x8x8xi8>, %k: tensor<6x2x3x3xi8>, %c: tensor<6xi32>) {
  %0 = rlx.q_matmul %x, %w, %b {x_zp = 1, w_zp = 0, out_zp = -3, mult = 0.015625} : (tensor<?x4xi8>, tensor<4x5xi8>, tensor<5xi32>) -> tensor<?x5xi8>
  %1 = rlx.q_conv2d %i, %k, %c {kernel_size = [3, 3], padding = [1, 1], stride = [2, 2], groups = 2, x_zp = 1, w_zp = 0, out_zp = -3, mult = 0.25} : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x4xi8>
  func.return
}

// CHECK-LABEL: func.func @dequant_matmul(
// CHECK-NEXT: %0 = rlx.dequant_matmul int8_block %x, %w, %s {block_size = 2} : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %1 = rlx.dequant_matmul int8_block_asym %x, %w, %s, %s {block_size = 2} : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
// GENERIC-LABEL: sym_name = "dequant_matmul"
// GENERIC: %0 = "rlx.dequant_matmul"(%x, %w, %s) <{scheme = #rlx<quant_scheme int8_block>, block_size = 2 : i64}> : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<?x4xf32>
// GENERIC-NEXT: %1 = "rlx.dequant_matmul"(%x, %w, %s, %s) <{scheme = #rlx<quant_scheme int8_block_asym>, block_size = 2 : i64}> : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
func.func @dequant_matmul(%x: tensor<?x5xf16>, %w: tensor<5x4xi8>, %s: tensor<3x4xf32>) {
  %0 = rlx.dequant_matmul int8_block %x, %w, %s {block_size = 2} : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>) -> tensor<?x4xf32>
  %1 = rlx.dequant_matmul int8_block_asym %x, %w, %s, %s {block_size = 2} : (tensor<?x5xf16>, tensor<5x4xi8>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
  func.return
}
