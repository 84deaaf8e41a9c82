// RUN: rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s | filecheck %s
// RUN: rlx-opt -p "rlx-lower-to-gpu{target=cuda}" %s | filecheck %s --check-prefix=CUDA

// Sixteen invocations take a row of 40 together: in four steps they meet in shared memory, or exchange registers. The
// minus infinity of what lies beyond the row is written as bits where the compiler refuses such a literal.

// CHECK-LABEL:  func.func @rows
// CHECK:          kernel = @kernels::@reduce_max
// CHECK:        "gpu.func"() <{function_type = (memref<120xf32>, memref<3xf32>) -> ()}> ({
// CHECK:          [[S:%.*]] = memref.alloc() : memref<64xf32, 3 : i64>
// CHECK-COUNT-3:  memref.load {{%.*}}[{{%.*}}] : memref<120xf32>
// CHECK:          memref.store {{%.*}}, [[S]][{{%.*}}] : memref<64xf32, 3 : i64>
// CHECK-NEXT:     "gpu.barrier"() : () -> ()
// CHECK-COUNT-4:  scf.if
// CHECK:          "gpu.barrier"() : () -> ()
// CHECK:          memref.load [[S]][{{%.*}}] : memref<64xf32, 3 : i64>
// CHECK-NEXT:     "gpu.barrier"() : () -> ()
// CHECK:          scf.if
// CHECK-NEXT:       memref.store {{%.*}}, {{%.*}}[{{%.*}}] : memref<3xf32>
// CUDA:           arith.constant 0xff800000 : f32
// CUDA:           vector.load {{%.*}} : memref<120xf32>, vector<4xf32>
// CUDA-COUNT-4:   "gpu.shuffle"
// CUDA-NOT:       "gpu.barrier"
// CUDA:         {sym_name = "reduce_max"
func.func @rows(%x: tensor<3x40xf32>) -> tensor<3xf32> {
  %y = rlx.reduce max %x {axes = [1]} : tensor<3x40xf32> -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// Neighbouring rows lie side by side: one invocation a row, nothing shared.
// CHECK:        "gpu.func"() <{function_type = (memref<5000000xf32>, memref<50000xf32>) -> ()}> ({
// CHECK-NOT:      memref.alloc
// CHECK:          scf.for
// CHECK:        {sym_name = "reduce_sum"
func.func @columns(%x: tensor<100x50000xf32>) -> tensor<50000xf32> {
  %y = rlx.reduce sum %x {axes = [0]} : tensor<100x50000xf32> -> tensor<50000xf32>
  func.return %y : tensor<50000xf32>
}
