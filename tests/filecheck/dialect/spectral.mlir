// RUN: rlx-opt %s | filecheck %s
// RUN: rlx-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// Spectra. Defaults are left out.

// CHECK-LABEL: func.func @spectra(
func.func @spectra(%x: tensor<4x16xf32>, %c: tensor<4x8xcomplex<f32>>, %f: tensor<3x5xf32>, %dy: tensor<4x3xf32>) {
  // CHECK-NEXT: %0 = rlx.fft %x : tensor<4x16xf32>
  // GENERIC: %0 = "rlx.fft"(%x) <{norm = #rlx<fft_norm backward>}> : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = rlx.fft %x : tensor<4x16xf32>
  // CHECK-NEXT: %1 = rlx.fft %c {inverse, norm = ortho} : tensor<4x8xcomplex<f32>>
  %1 = rlx.fft %c {inverse, norm = ortho} : tensor<4x8xcomplex<f32>>
  // CHECK-NEXT: %2 = rlx.welch_peaks %0 {k = 2, n_segments = 2} : tensor<4x16xf32> -> tensor<2x4xf32>
  %2 = rlx.welch_peaks %0 {k = 2, n_segments = 2} : tensor<4x16xf32> -> tensor<2x4xf32>
  // CHECK-NEXT: %3 = rlx.log_mel %0, %f : (tensor<4x16xf32>, tensor<3x5xf32>) -> tensor<4x3xf32>
  %3 = rlx.log_mel %0, %f : (tensor<4x16xf32>, tensor<3x5xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %4 = rlx.log_mel_backward %0, %f, %dy : (tensor<4x16xf32>, tensor<3x5xf32>, tensor<4x3xf32>) -> tensor<4x16xf32>
  %4 = rlx.log_mel_backward %0, %f, %dy : (tensor<4x16xf32>, tensor<3x5xf32>, tensor<4x3xf32>) -> tensor<4x16xf32>
  func.return
}
