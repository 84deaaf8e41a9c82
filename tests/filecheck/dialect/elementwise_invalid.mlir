// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of an element-wise operation says.

// CHECK: error: 'rlx.activation': operand 'input' of gelu must have a float element type, got i32
func.func @f(%x: tensor<2x3xi32>) {
  %0 = rlx.activation gelu %x : tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation': operand 'input' of relu must have a float element type, got i1
func.func @f(%x: tensor<2x3xi1>) {
  %0 = rlx.activation relu %x : tensor<2x3xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operand 'lhs' must be of numbers or truth values, got tensor<2xnone>
func.func @f(%x: tensor<2xnone>) {
  %0 = rlx.binary add %x, %x : (tensor<2xnone>, tensor<2xnone>) -> tensor<2xnone>
  func.return
}

// -----

// CHECK: error: 'rlx.cast': result #0 must be of numbers or truth values, got tensor<2xvector<3xf32>>
func.func @f(%x: tensor<2xf32>) {
  %0 = rlx.cast %x : tensor<2xf32> -> tensor<2xvector<3xf32>>
  func.return
}

// -----

// CHECK: error: 'rlx.cast': result #0 must be of numbers or truth values, got memref<2xf32>
func.func @f(%x: f32) {
  %0 = rlx.cast %x : f32 -> memref<2xf32>
  func.return
}

// -----

// CHECK: error: property 'kind' expected in operation 'rlx.activation'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation %x : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation': result #0 must be tensor<2x3xf32>, got tensor<3x2xf32>
func.func @f(%x: tensor<2x3xf32>) {
  %0 = rlx.activation relu %x : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return
}

// -----

// CHECK: error: #rlx<binary add> should be of base attribute rlx.activation
func.func @f(%x: tensor<2x3xf32>) {
  %0 = "rlx.activation"(%x) <{kind = #rlx<binary add>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation': operand 'input' must be a ranked tensor or a scalar, got vector<4xf32>
func.func @f(%x: vector<4xf32>) {
  %0 = rlx.activation relu %x : vector<4xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.activation': operand 'input' must be a ranked tensor or a scalar, got none
func.func @f(%x: none) {
  %0 = rlx.activation relu %x : none
  func.return
}

// -----

// CHECK: error: 'rlx.binary': shapes 2x3 and 4 do not broadcast at axis -1
func.func @f(%a: tensor<2x3xf32>, %b: tensor<4xf32>) {
  %0 = rlx.binary add %a, %b : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operand 'rhs' must have element type f32 like operand 'lhs', got f16
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf16>) {
  %0 = rlx.binary add %a, %b : (tensor<2x3xf32>, tensor<3xf16>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': result #0 must be tensor<2x3xf32>, got tensor<3xf32>
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %0 = rlx.binary add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operands of bit_and must have an integer element type, got f32
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.binary bit_and %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operands of atan2 must have a float element type, got i32
func.func @f(%a: tensor<2x3xi32>) {
  %0 = rlx.binary atan2 %a, %a : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operands of add must be numbers, got i1
func.func @f(%a: tensor<2x3xi1>) {
  %0 = rlx.binary add %a, %a : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.binary': operands of max must be real, got complex<f32>
func.func @f(%a: tensor<2xcomplex<f32>>) {
  %0 = rlx.binary max %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  func.return
}

// -----

// CHECK: error: 'rlx.compare': operand 'rhs' must have element type f32 like operand 'lhs', got f64
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf64>) {
  %0 = rlx.compare lt %a, %b : (tensor<2x3xf32>, tensor<3xf64>) -> tensor<2x3xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.compare': result #0 must be tensor<2x3xi1>, got tensor<2x3xf32>
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.compare lt %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.compare': operands of lt must be real, got complex<f32>
func.func @f(%a: tensor<2xcomplex<f32>>) {
  %0 = rlx.compare lt %a, %a : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xi1>
  func.return
}

// -----

// CHECK: error: 'rlx.where': operand 'condition' must have element type i1, got f32
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.where %a, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.where': operand 'on_false' must have element type f32 like operand 'on_true', got i32
func.func @f(%c: tensor<2x3xi1>, %a: tensor<2x3xf32>, %b: tensor<2x3xi32>) {
  %0 = rlx.where %c, %a, %b : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.where': shapes 5 and 2x3 and 2x3 do not broadcast at axis -1
func.func @f(%c: tensor<5xi1>, %a: tensor<2x3xf32>) {
  %0 = rlx.where %c, %a, %a : (tensor<5xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.fma': operand 'a' must have a float element type, got i32
func.func @f(%a: tensor<2x3xi32>) {
  %0 = rlx.fma %a, %a, %a : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.fma': operand 'c' must have element type f32 like operand 'a', got f16
func.func @f(%a: tensor<2x3xf32>, %b: tensor<f16>) {
  %0 = rlx.fma %a, %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f16>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.cast': result #0 must be tensor<2x3xf16>, got tensor<3x2xf16>
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.cast %a : tensor<2x3xf32> -> tensor<3x2xf16>
  func.return
}

// -----

// CHECK: error: 'rlx.cast': result #0 must be tensor<2x3xf16>, got f16
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.cast %a : tensor<2x3xf32> -> f16
  func.return
}

// -----

// CHECK: error: 'rlx.clamp': operand 'input' must have a float element type, got i32
func.func @f(%a: tensor<2x3xi32>) {
  %0 = rlx.clamp %a {min = 0.0, max = 6.0} : tensor<2x3xi32>
  func.return
}

// -----

// CHECK: error: 'rlx.clamp': min 1.0 must not exceed max -1.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.clamp %a {min = 1.0, max = -1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: property 'max' expected in operation 'rlx.clamp'
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.clamp %a {min = 1.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.clamp': min nan must not exceed max 6.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.clamp %a {min = nan, max = 6.0} : tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.stop_gradient': result #0 must be tensor<2x3xf32>, got tensor<6xf32>
func.func @f(%a: tensor<2x3xf32>) {
  %0 = rlx.stop_gradient %a : tensor<2x3xf32> -> tensor<6xf32>
  func.return
}

// -----

// The custom form writes no type, so another one would be lost.
// CHECK: error: 'rlx.clamp': f32 should be of base attribute f64
func.func @f(%x: tensor<2xf32>) {
  %0 = "rlx.clamp"(%x) <{min = 0.0 : f32, max = 1.0 : f32}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
