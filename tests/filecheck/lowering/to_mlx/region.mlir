// RUN: rlx-opt -p rlx-lower-to-mlx -t mlx-python %s | filecheck %s

// A body is a compiled function of its own; a number that it takes stands in it, and what it ignores broadcasts.
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4x1x3xf32>) -> (tensor<2x3xf32>, tensor<4x2x3xf32>) {
  %half = rlx.constant dense<0.5> : tensor<f32>
  %scaled = rlx.elementwise_region(%x, %half) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %0 = rlx.activation exp %a : f32
    %1 = rlx.binary mul %0, %b : (f32, f32) -> f32
    rlx.yield %1 : f32
  }
  %wide = rlx.elementwise_region(%x, %y) : (tensor<2x3xf32>, tensor<4x1x3xf32>) -> tensor<4x2x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %0 = rlx.activation neg %a : f32
    rlx.yield %0 : f32
  }
  func.return %scaled, %wide : tensor<2x3xf32>, tensor<4x2x3xf32>
}

// CHECK:      @mx.compile
// CHECK-NEXT: def scaled_body(a):
// CHECK-NEXT:     exp = mx.exp(a)
// CHECK-NEXT:     mul = exp * 0.5
// CHECK-NEXT:     return mul
// CHECK:      def wide_body(a, b):
// CHECK-NEXT:     neg = -a
// CHECK-NEXT:     return mx.broadcast_to(neg, mx.broadcast_shapes(a.shape, b.shape))
// CHECK:          scaled = scaled_body(x)
// CHECK-NEXT:     wide = wide_body(x, y)
// CHECK-NEXT:     return scaled, wide
