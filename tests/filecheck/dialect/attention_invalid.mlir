// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of attention and rotary embedding says.

// CHECK: error: property 'layout' expected in operation 'rlx.attention'
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: property 'head_dim' expected in operation 'rlx.attention'
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'q' must have shape ?x?x32 in layout bsd, got 2x5x4x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bsd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'q' must have shape ?x4x?x8 in layout bhsd, got 2x5x4x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bhsd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'k' must have shape 2x?x4x8 in layout bshd, got 3x7x4x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<3x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<3x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'k' must have shape 2x?x4x8 in layout bshd, got 2x7x2x8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x2x8xf32>, %v: tensor<2x7x2x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x2x8xf32>, tensor<2x7x2x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': num_kv_heads 3 must divide num_heads 4
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x3x8xf32>, %v: tensor<2x7x3x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, num_kv_heads = 3, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x3x8xf32>, tensor<2x7x3x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operands 'k' and 'v' must have one sequence extent, got 7 and 6
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x6x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x6x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'v' must have shape 2x?x4x8 in layout bshd, got 2x7x4x6
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x6xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x6xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': result #0 must be tensor<2x5x4x8xf32>, got tensor<2x5x4x6xf32>
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x6xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': num_heads must be positive, got 0
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 0, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': head_dim must be positive, got -8
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = -8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': attn_logit_softcap must be positive, got 0.0
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd, attn_logit_softcap = 0.0} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'q' must have a float element type, got i32
func.func @f(%q: tensor<2x5x4x8xi32>, %k: tensor<2x7x4x8xi32>, %v: tensor<2x7x4x8xi32>) {
  %0 = rlx.attention %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xi32>, tensor<2x7x4x8xi32>, tensor<2x7x4x8xi32>) -> tensor<2x5x4x8xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'k' must have element type f32 like operand 'q', got f16
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf16>) {
  %0 = rlx.attention %q, %k, %q {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf16>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': mask kind causal takes no mask operand
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x7xf32>) {
  %0 = rlx.attention causal %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': mask kind custom takes a mask operand
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention custom %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': mask kind bias takes a mask operand
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention bias %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': 'window' belongs to mask kind sliding_window and is needed there
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention causal %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd, window = 2} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': 'window' belongs to mask kind sliding_window and is needed there
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention sliding_window %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': window must not be negative, got -1
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>) {
  %0 = rlx.attention sliding_window %q, %k, %v {num_heads = 4, head_dim = 8, layout = bshd, window = -1} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x7, got 2x5
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x5xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x5xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x7, got 2x1
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x1xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x1xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x5x7, got 2x4x7
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x4x7xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x4x7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x4x5x7, got 7
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<7xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have a float element type or i1, got i32
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x7xi32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7xi32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x7, got 2x6
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x?x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x6xf32>) {
  %0 = rlx.attention custom %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x?x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x6xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x4x5x7, got 5x7
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<5x7xf32>) {
  %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<5x7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have shape 2x4x5x7, got 2x3x5x7
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x3x5x7xf32>) {
  %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x3x5x7xf32>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have element type f32 like operand 'q', got f16
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x4x5x7xf16>) {
  %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x4x5x7xf16>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.attention': operand 'mask' must have element type f32 like operand 'q', got i1
func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %m: tensor<2x4x5x7xi1>) {
  %0 = rlx.attention bias %q, %k, %v, %m {num_heads = 4, head_dim = 8, layout = bshd} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x4x5x7xi1>) -> tensor<2x5x4x8xf32>
  func.return
}

// -----

// CHECK: error: property 'layout' expected in operation 'rlx.rope'
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': head_dim must be positive and even, got 7
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 7, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': n_rot must be even and between 2 and head_dim 8, got 10
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, n_rot = 10, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': n_rot must be even and between 2 and head_dim 8, got 0
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, n_rot = 0, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': n_rot must be even and between 2 and head_dim 8, got 3
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, n_rot = 3, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': the last extent of operand 'x' must be a multiple of head_dim 8, got 2x5x20
func.func @f(%x: tensor<2x5x20xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x20xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x20xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'x' must have rank 3 in layout bsd, got 2x5x3x8
func.func @f(%x: tensor<2x5x3x8xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x3x8xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x3x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'x' must have rank 4 in layout bshd, got 2x5x24
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bshd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': the last extent of operand 'x' must be head_dim 8, got 2x5x3x16
func.func @f(%x: tensor<2x5x3x16xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bshd} : (tensor<2x5x3x16xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x3x16xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'cos' must have at least 5 rows of 4, got 4x4
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<4x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf32>, tensor<4x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'sin' must have at least 5 rows of 4, got 9x3
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x3xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x3xf32>) -> tensor<2x5x24xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'cos' must have at least 5 rows of 4, got 4
func.func @f(%x: tensor<2x3x5x8xf32>, %c: tensor<4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bhsd} : (tensor<2x3x5x8xf32>, tensor<4xf32>, tensor<9x4xf32>) -> tensor<2x3x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'cos' must have element type f16 like operand 'x', got f32
func.func @f(%x: tensor<2x5x24xf16>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf16>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x24xf16>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': operand 'x' must have a float element type, got i32
func.func @f(%x: tensor<2x5x24xi32>, %c: tensor<9x4xi32>, %s: tensor<9x4xi32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xi32>, tensor<9x4xi32>, tensor<9x4xi32>) -> tensor<2x5x24xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.rope': result #0 must be tensor<2x5x24xf32>, got tensor<2x5x16xf32>
func.func @f(%x: tensor<2x5x24xf32>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) {
  %0 = rlx.rope %x, %c, %s {head_dim = 8, layout = bsd} : (tensor<2x5x24xf32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<2x5x16xf32>
  func.return
}
