// RUN: rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s | filecheck %s
// RUN: rlx-opt -p "rlx-lower-to-gpu{target=cuda}" %s | filecheck %s --check-prefix=CUDA

// What depends on an extent is computed by the host, and told to the kernel in one more buffer.
// CHECK-LABEL: func.func @main(%x: memref<?x4xf32>, %y: memref<?x4xf32>) -> memref<?x4xf32>
// CHECK:         %[[ROWS:.*]] = memref.dim %x, %{{.*}} : memref<?x4xf32>
// CHECK:         %[[OTHERS:.*]] = memref.dim %y, %{{.*}} : memref<?x4xf32>
// CHECK:         %[[SAME:.*]] = arith.cmpi eq, %[[ROWS]], %[[OTHERS]] : index
// CHECK-NEXT:    cf.assert %[[SAME]], "rlx.binary: extents d0.0 and d1.0 must be equal"
// CHECK:         %[[TOLD:.*]] = memref.alloc() : memref<2xi32>
// CHECK:         memref.store %{{.*}}, %[[TOLD]][%{{.*}}] : memref<2xi32>
// CHECK:         gpu.launch_func
// CHECK:         memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[ROWS]], 4], strides: [4, 1]
// CHECK:         function_type = (memref<?xf32>, memref<?xf32>, memref<?xf32>, memref<?xi32>) -> ()
// CHECK:         memref.load %{{.*}}[%{{.*}}] : memref<?xi32>
// CUDA:          memref.alloc() : memref<2xi64>
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = rlx.binary add %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}
