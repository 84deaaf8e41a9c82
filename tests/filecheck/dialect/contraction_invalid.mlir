// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of a matrix product says.

// CHECK: error: 'rlx.matmul': contracted extents (lhs last, rhs second last): 3 and 4 differ
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': operands of rank 2 or more expected, got 3 and 3x5
func.func @f(%a: tensor<3xf32>, %b: tensor<3x5xf32>) {
  %0 = rlx.matmul %a, %b : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': shapes 2 and 4 do not broadcast at axis -1
func.func @f(%a: tensor<2x2x3xf32>, %b: tensor<4x3x5xf32>) {
  %0 = rlx.matmul %a, %b : (tensor<2x2x3xf32>, tensor<4x3x5xf32>) -> tensor<2x2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': operand 'rhs' must have element type f32 like operand 'lhs', got f16
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x5xf16>) {
  %0 = rlx.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf16>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': operand 'lhs' must be of numbers, got i1
func.func @f(%a: tensor<2x3xi1>, %b: tensor<3x5xi1>) {
  %0 = rlx.matmul %a, %b : (tensor<2x3xi1>, tensor<3x5xi1>) -> tensor<2x5xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': result #0 must be tensor<2x5xf32>, got tensor<5x2xf32>
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  %0 = rlx.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<5x2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.matmul': operand 'lhs' must be a ranked tensor, got f32
func.func @f(%a: f32, %b: tensor<3x5xf32>) {
  %0 = rlx.matmul %a, %b : (f32, tensor<3x5xf32>) -> tensor<5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dot_general': contracted extents (lhs axis 1, rhs axis 0): 3 and 4 differ
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [1], rhs_contracting = [0]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dot_general': lhs axes [2] must be distinct and within rank 2
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [2], rhs_contracting = [0]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dot_general': lhs axes [1, 1] must be distinct and within rank 2
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [1], rhs_contracting = [0], lhs_batch = [1], rhs_batch = [1]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dot_general': lhs and rhs must list as many contracting and batch axes
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [1, 0], rhs_contracting = [0]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.dot_general': batch extents (lhs axis 0, rhs axis 0): 2 and 4 differ
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [], rhs_contracting = [], lhs_batch = [0], rhs_batch = [0]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: property 'rhs_contracting' expected in operation 'rlx.dot_general'
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = rlx.dot_general %a, %b {lhs_contracting = [1]} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_bias_act': operand 'bias' must have shape 5, got 3
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>, %b: tensor<3xf32>) {
  %0 = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<3xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_bias_act': operand 'bias' must have shape 5, got 1x5
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>, %b: tensor<1x5xf32>) {
  %0 = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_bias_act': operand 'bias' must have element type f32 like operand 'input', got f16
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>, %b: tensor<5xf16>) {
  %0 = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<5xf16>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_bias_act': operands with gelu must have a float element type, got i32
func.func @f(%x: tensor<2x3xi32>, %w: tensor<3x5xi32>, %b: tensor<5xi32>) {
  %0 = rlx.fused_matmul_bias_act gelu %x, %w, %b : (tensor<2x3xi32>, tensor<3x5xi32>, tensor<5xi32>) -> tensor<2x5xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_residual': operand 'residual' must have shape 2x5, got 5
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>, %r: tensor<5xf32>) {
  %0 = rlx.fused_matmul_residual %x, %w, %r : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_matmul_residual': operand 'residual' must have shape 2x5, got 5x2
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>, %r: tensor<5x2xf32>) {
  %0 = rlx.fused_matmul_residual %x, %w, %r : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_swiglu': the last extent of operand 'packed' must be even, got 2x7
func.func @f(%p: tensor<2x7xf32>) {
  %0 = rlx.fused_swiglu %p : tensor<2x7xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_swiglu': the last extent of operand 'packed' must be even, got scalar
func.func @f(%p: tensor<f32>) {
  %0 = rlx.fused_swiglu %p : tensor<f32> -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_swiglu': operand 'packed' must have a float element type, got i32
func.func @f(%p: tensor<2x6xi32>) {
  %0 = rlx.fused_swiglu %p : tensor<2x6xi32> -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_swiglu': the result must have a float element type, got i32
func.func @f(%p: tensor<2x6xf32>) {
  %0 = rlx.fused_swiglu %p : tensor<2x6xf32> -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.fused_swiglu': result #0 must be tensor<2x3xf32>, got tensor<2x6xf32>
func.func @f(%p: tensor<2x6xf32>) {
  %0 = rlx.fused_swiglu %p : tensor<2x6xf32> -> tensor<2x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.lora_matmul': operands 'w' and 'b' must have one last extent, got 4x5 and 2x6
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %a: tensor<4x2xf32>, %b: tensor<2x5xf32>, %c: tensor<2x6xf32>, %e: tensor<3x5xf32>, %h: tensor<4x2xf16>) {
  %0 = rlx.lora_matmul %x, %w, %a, %c {scale = 0.5} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<2x6xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.lora_matmul': contracted extents (lhs last, rhs second last): 2 and 3 differ
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %a: tensor<4x2xf32>, %b: tensor<2x5xf32>, %c: tensor<2x6xf32>, %e: tensor<3x5xf32>, %h: tensor<4x2xf16>) {
  %0 = rlx.lora_matmul %x, %w, %a, %e {scale = 0.5} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.lora_matmul': operand 'a' must have element type f32 like operand 'x', got f16
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %a: tensor<4x2xf32>, %b: tensor<2x5xf32>, %c: tensor<2x6xf32>, %e: tensor<3x5xf32>, %h: tensor<4x2xf16>) {
  %0 = rlx.lora_matmul %x, %w, %h, %b {scale = 0.5} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<4x2xf16>, tensor<2x5xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.lora_matmul': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<3x3xi32>) {
  %0 = rlx.lora_matmul %x, %x, %x, %x {scale = 0.5} : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.grouped_matmul': operands 'x' and 'w' must have shapes MxK and ExKxN, got 6x3 and 4x2x5
func.func @f(%x: tensor<6x3xf32>, %w: tensor<4x3x5xf32>, %v: tensor<4x2x5xf32>, %i: tensor<6xi32>, %j: tensor<5xi32>, %f: tensor<6xf32>, %h: tensor<4x3x5xf16>) {
  %0 = rlx.grouped_matmul %x, %v, %i : (tensor<6x3xf32>, tensor<4x2x5xf32>, tensor<6xi32>) -> tensor<6x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.grouped_matmul': operand 'idx' must have shape 6, got 5
func.func @f(%x: tensor<6x3xf32>, %w: tensor<4x3x5xf32>, %v: tensor<4x2x5xf32>, %i: tensor<6xi32>, %j: tensor<5xi32>, %f: tensor<6xf32>, %h: tensor<4x3x5xf16>) {
  %0 = rlx.grouped_matmul %x, %w, %j : (tensor<6x3xf32>, tensor<4x3x5xf32>, tensor<5xi32>) -> tensor<6x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.grouped_matmul': operand 'idx' must have an integer element type, got f32
func.func @f(%x: tensor<6x3xf32>, %w: tensor<4x3x5xf32>, %v: tensor<4x2x5xf32>, %i: tensor<6xi32>, %j: tensor<5xi32>, %f: tensor<6xf32>, %h: tensor<4x3x5xf16>) {
  %0 = rlx.grouped_matmul %x, %w, %f : (tensor<6x3xf32>, tensor<4x3x5xf32>, tensor<6xf32>) -> tensor<6x5xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.grouped_matmul': operand 'w' must have element type f32 like operand 'x', got f16
func.func @f(%x: tensor<6x3xf32>, %w: tensor<4x3x5xf32>, %v: tensor<4x2x5xf32>, %i: tensor<6xi32>, %j: tensor<5xi32>, %f: tensor<6xf32>, %h: tensor<4x3x5xf16>) {
  %0 = rlx.grouped_matmul %x, %h, %i : (tensor<6x3xf32>, tensor<4x3x5xf16>, tensor<6xi32>) -> tensor<6x5xf32>
  func.return
}
