// RUN: rlx-opt --pipeline=cuda-fuse --fusion-report %s 2>&1 | filecheck %s --check-prefix=REPORT
// RUN: rlx-opt --pipeline=cuda-fuse --fusion-report=json %s 2>&1 | filecheck %s --check-prefix=JSON
// RUN: rlx-opt --pipeline=cuda-fuse --expect 'fused_matmul_bias_act==1' --expect 'matmul<=1' %s | filecheck %s --check-prefix=HOLDS
// RUN: not rlx-opt --pipeline=cuda-fuse --expect 'fused_matmul_bias_act>=2' %s 2>&1 | filecheck %s --check-prefix=FAILS
// RUN: rlx-opt --pipeline=cuda --claims=-fused_matmul_bias_act,+fft --numerics=strict --print-options | filecheck %s --check-prefix=OPTIONS
// RUN: rlx-opt --compare-targets %s | filecheck %s --check-prefix=TARGETS
// RUN: rlx-opt --list-fusions | filecheck %s --check-prefix=FUSIONS
// RUN: rlx-opt --pipeline=cuda-fuse --check-rewrites %s 2>&1 | filecheck %s --check-prefix=CHECKED

func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %w: tensor<8x16xf32> {rlx.param = "w"},
                %b: tensor<16xf32> {rlx.param = "b"}) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  %h = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %h, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation relu %1 : tensor<4x16xf32>
  %kept = rlx.matmul %y, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %3 = rlx.binary add %kept, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  func.return %2, %3, %kept : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}

// REPORT: fusion report for cuda
// REPORT-NEXT: nodes=9→7 matmul=2→1 fused_mm_act=1
// REPORT: rlx-fuse-matmul-bias-act {{ *}}wider {{ *}}1 {{ *}}2 {{ *}}2 {{ *}}1.0 kB
// REPORT: left on the table: 1
// REPORT-NEXT: returned (1)
// REPORT-NEXT: matmul_bias_act: rlx.matmul %kept at {{.*}}report.mlir:15:3: %kept is also a result of the function (do not return it)

// JSON: "target": "cuda",
// JSON: "reasons": {
// JSON-NEXT: "returned": 1

// HOLDS: rlx.fused_matmul_bias_act relu %x, %w, %b

// FAILS: report.mlir: error: fused_matmul_bias_act>=2 expected, 1 found: the most frequent reasons are
// FAILS-NEXT: returned ×1, as matmul_bias_act: rlx.matmul %kept

// OPTIONS: numerics {{ *}}strict {{ *}}argument
// OPTIONS: claims {{ *}}11 operations {{ *}}target cuda; argument +fft -fused_matmul_bias_act

// TARGETS: cpu {{ *}}metal {{ *}}mlx {{ *}}wgpu {{ *}}cuda {{ *}}rocm {{ *}}tpu
// TARGETS: rlx-fuse-matmul-bias-act {{ *}}1 {{ *}}1 {{ *}}1 {{ *}}1 {{ *}}1 {{ *}}1 {{ *}}1
// TARGETS: rlx-fuse-matmul-residual {{ *}}no claim
// TARGETS: no candidate where they run: {{.*}}rlx-fuse-residual-ln

// FUSIONS: rlx-fuse-matmul-bias-act {{ *}}fused_matmul_bias_act {{ *}}wider {{ *}}cpu metal mlx wgpu cuda rocm tpu
// FUSIONS: rlx-fuse-matmul-residual {{ *}}fused_matmul_residual {{ *}}exact {{ *}}–

// CHECKED: none wrong
