// RUN: rlx-opt -p rlx-select-peaks-only-outputs %s | filecheck %s
// RUN: rlx-opt -p rlx-select-peaks-only-outputs{enabled=false} %s | filecheck %s --check-prefix=OFF

// CHECK: func.func @main(%x: tensor<4x512xf32>) -> (tensor<4x8xf32> {rlx.output = "peaks"}) attributes {rlx.allow_peaks_only_outputs} {
// CHECK: func.return %p : tensor<4x8xf32>
// OFF: func.return %s : tensor<4x512xf32>
func.func @main(%x: tensor<4x512xf32>) -> (tensor<4x512xf32> {rlx.output = "spectrum"}) attributes {rlx.allow_peaks_only_outputs} {
  %s = rlx.fft %x : tensor<4x512xf32>
  %p = rlx.welch_peaks %s {k = 4, n_segments = 1} : tensor<4x512xf32> -> tensor<4x8xf32>
  func.return %s : tensor<4x512xf32>
}

// The interface of a function that does not say so stays.
// CHECK: func.func @kept(%x: tensor<4x512xf32>) -> tensor<4x512xf32> {
// CHECK: func.return %s : tensor<4x512xf32>
func.func @kept(%x: tensor<4x512xf32>) -> tensor<4x512xf32> {
  %s = rlx.fft %x : tensor<4x512xf32>
  %p = rlx.welch_peaks %s {k = 4, n_segments = 1} : tensor<4x512xf32> -> tensor<4x8xf32>
  func.return %s : tensor<4x512xf32>
}
