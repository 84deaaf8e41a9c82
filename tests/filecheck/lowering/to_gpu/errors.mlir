// RUN: not rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s 2>&1 | filecheck %s
// RUN: not rlx-opt -p "rlx-lower-to-gpu{target=tpu}" %s 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not rlx-opt -p rlx-lower-to-gpu %s 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:      rlx-lower-to-gpu: 4 operations not yet lowered to gpu for wgpu:
// CHECK-NEXT:   argument %x of @main: tensor<?x4xf32> has a dynamic extent, and kernels are written for static ones
// CHECK-NEXT:   rlx.activation %a at loc("{{.*}}errors.mlir":{{.*}}): tensor<?x4xf32> has a dynamic extent
// CHECK-NEXT:   argument %h of @other: wgpu has no buffers of bf16
// CHECK-NEXT:   rlx.conv %c at loc("{{.*}}errors.mlir":{{.*}}): it has no kernel and is not made of simpler operations
// TARGET: error: rlx-lower-to-gpu: unknown target 'tpu'; known targets: metal, wgpu, cuda, rocm
// NONE: error: rlx-lower-to-gpu: {{.*}}target
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = rlx.activation exp %x : tensor<?x4xf32>
  func.return %a : tensor<?x4xf32>
}
func.func @other(%h: tensor<3xbf16>, %x: tensor<1x1x3x3xf32>, %w: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %c = rlx.conv %x, %w {kernel_size = [2, 2]} : (tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  func.return %c : tensor<1x1x2x2xf32>
}
