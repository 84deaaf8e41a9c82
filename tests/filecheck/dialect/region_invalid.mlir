// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of a region says.

// CHECK: error: 'rlx.elementwise_region': shapes 4x8 and 7 do not broadcast at axis -1
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<7xf32>) {
  %0 = rlx.elementwise_region(%a0, %a1) : (tensor<4x8xf32>, tensor<7xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32, %t: f32):
    %u = rlx.binary add %s, %t : (f32, f32) -> f32
    rlx.yield %u : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': the body must take the element types of the operands (f32), got (f32, f32)
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32, %t: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': the body must take the element types of the operands (f32), got (f16)
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf16> {
  ^bb0(%s: f16):
    rlx.yield %s : f16
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': result #0 must be tensor<4x8xi1>, got tensor<4x8xf32>
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %c = rlx.compare lt %s, %s : (f32, f32) -> i1
    rlx.yield %c : i1
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': the body must end with rlx.yield of one scalar
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    rlx.yield %s, %s : f32, f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': Operation rlx.activation terminates block in single-block region but is not a terminator
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %u = rlx.activation relu %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': the body takes element-wise rlx operations only, got 'test.op'
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %u = "test.op"(%s) : (f32) -> f32
    rlx.yield %u : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': the body takes element-wise rlx operations only, got 'rlx.constant'
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %u = rlx.constant dense<1.0> : tensor<f32>
    %v = rlx.binary add %s, %u : (f32, tensor<f32>) -> tensor<f32>
    rlx.yield %v : tensor<f32>
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': Operation using value defined out of its IsolatedFromAbove parent: ActivationOp(%u = rlx.activation relu %a0 : tensor<4x8xf32>)
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %u = rlx.activation relu %a0 : tensor<4x8xf32>
    %v = rlx.activation relu %s : f32
    rlx.yield %v : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': 'rlx.binary': result #0 must be f32, got f16
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    %u = rlx.binary add %s, %s : (f32, f32) -> f16
    rlx.yield %u : f16
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': result #0 must be tensor<4x8xf32>, got tensor<8x4xf32>
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) : (tensor<4x8xf32>) -> tensor<8x4xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': a tensor of rank 4 (NCHW) expected, got 4x8
func.func @f(%a0: tensor<4x8xf32>) {
  %0 = rlx.elementwise_region(%a0) {prologue = "resize_nearest_2x"} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': prologue must be "resize_nearest_2x", got "blur"
func.func @f(%a0: tensor<1x1x2x2xf32>) {
  %0 = rlx.elementwise_region(%a0) {prologue = "blur"} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': result #0 must be tensor<1x1x4x4xf32>, got tensor<1x1x2x2xf32>
func.func @f(%a0: tensor<1x1x2x2xf32>) {
  %0 = rlx.elementwise_region(%a0) {prologue = "resize_nearest_2x"} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': operand #0 must be a ranked tensor, got f32
func.func @f(%a0: f32) {
  %0 = rlx.elementwise_region(%a0) : (f32) -> tensor<f32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.elementwise_region': at least one operand expected
func.func @f() {
  %0 = "rlx.elementwise_region"() ({
  ^bb0:
    "rlx.yield"() : () -> ()
  }) : () -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.batch_elementwise_region': operand #1 must have element type f32, got f16
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf16>) {
  %0 = rlx.batch_elementwise_region(%a0, %a1) : (tensor<4x8xf32>, tensor<4x8xf16>) -> tensor<8x8xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.batch_elementwise_region': extents of axis 1: 8 and 7 differ
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x7xf32>) {
  %0 = rlx.batch_elementwise_region(%a0, %a1) : (tensor<4x8xf32>, tensor<4x7xf32>) -> tensor<8x8xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.batch_elementwise_region': the body must take the element types of the operands (f32), got (f32, f32)
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf32>) {
  %0 = rlx.batch_elementwise_region(%a0, %a1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%s: f32, %t: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.batch_elementwise_region': result #0 must be tensor<8x8xf32>, got tensor<4x8xf32>
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf32>) {
  %0 = rlx.batch_elementwise_region(%a0, %a1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.batch_elementwise_region': axis 0 is outside rank 0
func.func @f(%a0: tensor<f32>) {
  %0 = rlx.batch_elementwise_region(%a0) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%s: f32):
    rlx.yield %s : f32
  }
  func.return
}

// -----

// CHECK: error: 'rlx.transform_region': a tensor of rank 4 (NCHW) expected, got 2x3x4
func.func @f(%x: tensor<2x3x4xf32>) {
  %0 = rlx.transform_region %x {steps = ["resize_nearest_2x"]} : tensor<2x3x4xf32> -> tensor<2x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.transform_region': at least one step expected
func.func @f(%x: tensor<1x1x2x2xf32>) {
  %0 = rlx.transform_region %x {steps = []} : tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.transform_region': steps must be "resize_nearest_2x", got "flip"
func.func @f(%x: tensor<1x1x2x2xf32>) {
  %0 = rlx.transform_region %x {steps = ["flip"]} : tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.transform_region': result #0 must be tensor<1x1x4x4xf32>, got tensor<1x1x8x8xf32>
func.func @f(%x: tensor<1x1x2x2xf32>) {
  %0 = rlx.transform_region %x {steps = ["resize_nearest_2x"]} : tensor<1x1x2x2xf32> -> tensor<1x1x8x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.yield': it ends the body of a region of rlx, not of 'func.func'
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  rlx.yield %x : tensor<2xf32>
}

// -----

// CHECK: error: 'rlx.yield': it ends the body of a region of rlx, not of 'builtin.module'
rlx.yield
