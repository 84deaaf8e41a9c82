// RUN: rlx-opt -p rlx-lower-control-flow %s | filecheck %s
// RUN: not rlx-opt -p rlx-lower-control-flow{max-unroll=1} %s 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: rlx-opt -p rlx-lower-control-flow{loops=true} %s | filecheck %s --check-prefix=LOOPS
// RUN: rlx-opt --pipeline=cpu %s | filecheck %s --check-prefix=SCF

// LOOPS-NOT: rlx.where
// LOOPS: rlx.if(
// LOOPS: rlx.while(

// SCF-LABEL: func.func @branch(
// SCF: scf.if
// SCF: math.exp
// SCF: } else {
// SCF-NEXT: scf.yield
// SCF-LABEL: func.func @loop(
// SCF: scf.while
// SCF: scf.condition
// CHECK-LABEL: func.func @branch(
// CHECK-NEXT: %0 = rlx.activation exp %x : tensor<2x3xf32>
// CHECK-NEXT: %1 = rlx.where %p, %0, %x : (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: func.return %1
func.func @branch(%p: tensor<i1>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = rlx.if(%p, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %1 = rlx.activation exp %a : tensor<2x3xf32>
    rlx.yield %1 : tensor<2x3xf32>
  } else {
  ^bb0(%b: tensor<2x3xf32>):
    rlx.yield %b : tensor<2x3xf32>
  }
  func.return %0 : tensor<2x3xf32>
}

// LIMIT: error: rlx-lower-control-flow: rlx.while %r at {{.*}}: 2 iterations are more than max-unroll=1
// CHECK-LABEL: func.func @loop(
// CHECK-COUNT-2: rlx.where
// CHECK-NOT: rlx.where
// CHECK: func.return %r
func.func @loop(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = rlx.while(%x) {max_iterations = 2} : tensor<2x3xf32> -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %s = rlx.reduce max %a {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
    %z = rlx.constant dense<9.0> : tensor<f32>
    %c = rlx.compare lt %s, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
    rlx.yield %c : tensor<i1>
  } do {
  ^bb0(%v: tensor<2x3xf32>):
    %w = rlx.binary mul %v, %v : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    rlx.yield %w : tensor<2x3xf32>
  }
  func.return %r : tensor<2x3xf32>
}
