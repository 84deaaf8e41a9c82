// RUN: rlx-opt --pipeline=wgpu-fuse %s | filecheck %s --check-prefix=FUSED
// RUN: rlx-opt -p 'rlx-legalize{backend=gpu target=wgpu force-common=softmax}' %s | filecheck %s
// RUN: rlx-opt --pipeline=wgpu --dispatch-report --force-common=softmax %s 2>&1 | filecheck %s --check-prefix=REPORT
// RUN: not rlx-opt --pipeline=wgpu --force-native=group_norm %s 2>&1 | filecheck %s --check-prefix=STOP
// What a target has no kernel for is written in operations that it has kernels for.

// REPORT: dispatch for wgpu: 1 native, 2 common-ir (policy prefer-native; {{[0-9]+}} kinds have a form of their own there)
// REPORT: rlx.activation {{.*}} native
// REPORT: rlx.group_norm {{.*}} common-ir {{.*}} wgpu has no form of its own for it {{.*}} rlx.reduce
// REPORT: rlx.softmax {{.*}} common-ir {{.*}} force-common names it {{.*}} 2 rlx.reduce

// STOP: dispatch.mlir: error: rlx-legalize: 1 operation not supported by wgpu:
// STOP-NEXT: rlx.group_norm %a at {{.*}}: wgpu has no form of its own for it, and force-native names it

// FUSED: rlx.group_norm
// FUSED: rlx.softmax
// CHECK-LABEL: func.func @norms(
// CHECK-NOT: rlx.group_norm
// CHECK-NOT: rlx.softmax
// CHECK: func.return
func.func @norms(%x: tensor<2x4x3xf32> {rlx.input = "x"}, %g: tensor<4xf32> {rlx.param = "g"}) -> (tensor<2x4x3xf32>, tensor<2x4x3xf32>) {
  %a = rlx.group_norm %x, %g, %g {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
  %y = rlx.softmax %a {axis = 1} : tensor<2x4x3xf32>
  %z = rlx.activation relu %x : tensor<2x4x3xf32>
  func.return %y, %z : tensor<2x4x3xf32>, tensor<2x4x3xf32>
}
