// RUN: rlx-opt -p rlx-lower-to-stablehlo -t rlx-stablehlo %s | filecheck %s

builtin.module attributes {rlx.mesh = "data=2,model=4"} {
  func.func @main(%x: tensor<8x16xf32> {rlx.sharding = "data,-"}, %w: tensor<16x4xf32> {rlx.param = "w", rlx.sharding = ",model"}, %b: tensor<4xf32>)
      -> (tensor<8x4xf32> {rlx.sharding = "data,model"}) {
    %0 = rlx.fused_matmul_bias_act %x, %w, %b : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    func.return %0 : tensor<8x4xf32>
  }
}

// CHECK:      "sdy.mesh"() <{sym_name = "mesh", mesh = #sdy.mesh<["data"=2, "model"=4]>}>
// CHECK:      arg_attrs = [{rlx.sharding = "data,-", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, {rlx.param = "w", rlx.sharding = ",model", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}], res_attrs = [{rlx.sharding = "data,model", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}]
