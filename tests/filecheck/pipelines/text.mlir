// RUN: rlx-opt --pipeline=metal --print-pipeline %s | filecheck %s --check-prefix=METAL
// RUN: rlx-opt --pipeline=cuda-fuse --print-pipeline %s | filecheck %s --check-prefix=CUDA
// RUN: rlx-opt --list-pipelines | filecheck %s --check-prefix=LIST
// RUN: not rlx-opt --pipeline=metl %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not rlx-opt --pipeline=metal -p rlx-dce %s 2>&1 | filecheck %s --check-prefix=BOTH

// METAL: {{^}}rlx-lower-control-flow,rlx-lower-dot-general,rlx-canonicalize-ops,rlx-fuse-matmul-bias-act{epilogues=gelu,silu,gelu_approx,relu},{{.*}}rlx-unfuse-elementwise-regions{keep-prologue=true},rlx-dce,rlx-legalize{backend=gpu target=metal},rlx-lower-to-gpu{target=metal}{{$}}
// CUDA: {{^}}rlx-lower-control-flow,rlx-lower-dot-general,rlx-canonicalize-ops,{{.*}}rlx-mark-elementwise-regions{max-steps=32 max-inputs=16},{{.*}},rlx-dce{{$}}
// LIST: {{^}}cpu {{ *}}rlx-
// LIST-NEXT: {{^}}cpu-fuse {{ *}}rlx-
// LIST: {{^}}tpu-fuse {{ *}}rlx-
// UNKNOWN: error: unknown pipeline 'metl'; known pipelines: cpu, cpu-fuse, metal
// BOTH: error: --pipeline and -p exclude each other
