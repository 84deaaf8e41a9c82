// RUN: rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s | filecheck %s

// Moving costs no kernel until the value has to lie in a buffer of its own.

// CHECK-LABEL: func.func @views
// CHECK:         "gpu.launch_func"({{.*}}kernel = @kernels::@map_exp
// CHECK-NOT:     gpu.launch_func
// CHECK:         func.return
func.func @views(%x: tensor<4x6xf32>) -> tensor<2x4xf32> {
  %t = rlx.transpose %x {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
  %n = rlx.narrow %t {axis = 0, start = 1, len = 4} : tensor<6x4xf32> -> tensor<4x4xf32>
  %s = rlx.slice %n {axis = 0, start = 3, len = 2, step = -2} : tensor<4x4xf32> -> tensor<2x4xf32>
  %y = rlx.activation exp %s : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// A reshape of a dense value is another view of its buffer.
// CHECK-LABEL: func.func @alias(%x: memref<4x6xf32>) -> memref<3x8xf32> {
// CHECK-NEXT:    [[F:%.*]] = memref.reinterpret_cast %x to offset: [0], sizes: [24], strides: [1] : memref<4x6xf32> to memref<24xf32>
// CHECK-NEXT:    [[Y:%.*]] = memref.reinterpret_cast [[F]] to offset: [0], sizes: [3, 8], strides: [8, 1] : memref<24xf32> to memref<3x8xf32>
// CHECK-NEXT:    func.return [[Y]] : memref<3x8xf32>
func.func @alias(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %y = rlx.reshape %x {new_shape = [3, 8]} : tensor<4x6xf32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @returned(%x: memref<4x6xf32>) -> (memref<6x4xf32>, memref<4x6xf32>) {
// CHECK:         "gpu.launch_func"({{.*}}kernel = @kernels::@copy
// CHECK:         func.return {{%.*}}, %x : memref<6x4xf32>, memref<4x6xf32>
func.func @returned(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<4x6xf32>) {
  %t = rlx.transpose %x {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
  func.return %t, %x : tensor<6x4xf32>, tensor<4x6xf32>
}
