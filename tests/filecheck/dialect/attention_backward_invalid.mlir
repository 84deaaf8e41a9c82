// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of gradients of attention says.

// CHECK: error: 'rlx.attention_backward': operand 'dy' must have shape 2x5x4x8, got 2x7x4x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward %q, %k, %k, %k {wrt = query, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward': operand 'dy' must have element type f32 like operand 'q', got f16
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward %q, %k, %k, %h {wrt = query, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf16>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward': result #0 must be tensor<2x7x4x8xf32>, got tensor<2x5x4x8xf32>
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward %q, %k, %k, %q {wrt = key, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward': mask kind causal takes no mask operand
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward causal %q, %k, %k, %q, %m {wrt = key, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x7xf32>) -> tensor<2x7x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward': operand 'mask' must have shape 2x5, got 2x7
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward custom %q, %q, %q, %q, %m {wrt = key, num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward_all': operands 'q' and 'k' must have one shape, got 2x5x4x8 and 2x7x4x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward_all %q, %k, %k, %q {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<6x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward_all': num_kv_heads must be num_heads 4, got 2
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward_all %q, %g, %g, %q {num_heads = 4, num_kv_heads = 2, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>) -> tensor<6x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention_backward_all': result #0 must be tensor<6x5x4x8xf32>, got tensor<2x5x4x8xf32>
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %h: tensor<2x5x4x8xf16>, %g: tensor<2x5x2x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention_backward_all %q, %q, %q, %q {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}
