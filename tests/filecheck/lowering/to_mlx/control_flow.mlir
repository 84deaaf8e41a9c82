// RUN: rlx-opt -p rlx-lower-to-mlx -t mlx-python %s | filecheck %s

// What values decide is Python's control flow, outside of mx.compile.
func.func @main(%x: tensor<3xf32>, %c: tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>) {
  %chosen = rlx.if(%c, %x) : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    %0 = rlx.activation neg %a : tensor<3xf32>
    rlx.yield %0 : tensor<3xf32>
  } else {
  ^bb0(%a: tensor<3xf32>):
    rlx.yield %a : tensor<3xf32>
  }
  %last = rlx.while(%x) {max_iterations = 5} : (tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    %limit = rlx.constant dense<10.0> : tensor<f32>
    %most = rlx.reduce max %a {axes = [0]} : (tensor<3xf32>) -> tensor<f32>
    %less = rlx.compare lt %most, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    rlx.yield %less : tensor<i1>
  } do {
  ^bb0(%a: tensor<3xf32>):
    %twice = rlx.binary add %a, %a : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    rlx.yield %twice : tensor<3xf32>
  }
  func.return %chosen, %last : tensor<3xf32>, tensor<3xf32>
}

// CHECK-NOT:  @mx.compile
// CHECK:      # Not compiled: the values of rlx.if decide what runs.
// CHECK-NEXT: def main(x, c):
// CHECK:          if c.item():
// CHECK-NEXT:         neg = -x
// CHECK-NEXT:         chosen = neg
// CHECK-NEXT:     else:
// CHECK-NEXT:         chosen = x
// CHECK-NEXT:     last = x
// CHECK-NEXT:     for _ in range(5):
// CHECK-NEXT:         most = mx.max(last, axis=0)
// CHECK-NEXT:         less = most < 10.0
// CHECK-NEXT:         if not less.item():
// CHECK-NEXT:             break
// CHECK-NEXT:         twice = last + last
// CHECK-NEXT:         last = twice
// CHECK-NEXT:     return chosen, last
