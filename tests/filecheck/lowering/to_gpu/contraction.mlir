// RUN: rlx-opt -p "rlx-lower-to-gpu{target=metal matrix-units=false}" %s | filecheck %s

// A transposed operand is read where it lies, the weight's batch is folded into the rows, and bias and activation
// are part of the kernel. 2 x 96 x 130 results are 6 x 5 tiles of 32 x 32.

// CHECK-LABEL:  func.func @linear
// CHECK-DAG:      %[[N6:.*]] = arith.constant 6 : index
// CHECK-DAG:      %[[N5:.*]] = arith.constant 5 : index
// CHECK-DAG:      %[[N16:.*]] = arith.constant 16 : index
// CHECK:          "gpu.launch_func"(%[[N5]], %[[N6]], {{%.*}}, %[[N16]], %[[N16]], {{%.*}}) <{kernel = @kernels::@matmul_bias_relu,
// CHECK-NOT:      gpu.launch_func
// CHECK:        "gpu.func"() <{function_type = (memref<7680xf32>, memref<5200xf32>, memref<24960xf32>, memref<130xf32>) -> ()}> ({
// CHECK-COUNT-2:  memref.alloc() : memref<512xf32, 3 : i64>
// CHECK:          scf.for {{%.*}} = {{%.*}} to {{%.*}} step {{%.*}} iter_args(
// CHECK:            "gpu.barrier"() : () -> ()
// CHECK-NEXT:       scf.for {{%.*}} = {{%.*}} to {{%.*}} step {{%.*}} iter_args(
// CHECK-COUNT-4:      math.fma
// CHECK-NEXT:         scf.yield
// CHECK:            "gpu.barrier"() : () -> ()
// CHECK:          arith.addf
// CHECK:          arith.cmpf ogt
// CHECK:        known_block_size = array<i32: 16, 16, 1>
func.func @linear(%x: tensor<2x96x40xf32>, %w: tensor<130x40xf32>, %b: tensor<130xf32>) -> tensor<2x96x130xf32> {
  %t = rlx.transpose %w {perm = [1, 0]} : tensor<130x40xf32> -> tensor<40x130xf32>
  %y = rlx.fused_matmul_bias_act relu %x, %t, %b : (tensor<2x96x40xf32>, tensor<40x130xf32>, tensor<130xf32>) -> tensor<2x96x130xf32>
  func.return %y : tensor<2x96x130xf32>
}
