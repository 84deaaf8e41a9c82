// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Regions: element-wise operations on scalars in a body of their own.

// CHECK-LABEL: func.func @elementwise_region(
// GENERIC-LABEL: sym_name = "elementwise_region"
// CHECK-NEXT: %0 = rlx.elementwise_region(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT: ^bb0(%s: f32, %t: f32):
// CHECK-NEXT: %u = rlx.binary add %s, %t : (f32, f32) -> f32
// CHECK-NEXT: %v = rlx.activation relu %u : f32
// CHECK-NEXT: rlx.yield %v : f32
// CHECK-NEXT: }
// GENERIC-NEXT: ^bb0(%a: tensor<4x8xf32>, %b: tensor<8xf32>):
// GENERIC-NEXT: %0 = "rlx.elementwise_region"(%a, %b) ({
// GENERIC-NEXT: ^bb0(%s: f32, %t: f32):
// GENERIC-NEXT: %u = "rlx.binary"(%s, %t) <{kind = #rlx<binary add>}> : (f32, f32) -> f32
// GENERIC-NEXT: %v = "rlx.activation"(%u) <{kind = #rlx<activation relu>}> : (f32) -> f32
// GENERIC-NEXT: "rlx.yield"(%v) : (f32) -> ()
// GENERIC-NEXT: }) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @elementwise_region(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = rlx.elementwise_region(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32, %t: f32):
    %u = rlx.binary add %s, %t : (f32, f32) -> f32
    %v = rlx.activation relu %u : f32
    rlx.yield %v : f32
  }
  func.return
}

// CHECK-LABEL: func.func @every_kind_of_step(
// GENERIC-LABEL: sym_name = "every_kind_of_step"
// CHECK-NEXT: %0 = rlx.elementwise_region(%x, %y, %n) : (tensor<2x?xf32>, tensor<f32>, tensor<1xi32>) -> tensor<2x?xbf16> {
// CHECK-NEXT: ^bb0(%a: f32, %b: f32, %i: i32):
// CHECK-NEXT: %c = rlx.cast %i : i32 -> f32
// CHECK-NEXT: %d = rlx.fma %a, %b, %c : (f32, f32, f32) -> f32
// CHECK-NEXT: %e = rlx.compare lt %d, %a : (f32, f32) -> i1
// CHECK-NEXT: %f = rlx.where %e, %d, %b : (i1, f32, f32) -> f32
// CHECK-NEXT: %g = rlx.clamp %f {min = -1.0, max = 1.0} : f32
// CHECK-NEXT: %h = rlx.stop_gradient %g : f32
// CHECK-NEXT: %j = rlx.cast %h : f32 -> bf16
// CHECK-NEXT: rlx.yield %j : bf16
// CHECK-NEXT: }
// GENERIC-NEXT: ^bb0(%x: tensor<2x?xf32>, %y: tensor<f32>, %n: tensor<1xi32>):
// GENERIC-NEXT: %0 = "rlx.elementwise_region"(%x, %y, %n) ({
// GENERIC-NEXT: ^bb0(%a: f32, %b: f32, %i: i32):
// GENERIC-NEXT: %c = "rlx.cast"(%i) : (i32) -> f32
// GENERIC-NEXT: %d = "rlx.fma"(%a, %b, %c) : (f32, f32, f32) -> f32
// GENERIC-NEXT: %e = "rlx.compare"(%d, %a) <{kind = #rlx<compare lt>}> : (f32, f32) -> i1
// GENERIC-NEXT: %f = "rlx.where"(%e, %d, %b) : (i1, f32, f32) -> f32
// GENERIC-NEXT: %g = "rlx.clamp"(%f) <{min = -1.000000e+00 : f64, max = 1.000000e+00 : f64}> : (f32) -> f32
// GENERIC-NEXT: %h = "rlx.stop_gradient"(%g) : (f32) -> f32
// GENERIC-NEXT: %j = "rlx.cast"(%h) : (f32) -> bf16
// GENERIC-NEXT: "rlx.yield"(%j) : (bf16) -> ()
// GENERIC-NEXT: }) : (tensor<2x?xf32>, tensor<f32>, tensor<1xi32>) -> tensor<2x?xbf16>
func.func @every_kind_of_step(%x: tensor<2x?xf32>, %y: tensor<f32>, %n: tensor<1xi32>) {
  %0 = rlx.elementwise_region(%x, %y, %n) : (tensor<2x?xf32>, tensor<f32>, tensor<1xi32>) -> tensor<2x?xbf16> {
  ^bb0(%a: f32, %b: f32, %i: i32):
    %c = rlx.cast %i : i32 -> f32
    %d = rlx.fma %a, %b, %c : (f32, f32, f32) -> f32
    %e = rlx.compare lt %d, %a : (f32, f32) -> i1
    %f = rlx.where %e, %d, %b : (i1, f32, f32) -> f32
    %g = rlx.clamp %f {min = -1.0, max = 1.0} : f32
    %h = rlx.stop_gradient %g : f32
    %j = rlx.cast %h : f32 -> bf16
    rlx.yield %j : bf16
  }
  func.return
}

// CHECK-LABEL: func.func @prologue(
// GENERIC-LABEL: sym_name = "prologue"
// CHECK-NEXT: %0 = rlx.elementwise_region(%x, %y) {prologue = "resize_nearest_2x"} : (tensor<1x3x4x5xf16>, tensor<1x3x8x10xf16>) -> tensor<1x3x8x10xf16> {
// CHECK-NEXT: ^bb0(%a: f16, %b: f16):
// CHECK-NEXT: %c = rlx.binary add %a, %b : (f16, f16) -> f16
// CHECK-NEXT: rlx.yield %c : f16
// CHECK-NEXT: }
// GENERIC-NEXT: ^bb0(%x: tensor<1x3x4x5xf16>, %y: tensor<1x3x8x10xf16>):
// GENERIC-NEXT: %0 = "rlx.elementwise_region"(%x, %y) <{prologue = "resize_nearest_2x"}> ({
// GENERIC-NEXT: ^bb0(%a: f16, %b: f16):
// GENERIC-NEXT: %c = "rlx.binary"(%a, %b) <{kind = #rlx<binary add>}> : (f16, f16) -> f16
// GENERIC-NEXT: "rlx.yield"(%c) : (f16) -> ()
// GENERIC-NEXT: }) : (tensor<1x3x4x5xf16>, tensor<1x3x8x10xf16>) -> tensor<1x3x8x10xf16>
func.func @prologue(%x: tensor<1x3x4x5xf16>, %y: tensor<1x3x8x10xf16>) {
  %0 = rlx.elementwise_region(%x, %y) {prologue = "resize_nearest_2x"} : (tensor<1x3x4x5xf16>, tensor<1x3x8x10xf16>) -> tensor<1x3x8x10xf16> {
  ^bb0(%a: f16, %b: f16):
    %c = rlx.binary add %a, %b : (f16, f16) -> f16
    rlx.yield %c : f16
  }
  func.return
}

// CHECK-LABEL: func.func @identity(
// GENERIC-LABEL: sym_name = "identity"
// CHECK-NEXT: %0 = rlx.elementwise_region(%x) {note.kept} : tensor<3xi1> -> tensor<3xi1> {
// CHECK-NEXT: ^bb0(%a: i1):
// CHECK-NEXT: rlx.yield %a : i1
// CHECK-NEXT: }
// GENERIC-NEXT: ^bb0(%x: tensor<3xi1>):
// GENERIC-NEXT: %0 = "rlx.elementwise_region"(%x) ({
// GENERIC-NEXT: ^bb0(%a: i1):
// GENERIC-NEXT: "rlx.yield"(%a) : (i1) -> ()
// GENERIC-NEXT: }) {note.kept} : (tensor<3xi1>) -> tensor<3xi1>
func.func @identity(%x: tensor<3xi1>) {
  %0 = rlx.elementwise_region(%x) {note.kept} : tensor<3xi1> -> tensor<3xi1> {
  ^bb0(%a: i1):
    rlx.yield %a : i1
  }
  func.return
}

// CHECK-LABEL: func.func @transform_region(
// GENERIC-LABEL: sym_name = "transform_region"
// CHECK-NEXT: %0 = rlx.transform_region %x {steps = ["resize_nearest_2x", "resize_nearest_2x"]} : tensor<1x3x4x?xf32> -> tensor<1x3x16x?xf32>
// GENERIC-NEXT: ^bb0(%x: tensor<1x3x4x?xf32>):
// GENERIC-NEXT: %0 = "rlx.transform_region"(%x) <{steps = ["resize_nearest_2x", "resize_nearest_2x"]}> : (tensor<1x3x4x?xf32>) -> tensor<1x3x16x?xf32>
func.func @transform_region(%x: tensor<1x3x4x?xf32>) {
  %0 = rlx.transform_region %x {steps = ["resize_nearest_2x", "resize_nearest_2x"]} : tensor<1x3x4x?xf32> -> tensor<1x3x16x?xf32>
  func.return
}

// CHECK-LABEL: func.func @batch_elementwise_region(
// GENERIC-LABEL: sym_name = "batch_elementwise_region"
// CHECK-NEXT: %0 = rlx.batch_elementwise_region(%a, %b) : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x4x5xf32> {
// CHECK-NEXT: ^bb0(%s: f32):
// CHECK-NEXT: %v = rlx.activation silu %s : f32
// CHECK-NEXT: rlx.yield %v : f32
// CHECK-NEXT: }
// CHECK-NEXT: %1 = rlx.batch_elementwise_region(%a, %b) {prologue = "resize_nearest_2x"} : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x8x10xf32> {
// CHECK-NEXT: ^bb0(%s: f32):
// CHECK-NEXT: %v = rlx.activation silu %s : f32
// CHECK-NEXT: rlx.yield %v : f32
// CHECK-NEXT: }
// GENERIC-NEXT: ^bb0(%a: tensor<1x3x4x5xf32>, %b: tensor<2x3x4x5xf32>):
// GENERIC-NEXT: %0 = "rlx.batch_elementwise_region"(%a, %b) ({
// GENERIC-NEXT: ^bb0(%s: f32):
// GENERIC-NEXT: %v = "rlx.activation"(%s) <{kind = #rlx<activation silu>}> : (f32) -> f32
// GENERIC-NEXT: "rlx.yield"(%v) : (f32) -> ()
// GENERIC-NEXT: }) : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x4x5xf32>
// GENERIC-NEXT: %1 = "rlx.batch_elementwise_region"(%a, %b) <{prologue = "resize_nearest_2x"}> ({
// GENERIC-NEXT: ^bb0(%s: f32):
// GENERIC-NEXT: %v = "rlx.activation"(%s) <{kind = #rlx<activation silu>}> : (f32) -> f32
// GENERIC-NEXT: "rlx.yield"(%v) : (f32) -> ()
// GENERIC-NEXT: }) : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x8x10xf32>
func.func @batch_elementwise_region(%a: tensor<1x3x4x5xf32>, %b: tensor<2x3x4x5xf32>) {
  %0 = rlx.batch_elementwise_region(%a, %b) : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x4x5xf32> {
  ^bb0(%s: f32):
    %v = rlx.activation silu %s : f32
    rlx.yield %v : f32
  }
  %1 = rlx.batch_elementwise_region(%a, %b) {prologue = "resize_nearest_2x"} : (tensor<1x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<3x3x8x10xf32> {
  ^bb0(%s: f32):
    %v = rlx.activation silu %s : f32
    rlx.yield %v : f32
  }
  func.return
}
