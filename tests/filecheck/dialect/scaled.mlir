// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Floats of few bits; the layout per_tensor and the blocks of 32 (mx_e8m0) and 16 (nvfp4) are defaults.

// CHECK-LABEL: func.func @scaled(
// CHECK-NEXT: %0 = rlx.scaled_quant_scale f8e4m3 %x : tensor<2x40xf32> -> tensor<1xf32>
// CHECK-NEXT: %1 = rlx.scaled_quant_scale f8e5m2 %x {scale_layout = mx_e8m0} : tensor<2x40xf32> -> tensor<2x2xui8>
// CHECK-NEXT: %2 = rlx.scaled_quant_scale f4e2m1 %d {scale_layout = nvfp4, block = 8} : tensor<?x?xbf16> -> tensor<?x?xui8>
// CHECK-NEXT: %3 = rlx.scaled_quantize f8e4m3fnuz %x, %s : (tensor<2x40xf32>, tensor<1xf32>) -> tensor<2x40xui8>
// CHECK-NEXT: %4 = rlx.scaled_quantize f6e2m3 %d, %n {scale_layout = mx_e8m0, block = 4} : (tensor<?x?xbf16>, tensor<?x?xui8>) -> tensor<?x?xui8>
// CHECK-NEXT: %5 = rlx.scaled_dequantize f6e3m2 %3, %m {scale_layout = mx_e8m0} : (tensor<2x40xui8>, tensor<2x2xui8>) -> tensor<2x40xf32>
// CHECK-NEXT: %6 = rlx.scaled_dequantize f8e5m2fnuz %n, %s : (tensor<?x?xui8>, tensor<1xf32>) -> tensor<?x?xf32>
// GENERIC-LABEL: sym_name = "scaled"
// GENERIC: %0 = "rlx.scaled_quant_scale"(%x) <{format = #rlx<scaled_format f8e4m3>, scale_layout = #rlx<scale_layout per_tensor>}> : (tensor<2x40xf32>) -> tensor<1xf32>
// GENERIC-NEXT: %1 = "rlx.scaled_quant_scale"(%x) <{format = #rlx<scaled_format f8e5m2>, scale_layout = #rlx<scale_layout mx_e8m0>}> : (tensor<2x40xf32>) -> tensor<2x2xui8>
// GENERIC-NEXT: %2 = "rlx.scaled_quant_scale"(%d) <{format = #rlx<scaled_format f4e2m1>, scale_layout = #rlx<scale_layout nvfp4>, block = 8 : i64}> : (tensor<?x?xbf16>) -> tensor<?x?xui8>
// GENERIC-NEXT: %3 = "rlx.scaled_quantize"(%x, %s) <{format = #rlx<scaled_format f8e4m3fnuz>, scale_layout = #rlx<scale_layout per_tensor>}> : (tensor<2x40xf32>, tensor<1xf32>) -> tensor<2x40xui8>
// GENERIC-NEXT: %4 = "rlx.scaled_quantize"(%d, %n) <{format = #rlx<scaled_format f6e2m3>, scale_layout = #rlx<scale_layout mx_e8m0>, block = 4 : i64}> : (tensor<?x?xbf16>, tensor<?x?xui8>) -> tensor<?x?xui8>
// GENERIC-NEXT: %5 = "rlx.scaled_dequantize"(%3, %m) <{format = #rlx<scaled_format f6e3m2>, scale_layout = #rlx<scale_layout mx_e8m0>}> : (tensor<2x40xui8>, tensor<2x2xui8>) -> tensor<2x40xf32>
// GENERIC-NEXT: %6 = "rlx.scaled_dequantize"(%n, %s) <{format = #rlx<scaled_format f8e5m2fnuz>, scale_layout = #rlx<scale_layout per_tensor>}> : (tensor<?x?xui8>, tensor<1xf32>) -> tensor<?x?xf32>
func.func @scaled(%x: tensor<2x40xf32>, %d: tensor<?x?xbf16>, %s: tensor<1xf32>, %m: tensor<2x2xui8>, %n: tensor<?x?xui8>) {
  %0 = rlx.scaled_quant_scale f8e4m3 %x : tensor<2x40xf32> -> tensor<1xf32>
  %1 = rlx.scaled_quant_scale f8e5m2 %x {scale_layout = mx_e8m0} : tensor<2x40xf32> -> tensor<2x2xui8>
  %2 = rlx.scaled_quant_scale f4e2m1 %d {scale_layout = nvfp4, block = 8} : tensor<?x?xbf16> -> tensor<?x?xui8>
  %3 = rlx.scaled_quantize f8e4m3fnuz %x, %s : (tensor<2x40xf32>, tensor<1xf32>) -> tensor<2x40xui8>
  %4 = rlx.scaled_quantize f6e2m3 %d, %n {scale_layout = mx_e8m0, block = 4} : (tensor<?x?xbf16>, tensor<?x?xui8>) -> tensor<?x?xui8>
  %5 = rlx.scaled_dequantize f6e3m2 %3, %m {scale_layout = mx_e8m0} : (tensor<2x40xui8>, tensor<2x2xui8>) -> tensor<2x40xf32>
  %6 = rlx.scaled_dequantize f8e5m2fnuz %n, %s : (tensor<?x?xui8>, tensor<1xf32>) -> tensor<?x?xf32>
  func.return
}

// CHECK-LABEL: func.func @scaled_matmul(
// CHECK-NEXT: %0 = rlx.scaled_matmul %l, %r, %s, %s {lhs_format = f8e4m3, rhs_format = f8e5m2} : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x5xf32>
// CHECK-NEXT: %1 = rlx.scaled_matmul %l, %r, %m, %n, %b {scale_layout = nvfp4, lhs_format = f4e2m1, rhs_format = f4e2m1} : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<?x3xui8>, tensor<5x3xui8>, tensor<5xf32>) -> tensor<?x5xf32>
// GENERIC-LABEL: sym_name = "scaled_matmul"
// GENERIC: %0 = "rlx.scaled_matmul"(%l, %r, %s, %s) <{lhs_format = #rlx<scaled_format f8e4m3>, rhs_format = #rlx<scaled_format f8e5m2>, scale_layout = #rlx<scale_layout per_tensor>}> : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x5xf32>
// GENERIC-NEXT: %1 = "rlx.scaled_matmul"(%l, %r, %m, %n, %b) <{scale_layout = #rlx<scale_layout nvfp4>, lhs_format = #rlx<scaled_format f4e2m1>, rhs_format = #rlx<scaled_format f4e2m1>}> : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<?x3xui8>, tensor<5x3xui8>, tensor<5xf32>) -> tensor<?x5xf32>
func.func @scaled_matmul(%l: tensor<?x40xi8>, %r: tensor<5x40xui8>, %s: tensor<1xf32>, %m: tensor<?x3xui8>, %n: tensor<5x3xui8>, %b: tensor<5xf32>) {
  %0 = rlx.scaled_matmul %l, %r, %s, %s {lhs_format = f8e4m3, rhs_format = f8e5m2} : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x5xf32>
  %1 = rlx.scaled_matmul %l, %r, %m, %n, %b {scale_layout = nvfp4, lhs_format = f4e2m1, rhs_format = f4e2m1} : (tensor<?x40xi8>, tensor<5x40xui8>, tensor<?x3xui8>, tensor<5x3xui8>, tensor<5xf32>) -> tensor<?x5xf32>
  func.return
}
