// RUN: rlx-opt --pipeline=mlx -t mlx-python %s | filecheck %s

// Names of the model become Python's; what only one thing can mean is one call.
func.func @main(%x: tensor<?x8xf32> {rlx.input = "x.in"},
                %w1: tensor<8x16xf32> {rlx.param = "0/weight"}, %b1: tensor<16xf32> {rlx.param = "0/bias"},
                %lambda: tensor<16x4xf32> {rlx.param = "lambda"}, %b2: tensor<4xf32> {rlx.param = "b2"})
    -> (tensor<?x4xf32> {rlx.output = "y"}) {
  %0 = rlx.matmul %x, %w1 : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %1 = rlx.binary add %0, %b1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %2 = rlx.activation gelu %1 : tensor<?x16xf32>
  %3 = rlx.matmul %2, %lambda : (tensor<?x16xf32>, tensor<16x4xf32>) -> tensor<?x4xf32>
  %logits = rlx.binary add %3, %b2 : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %logits : tensor<?x4xf32>
}

// CHECK:      import mlx.core as mx
// CHECK:      INPUTS = {
// CHECK-NEXT:     "x.in": "x",
// CHECK-NEXT: }
// CHECK-NEXT: PARAMETERS = {
// CHECK-NEXT:     "0/weight": "w1",
// CHECK-NEXT:     "0/bias": "b1",
// CHECK-NEXT:     "lambda": "lambda_2",
// CHECK-NEXT:     "b2": "b2",
// CHECK-NEXT: }
// CHECK-NEXT: OUTPUTS = ("y",)
// CHECK:      def gelu(x):
// CHECK:      @mx.compile
// CHECK-NEXT: def main(x, w1, b1, lambda_2, b2):
// CHECK:          x: input 'x.in', float32 [?, 8]
// CHECK:          returns 'y', float32 [?, 4]
// CHECK:          product = mx.addmm(b1, x, w1)
// CHECK-NEXT:     linear = gelu(product)
// CHECK-NEXT:     [[y:.*]] = mx.addmm(b2, linear, lambda_2)
// CHECK-NEXT:     return [[y]]
// CHECK:      def load(path):
// CHECK:      def run(values):
