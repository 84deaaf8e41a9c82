// RUN: rlx-opt -p rlx-lower-to-stablehlo %s | filecheck %s

func.func @branch(%p: tensor<1xi1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = rlx.if(%p, %x) : (tensor<1xi1>, tensor<2xf32>) -> tensor<2xf32> {
  ^body(%a: tensor<2xf32>):
    %1 = rlx.activation exp %a : tensor<2xf32>
    rlx.yield %1 : tensor<2xf32>
  } else {
  ^body(%a: tensor<2xf32>):
    rlx.yield %a : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

func.func @steps(%x: tensor<2xf32>, %parts: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = rlx.scan(%x, %parts) {length = 3, save_trajectory} : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32> {
  ^body(%carry: tensor<2xf32>, %part: tensor<2xf32>):
    %1 = rlx.binary add %carry, %part : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    rlx.yield %1 : tensor<2xf32>
  }
  func.return %0 : tensor<3x2xf32>
}

func.func @at_most(%x: tensor<f32>) -> tensor<f32> {
  %0 = rlx.while(%x) {max_iterations = 5} : (tensor<f32>) -> tensor<f32> {
  ^body(%a: tensor<f32>):
    %1 = rlx.compare lt %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    rlx.yield %1 : tensor<i1>
  } do {
  ^body(%a: tensor<f32>):
    rlx.yield %a : tensor<f32>
  }
  func.return %0 : tensor<f32>
}

// A branch sees the captures themselves.
// CHECK-LABEL: func.func @branch
// CHECK-NEXT:  [[p:%.*]] = "stablehlo.reshape"(%p) : (tensor<1xi1>) -> tensor<i1>
// CHECK-NEXT:  "stablehlo.if"([[p]]) ({
// CHECK-NEXT:    [[e:%.*]] = "stablehlo.exponential"(%x)
// CHECK-NEXT:    "stablehlo.return"([[e]])
// CHECK-NEXT:  }, {
// CHECK-NEXT:    "stablehlo.return"(%x)
// CHECK-NEXT:  }) : (tensor<i1>) -> tensor<2xf32>

// A scan is a loop that carries the step, the carry, the trajectory and the parts.
// CHECK-LABEL: func.func @steps
// CHECK:       [[r:%.*]], {{.*}}, [[all:%.*]], {{.*}} = "stablehlo.while"({{.*}}, %x, {{.*}}, %parts) ({
// CHECK:         "stablehlo.compare"
// CHECK:       ^bb0([[i:%.*]]: tensor<i32>, %carry: tensor<2xf32>, [[t:%.*]]: tensor<3x2xf32>, [[parts:%.*]]: tensor<3x2xf32>):
// CHECK:         "stablehlo.dynamic_slice"([[parts]], [[i]], {{.*}}) <{slice_sizes = array<i64: 1, 2>}>
// CHECK:         [[next:%.*]] = "stablehlo.add"(%carry, %part)
// CHECK:         [[written:%.*]] = "stablehlo.dynamic_update_slice"([[t]],
// CHECK-NEXT:    "stablehlo.return"({{.*}}, [[next]], [[written]], [[parts]])
// CHECK:       func.return [[all]]

// A limit of iterations is a counter.
// CHECK-LABEL: func.func @at_most
// CHECK:         [[holds:%.*]] = "stablehlo.compare"(%a, %a)
// CHECK:         [[most:%.*]] = "stablehlo.constant"() <{value = dense<5> : tensor<i64>}>
// CHECK-NEXT:    [[below:%.*]] = "stablehlo.compare"({{.*}}, [[most]])
// CHECK-NEXT:    "stablehlo.and"([[below]], [[holds]])
