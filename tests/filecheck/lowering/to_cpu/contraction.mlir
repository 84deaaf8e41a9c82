// RUN: rlx-opt -p "rlx-lower-to-cpu{cpu=avx512}" %s | filecheck %s

// The weight is packed once, when it is loaded. A kernel is a function of its buffers and a range of groups; a tile
// holds its sums in vectors and reads one number of the left factor for each row.

// CHECK:        memref.alloc() {rlx.load_time} : memref<256xf32>
// CHECK:        "gpu.launch_func"
// CHECK-SAME:     kernel = @kernels::@pack,
// CHECK-SAME:     {rlx.load_time}
// CHECK:        "gpu.launch_func"
// CHECK-SAME:     kernel = @kernels::@matmul_bias
// CHECK:      builtin.module @kernels {
// CHECK:        func.func @pack(
// CHECK:        func.func @matmul_bias({{.*}}: memref<48xf32> {llvm.noalias}, {{.*}}: index, {{.*}}: index) attributes {rlx.work = {{.*}}} {
// CHECK:          vector.load {{.*}} vector<16xf32>
// CHECK:          vector.broadcast {{.*}} : f32 to vector<16xf32>
// CHECK:          vector.fma {{.*}} : vector<16xf32>
func.func @main(%x: tensor<6x8xf32> {rlx.input = "x"}, %w: tensor<8x20xf32> {rlx.param = "w"}, %b: tensor<20xf32> {rlx.param = "b"}) -> tensor<6x20xf32> {
  %y = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<6x8xf32>, tensor<8x20xf32>, tensor<20xf32>) -> tensor<6x20xf32>
  func.return %y : tensor<6x20xf32>
}
