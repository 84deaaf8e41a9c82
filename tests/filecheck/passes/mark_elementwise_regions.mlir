// RUN: rlx-opt -p rlx-mark-elementwise-regions %s | filecheck %s
// RUN: rlx-opt -p 'rlx-mark-elementwise-regions{max-steps=2 max-inputs=2}' %s | filecheck %s --check-prefix=SMALL

// CHECK-LABEL: @diamond
// CHECK-NEXT: [[R:%.*]] = rlx.elementwise_region(%x, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT: ^bb0([[X:%.*]]: f32, [[S:%.*]]: f32):
// CHECK-NEXT: [[A:%.*]] = rlx.binary mul [[X]], [[S]] : (f32, f32) -> f32
// CHECK-NEXT: [[B:%.*]] = rlx.activation tanh [[A]] : f32
// CHECK-NEXT: [[C:%.*]] = rlx.binary add [[A]], [[B]] : (f32, f32) -> f32
// CHECK-NEXT: rlx.yield [[C]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: func.return [[R]]
// SMALL-LABEL: @diamond
// SMALL-NEXT: [[A:%.*]] = rlx.binary mul %x, %s
// SMALL-NEXT: rlx.elementwise_region([[A]]) : tensor<4x8xf32> -> tensor<4x8xf32>
func.func @diamond(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = rlx.binary mul %x, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = rlx.activation tanh %0 : tensor<4x8xf32>
  %2 = rlx.binary add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}

// A region has several element types.
// CHECK-LABEL: @select
// CHECK-NEXT: rlx.elementwise_region(%x, %y) : (tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xf16>
// CHECK-NEXT: ^bb0([[X:%.*]]: f16, [[Y:%.*]]: f16):
// CHECK-NEXT: [[C:%.*]] = rlx.compare lt [[X]], [[Y]] : (f16, f16) -> i1
// CHECK-NEXT: rlx.where [[C]], [[X]], [[Y]] : (i1, f16, f16) -> f16
func.func @select(%x: tensor<?x8xf16>, %y: tensor<?x8xf16>) -> tensor<?x8xf16> {
  %0 = rlx.compare lt %x, %y : (tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xi1>
  %1 = rlx.where %0, %x, %y : (tensor<?x8xi1>, tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xf16>
  func.return %1 : tensor<?x8xf16>
}

// A value of a smaller shape, a change of type, and floor stay outside.
// CHECK-LABEL: @outside
// CHECK-NEXT: [[A:%.*]] = rlx.activation exp %c : tensor<4x1xf32>
// CHECK-NEXT: [[F:%.*]] = rlx.activation floor %x : tensor<4x8xf32>
// CHECK-NEXT: [[R:%.*]] = rlx.elementwise_region([[F]], [[A]])
// CHECK: rlx.cast [[R]] : tensor<4x8xf32> -> tensor<4x8xf16>
func.func @outside(%x: tensor<4x8xf32>, %c: tensor<4x1xf32>) -> tensor<4x8xf16> {
  %0 = rlx.activation exp %c : tensor<4x1xf32>
  %1 = rlx.activation floor %x : tensor<4x8xf32>
  %2 = rlx.binary mul %1, %0 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %3 = rlx.activation tanh %2 : tensor<4x8xf32>
  %4 = rlx.cast %3 : tensor<4x8xf32> -> tensor<4x8xf16>
  func.return %4 : tensor<4x8xf16>
}

// The product starts a region; what it is added to stays outside.
// CHECK-LABEL: @after_matmul
// CHECK-NEXT: [[A:%.*]] = rlx.activation exp %y
// CHECK-NEXT: [[P:%.*]] = rlx.matmul
// CHECK-NEXT: rlx.elementwise_region([[P]], [[A]])
func.func @after_matmul(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = rlx.activation exp %y : tensor<4x8xf32>
  %1 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = rlx.binary add %1, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = rlx.activation relu %2 : tensor<4x8xf32>
  func.return %3 : tensor<4x8xf32>
}

// An intermediate value that is returned ends a region.
// CHECK-LABEL: @returned
// CHECK-NEXT: [[A:%.*]] = rlx.elementwise_region(%x)
// CHECK: [[B:%.*]] = rlx.elementwise_region([[A]])
// CHECK: func.return [[B]], [[A]]
func.func @returned(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = rlx.activation exp %x : tensor<4x8xf32>
  %1 = rlx.activation neg %0 : tensor<4x8xf32>
  %2 = rlx.activation tanh %1 : tensor<4x8xf32>
  %3 = rlx.activation abs %2 : tensor<4x8xf32>
  func.return %3, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
