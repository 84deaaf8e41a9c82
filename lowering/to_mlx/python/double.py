"""Helpers for float64: MLX computes some functions of it in the precision of float32."""

import mlx.core as mx


def exp_f64(x):
    """eˣ in double precision, which MLX's exp has not."""
    return mx.power(2.718281828459045, x)


def sin_f64(x):
    """The sine in double precision, by the tangent of half the angle."""
    half = mx.tan(x / 2)
    return 2 * half / (1 + half * half)


def cos_f64(x):
    """The cosine in double precision, by the tangent of half the angle."""
    half = mx.tan(x / 2)
    return (1 - half * half) / (1 + half * half)


def sigmoid_f64(x):
    """1/(1 + e⁻ˣ) in double precision."""
    power = exp_f64(-mx.abs(x))
    return mx.where(x >= 0, 1 / (1 + power), power / (1 + power))


def logaddexp_f64(a, b):
    """log(eᵃ + eᵇ) in double precision, where one of them is finite."""
    return mx.maximum(a, b) + mx.log1p(exp_f64(-mx.abs(a - b)))


def erfc_f64(x):
    """1 - erf(x) in double precision: t·exp(p(t) - x²) for t = 2/(2 + x), with a Chebyshev series p."""
    size = mx.abs(x)
    t = 2 / (2 + size)
    terms = [-1.3026537197817082, 0.6419697923564907, 0.019476473204186966, -0.009561514786809649]
    terms += [-0.0009465953444811715, 0.0003668394978520812, 4.2523324806376811e-05, -2.0278578112774112e-05]
    terms += [-1.6242900046455020e-06, 1.3036558358173660e-06, 1.5626441255989944e-08, -8.5238095237552313e-08]
    terms += [6.5290535764749881e-09, 5.0593445102648540e-09, -9.9136528429857344e-10, -2.2736392473142657e-10]
    terms += [9.6466689711385940e-11, 2.3952362242864285e-12, -6.8871564829849915e-12, 8.9550434714231981e-13]
    terms += [3.1222727777825390e-13, -1.1202811027701896e-13, -8.8187623181728080e-17, 7.3465607706926268e-15]
    one, two = 0, 0
    for term in reversed(terms[1:]):
        one, two = (4 * t - 2) * one - two + term, one
    series = (terms[0] + (4 * t - 2) * one) / 2 - two
    upper = t * exp_f64(mx.where(mx.isinf(size), -mx.inf, series - size * size))
    return mx.where(x < 0, 2 - upper, upper)


def erf_f64(x):
    """The error function in double precision."""
    square = x * x  # The series in the middle, where 1 - erfc(x) cancels.
    series = 1 - square / 3 + square**2 / 10 - square**3 / 42 + square**4 / 216 - square**5 / 1320
    return mx.where(mx.abs(x) < 0.1, 1.1283791670955126 * x * series, 1 - erfc_f64(x))


def gelu_f64(x):
    """x·Φ(x) in double precision."""
    return 0.5 * x * erfc_f64(x * -0.7071067811865476)


def gelu_approx_f64(x):
    """The gelu with tanh in double precision."""
    return x * sigmoid_f64(1.5957691216057308 * (x + 0.044715 * x * x * x))


def softmax_f64(x, axis):
    """exp(x - max)/Σ exp(x - max) in double precision."""
    powers = exp_f64(x - mx.max(x, axis=axis, keepdims=True))
    return powers / mx.sum(powers, axis=axis, keepdims=True)
