// RUN: not rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s 2>&1 | filecheck %s
// RUN: not rlx-opt -p "rlx-lower-to-gpu{target=tpu}" %s 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not rlx-opt -p rlx-lower-to-gpu %s 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:      rlx-lower-to-gpu: 2 operations not yet lowered to gpu for wgpu:
// CHECK-NEXT:   argument %h of @main: wgpu has no buffers of bf16
// CHECK-NEXT:   rlx.while %r at loc("{{.*}}errors.mlir":{{.*}}): it has no max_iterations, and the target has no loops of launches
// TARGET: error: rlx-lower-to-gpu: unknown target 'tpu'; known targets: metal, wgpu, cuda, rocm
// NONE: error: rlx-lower-to-gpu: {{.*}}target
func.func @main(%h: tensor<3xbf16>, %p: tensor<i1>) -> tensor<i1> {
  %r = rlx.while(%p) : tensor<i1> -> tensor<i1> {
  ^bb0(%a: tensor<i1>):
    rlx.yield %a : tensor<i1>
  } do {
  ^bb0(%v: tensor<i1>):
    rlx.yield %v : tensor<i1>
  }
  func.return %r : tensor<i1>
}
