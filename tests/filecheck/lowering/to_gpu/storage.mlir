// RUN: rlx-opt -p "rlx-lower-to-gpu{target=wgpu}" %s | filecheck %s
// RUN: rlx-opt -p "rlx-lower-to-gpu{target=cuda}" %s | filecheck %s --check-prefix=CUDA

// f16 is computed in f32. A truth value lies in an i32 (in an i8 where there are buffers of bytes), and arguments and
// results say so.

// CHECK-LABEL: func.func @compare(%x: memref<3xf16>, %y: memref<3xf16>) -> (memref<3xi32> {rlx.element = i1}, memref<3xf16>) {
// CHECK:       [[A:%.*]] = memref.load {{%.*}}[{{%.*}}] : memref<3xf16>
// CHECK-NEXT:  [[B:%.*]] = memref.load {{%.*}}[{{%.*}}] : memref<3xf16>
// CHECK-NEXT:  [[X:%.*]] = arith.extf [[A]] : f16 to f32
// CHECK-NEXT:  [[Y:%.*]] = arith.extf [[B]] : f16 to f32
// CHECK-NEXT:  [[C:%.*]] = arith.cmpf olt, [[X]], [[Y]] : f32
// CHECK-NEXT:  [[I:%.*]] = arith.extui [[C]] : i1 to i32
// CHECK-NEXT:  memref.store [[I]], {{%.*}}[{{%.*}}] : memref<3xi32>
// CHECK:       [[I:%.*]] = memref.load {{%.*}}[{{%.*}}] : memref<3xi32>
// CHECK-NEXT:  [[C:%.*]] = arith.cmpi ne, [[I]], {{%.*}} : i32
// CUDA-LABEL:  func.func @compare(%x: memref<3xf16>, %y: memref<3xf16>) -> (memref<3xi8> {rlx.element = i1}, memref<3xf16>) {
// CUDA:        arith.extui {{%.*}} : i1 to i8
// CUDA-NEXT:   memref.store {{%.*}}, {{%.*}}[{{%.*}}] : memref<3xi8>
func.func @compare(%x: tensor<3xf16>, %y: tensor<3xf16>) -> (tensor<3xi1>, tensor<3xf16>) {
  %c = rlx.compare lt %x, %y : (tensor<3xf16>, tensor<3xf16>) -> tensor<3xi1>
  %w = rlx.where %c, %x, %y : (tensor<3xi1>, tensor<3xf16>, tensor<3xf16>) -> tensor<3xf16>
  func.return %c, %w : tensor<3xi1>, tensor<3xf16>
}
