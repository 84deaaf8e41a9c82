// RUN: rlx-opt --split-input-file --verify-diagnostics %s | filecheck %s
// What the verifier of a constant says.

// CHECK: error: 'rlx.constant': value must be a tensor of static shape, got vector<2xf32>
func.func @f() {
  %0 = rlx.constant dense<1.0> : vector<2xf32>
  func.return
}

// -----

// CHECK: error: 'rlx.constant': result #0 must be tensor<2xi32>, got tensor<2xi64>
func.func @f() {
  %0 = "rlx.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi64>
  func.return
}

// -----

// CHECK: error: 'rlx.constant': Unexpected attribute 1 : i32
func.func @f() {
  %0 = "rlx.constant"() <{value = 1 : i32}> : () -> tensor<i32>
  func.return
}

// -----

// CHECK: error: 'rlx.constant': value must be a tensor of static shape, got tensor<?xf32>
func.func @f() {
  %0 = "rlx.constant"() <{value = dense_resource<w> : tensor<?xf32>}> : () -> tensor<?xf32>
  func.return
}
