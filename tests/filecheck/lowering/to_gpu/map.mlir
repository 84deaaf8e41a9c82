// RUN: rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s | filecheck %s

// Values are flat buffers. An operand that broadcasts is read at its own coordinates, a dense one at the invocation's
// number, and a literal takes no buffer.

// CHECK:      builtin.module attributes {gpu.container_module} {
// CHECK-NEXT:   func.func @broadcast(%x: memref<4x6xf32> {rlx.input = "x"}, %b: memref<6xf32> {rlx.param = "b"}) -> memref<4x6xf32> {
// CHECK:          [[X:%.*]] = memref.reinterpret_cast %x to offset: [0], sizes: [24], strides: [1] : memref<4x6xf32> to memref<24xf32>
// CHECK-NEXT:     %y = memref.alloc() : memref<24xf32>
// CHECK-NEXT:     "gpu.launch_func"(%1, %1, %1, %0, %1, %1, [[X]], %b, %y) <{kernel = @kernels::@region, {{.*}} (index, index, index, index, index, index, memref<24xf32>, memref<6xf32>, memref<24xf32>) -> ()
// CHECK-NEXT:     [[Y:%.*]] = memref.reinterpret_cast %y to offset: [0], sizes: [4, 6], strides: [6, 1] : memref<24xf32> to memref<4x6xf32>
// CHECK-NEXT:     func.return [[Y]] : memref<4x6xf32>
// CHECK:        "gpu.module"() <{sym_name = "kernels"}> ({
// CHECK-NEXT:     "gpu.func"() <{function_type = (memref<24xf32>, memref<6xf32>, memref<24xf32>) -> ()}> ({
// CHECK-NEXT:     ^bb0([[A:%.*]]: memref<24xf32>, [[B:%.*]]: memref<6xf32>, [[C:%.*]]: memref<24xf32>):
// CHECK-NEXT:       [[T:%.*]] = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
// CHECK:            [[N:%.*]] = arith.constant 24 : index
// CHECK:            [[INSIDE:%.*]] = arith.cmpi ult, [[T]], [[N]] : index
// CHECK-NEXT:       scf.if [[INSIDE]] {
// CHECK-NEXT:         [[J:%.*]] = arith.remui [[T]], {{%.*}} : index
// CHECK:              [[U:%.*]] = memref.load [[A]][[[T]]] : memref<24xf32>
// CHECK-NEXT:         [[V:%.*]] = memref.load [[B]][[[J]]] : memref<6xf32>
// CHECK-NEXT:         [[S:%.*]] = arith.addf [[U]], [[V]] : f32
// CHECK-NEXT:         [[P:%.*]] = arith.mulf [[S]], {{%.*}} : f32
// CHECK-NEXT:         memref.store [[P]], [[C]][[[T]]] : memref<24xf32>
// CHECK:            "gpu.return"() : () -> ()
// CHECK-NEXT:     }) {sym_name = "region", gpu.kernel, known_block_size = array<i32: 256, 1, 1>} : () -> ()
func.func @broadcast(%x: tensor<4x6xf32> {rlx.input = "x"}, %b: tensor<6xf32> {rlx.param = "b"}) -> tensor<4x6xf32> {
  %two = rlx.constant dense<2.0> : tensor<f32>
  %y = rlx.elementwise_region(%x, %b, %two) : (tensor<4x6xf32>, tensor<6xf32>, tensor<f32>) -> tensor<4x6xf32> {
  ^bb0(%s: f32, %t: f32, %c: f32):
    %u = rlx.binary add %s, %t : (f32, f32) -> f32
    %v = rlx.binary mul %u, %c : (f32, f32) -> f32
    rlx.yield %v : f32
  }
  func.return %y : tensor<4x6xf32>
}
