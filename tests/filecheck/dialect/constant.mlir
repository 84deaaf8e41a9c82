// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Constants: every element type, splat, empty and raw.

// CHECK-LABEL: func.func @finite(
// GENERIC-LABEL: sym_name = "finite"
// CHECK-NEXT: %0 = rlx.constant dense<[1.000000e+00, -2.500000e+00]> : tensor<2xf32>
// CHECK-NEXT: %1 = rlx.constant dense<{{\[\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
// CHECK-NEXT: %2 = rlx.constant dense<3.000000e+00> : tensor<f64>
// CHECK-NEXT: %3 = rlx.constant dense<[-1, 127]> : tensor<2xi8>
// CHECK-NEXT: %4 = rlx.constant dense<[0, 255]> : tensor<2xui8>
// CHECK-NEXT: %5 = rlx.constant dense<7> : tensor<index>
// CHECK-NEXT: %6 = rlx.constant dense<[9.997560e-02, 6.550400e+04]> : tensor<2xf16>
// CHECK-NEXT: %7 = rlx.constant dense<[1.000000e+00, 1.000980e-01]> : tensor<2xbf16>
// CHECK-NEXT: %8 = rlx.constant dense<[(1.000000e+00,2.000000e+00), (0.000000e+00,-1.000000e+00)]> : tensor<2xcomplex<f32>>
// CHECK-NEXT: %9 = rlx.constant dense<[true, false, true]> : tensor<3xi1>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<[1.000000e+00, -2.500000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
// GENERIC-NEXT: %1 = "rlx.constant"() <{value = dense<{{\[\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>}> : () -> tensor<2x3xi64>
// GENERIC-NEXT: %2 = "rlx.constant"() <{value = dense<3.000000e+00> : tensor<f64>}> : () -> tensor<f64>
// GENERIC-NEXT: %3 = "rlx.constant"() <{value = dense<[-1, 127]> : tensor<2xi8>}> : () -> tensor<2xi8>
// GENERIC-NEXT: %4 = "rlx.constant"() <{value = dense<[0, 255]> : tensor<2xui8>}> : () -> tensor<2xui8>
// GENERIC-NEXT: %5 = "rlx.constant"() <{value = dense<7> : tensor<index>}> : () -> tensor<index>
// GENERIC-NEXT: %6 = "rlx.constant"() <{value = dense<[9.997560e-02, 6.550400e+04]> : tensor<2xf16>}> : () -> tensor<2xf16>
// GENERIC-NEXT: %7 = "rlx.constant"() <{value = dense<[1.000000e+00, 1.000980e-01]> : tensor<2xbf16>}> : () -> tensor<2xbf16>
// GENERIC-NEXT: %8 = "rlx.constant"() <{value = dense<[(1.000000e+00,2.000000e+00), (0.000000e+00,-1.000000e+00)]> : tensor<2xcomplex<f32>>}> : () -> tensor<2xcomplex<f32>>
// GENERIC-NEXT: %9 = "rlx.constant"() <{value = dense<[true, false, true]> : tensor<3xi1>}> : () -> tensor<3xi1>
func.func @finite() {
  %0 = rlx.constant dense<[1.000000e+00, -2.500000e+00]> : tensor<2xf32>
  %1 = rlx.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %2 = rlx.constant dense<3.000000e+00> : tensor<f64>
  %3 = rlx.constant dense<[-1, 127]> : tensor<2xi8>
  %4 = rlx.constant dense<[0, 255]> : tensor<2xui8>
  %5 = rlx.constant dense<7> : tensor<index>
  %6 = rlx.constant dense<[1.000000e-01, 65504.0]> : tensor<2xf16>
  %7 = rlx.constant dense<[1.000000e+00, 1.000980e-01]> : tensor<2xbf16>
  %8 = rlx.constant dense<[(1.000000e+00,2.000000e+00), (0.000000e+00,-1.000000e+00)]> : tensor<2xcomplex<f32>>
  %9 = rlx.constant dense<[true, false, true]> : tensor<3xi1>
  func.return
}

// CHECK-LABEL: func.func @splat(
// GENERIC-LABEL: sym_name = "splat"
// CHECK-NEXT: %0 = rlx.constant dense<1.500000e+00> : tensor<2x3xbf16>
// CHECK-NEXT: %1 = rlx.constant dense<true> : tensor<5xi1>
// CHECK-NEXT: %2 = rlx.constant dense<-4> : tensor<1x1xi32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<1.500000e+00> : tensor<2x3xbf16>}> : () -> tensor<2x3xbf16>
// GENERIC-NEXT: %1 = "rlx.constant"() <{value = dense<true> : tensor<5xi1>}> : () -> tensor<5xi1>
// GENERIC-NEXT: %2 = "rlx.constant"() <{value = dense<-4> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
func.func @splat() {
  %0 = rlx.constant dense<1.500000e+00> : tensor<2x3xbf16>
  %1 = rlx.constant dense<true> : tensor<5xi1>
  %2 = rlx.constant dense<-4> : tensor<1x1xi32>
  func.return
}

// CHECK-LABEL: func.func @empty(
// GENERIC-LABEL: sym_name = "empty"
// CHECK-NEXT: %0 = rlx.constant dense<> : tensor<0x3xf32>
// CHECK-NEXT: %1 = rlx.constant dense<1.000000e+00> : tensor<10x3xf32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<> : tensor<0x3xf32>}> : () -> tensor<0x3xf32>
// GENERIC-NEXT: %1 = "rlx.constant"() <{value = dense<1.000000e+00> : tensor<10x3xf32>}> : () -> tensor<10x3xf32>
func.func @empty() {
  %0 = rlx.constant dense<> : tensor<0x3xf32>
  %1 = rlx.constant dense<1.000000e+00> : tensor<10x3xf32>
  func.return
}

// Infinities, NaN and whole numbers that a decimal of nine digits does not hold are written raw.
// CHECK-LABEL: func.func @raw(
// GENERIC-LABEL: sym_name = "raw"
// CHECK-NEXT: %0 = rlx.constant dense<"0x0000807F000080FF0000C07F"> : tensor<3xf32>
// CHECK-NEXT: %1 = rlx.constant dense<"0x807F80FF"> : tensor<2xbf16>
// CHECK-NEXT: %2 = rlx.constant dense<"0x007C007E"> : tensor<2xf16>
// CHECK-NEXT: %3 = rlx.constant dense<"0x000000000000F0FF000000000000F07F"> : tensor<2xf64>
// CHECK-NEXT: %4 = rlx.constant dense<"0x0000807F0000C07F"> : tensor<complex<f32>>
// CHECK-NEXT: %5 = rlx.constant dense<"0x0100804B0000803F"> : tensor<2xf32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<[0x7f800000, 0xff800000, 0x7fc00000]> : tensor<3xf32>}> : () -> tensor<3xf32>
// GENERIC-NEXT: %1 = "rlx.constant"() <{value = dense<[0x7f80, 0xff80]> : tensor<2xbf16>}> : () -> tensor<2xbf16>
// GENERIC-NEXT: %2 = "rlx.constant"() <{value = dense<[0x7c00, 0x7e00]> : tensor<2xf16>}> : () -> tensor<2xf16>
// GENERIC-NEXT: %3 = "rlx.constant"() <{value = dense<[0xfff0000000000000, 0x7ff0000000000000]> : tensor<2xf64>}> : () -> tensor<2xf64>
// GENERIC-NEXT: %4 = "rlx.constant"() <{value = dense<(0x7f800000,0x7fc00000)> : tensor<complex<f32>>}> : () -> tensor<complex<f32>>
// GENERIC-NEXT: %5 = "rlx.constant"() <{value = dense<[0x4B800001, 1.000000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
func.func @raw() {
  %0 = rlx.constant dense<"0x0000807F000080FF0000C07F"> : tensor<3xf32>
  %1 = rlx.constant dense<"0x807F80FF"> : tensor<2xbf16>
  %2 = rlx.constant dense<"0x007C007E"> : tensor<2xf16>
  %3 = rlx.constant dense<"0x000000000000F0FF000000000000F07F"> : tensor<2xf64>
  %4 = rlx.constant dense<"0x0000807F0000C07F"> : tensor<complex<f32>>
  %5 = rlx.constant dense<"0x0100804B0000803F"> : tensor<2xf32>
  func.return
}

// A hex number in a list of floats is a bit pattern, as in MLIR.
// CHECK-LABEL: func.func @hex(
// GENERIC-LABEL: sym_name = "hex"
// CHECK-NEXT: %0 = rlx.constant dense<"0x0000807F0000803F"> : tensor<2xf32>
// CHECK-NEXT: %1 = rlx.constant dense<"0x80FF80FF80FF"> : tensor<3xbf16>
// CHECK-NEXT: %2 = rlx.constant dense<[127, 128]> : tensor<2xi16>
// CHECK-NEXT: %3 = rlx.constant dense<"0x0100804B00000040"> : tensor<2xf32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<[0x7f800000, 1.000000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
// GENERIC-NEXT: %1 = "rlx.constant"() <{value = dense<0xff80> : tensor<3xbf16>}> : () -> tensor<3xbf16>
// GENERIC-NEXT: %2 = "rlx.constant"() <{value = dense<[127, 128]> : tensor<2xi16>}> : () -> tensor<2xi16>
// GENERIC-NEXT: %3 = "rlx.constant"() <{value = dense<[0x4B800001, 2.000000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
func.func @hex() {
  %0 = rlx.constant dense<[0x7F800000, 0x3F800000]> : tensor<2xf32>
  %1 = rlx.constant dense<0xFF80> : tensor<3xbf16>
  %2 = rlx.constant dense<[0x7F, 0x80]> : tensor<2xi16>
  %3 = rlx.constant dense<[0x4B800001, 2.0]> : tensor<2xf32>
  func.return
}

// CHECK-LABEL: func.func @attributes(
// GENERIC-LABEL: sym_name = "attributes"
// CHECK-NEXT: %0 = rlx.constant {note.from = "file"} dense<1> : tensor<i32>
// GENERIC-NEXT: %0 = "rlx.constant"() <{value = dense<1> : tensor<i32>}> {note.from = "file"} : () -> tensor<i32>
func.func @attributes() {
  %0 = rlx.constant {note.from = "file"} dense<1> : tensor<i32>
  func.return
}
