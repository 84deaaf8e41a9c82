// RUN: rlx-opt --split-input-file --parsing-diagnostics %s | filecheck %s
// What the parser of a region says.

// CHECK: '(' expected
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.elementwise_region %x : tensor<2xf32> -> tensor<2xf32> {
  }
  func.return
}

// -----

// CHECK: Expected region!
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.elementwise_region(%x) : tensor<2xf32> -> tensor<2xf32>
  func.return
}

// -----

// CHECK: 'rlx.elementwise_region' has no property 'chain' (it has: prologue)
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.elementwise_region(%x) {chain = 3} : tensor<2xf32> -> tensor<2xf32> {
  }
  func.return
}

// -----

// CHECK: 2 operands but 1 operand types
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.elementwise_region(%x, %x) : (tensor<2xf32>) -> tensor<2xf32> {
  }
  func.return
}

// -----

// CHECK: string literal expected
func.func @f(%x: tensor<1x1x2x2xf32>) {
  %0 = rlx.transform_region %x {steps = [2]} : tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  func.return
}
