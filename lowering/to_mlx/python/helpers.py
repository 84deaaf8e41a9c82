"""Helpers that a printed module holds where it uses them. Each is a function of MLX arrays and plain numbers alone."""

import mlx.core as mx


def gelu(x):
    """x·Φ(x)."""
    return 0.5 * x * (1 + mx.erf(x * 0.7071067811865476))


def gelu_approx(x):
    """The gelu with tanh, written as a sigmoid: there is no cancellation."""
    return x * mx.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


def sign(x):
    """-1, 0 or 1; NaN stays NaN."""
    return mx.where(mx.isnan(x), x, mx.sign(x))


def float_mod(a, b):
    """The remainder with the sign of the dividend."""
    size = mx.remainder(mx.abs(a), mx.abs(b))
    return mx.where(a < 0, -size, size)


def int_div(a, b):
    """The quotient rounded toward zero; 0 where the divisor is 0."""
    divisor = mx.where((b == 0) | (b == -1), 1, b)
    quotient = a // divisor
    rounded_down = (quotient * divisor != a) & ((a < 0) != (divisor < 0))
    quotient = mx.where(rounded_down, quotient + 1, quotient)
    return mx.where(b == 0, 0, mx.where(b == -1, -a, quotient)).astype(a.dtype)


def unsigned_div(a, b):
    """The quotient; 0 where the divisor is 0."""
    return mx.where(b == 0, 0, a // mx.where(b == 0, 1, b)).astype(a.dtype)


def int_mod(a, b):
    """The remainder with the sign of the dividend; 0 where the divisor is 0."""
    return mx.where(b == 0, 0, a - int_div(a, b) * b).astype(a.dtype)


def unsigned_mod(a, b):
    """The remainder; 0 where the divisor is 0."""
    return mx.where(b == 0, 0, a - unsigned_div(a, b) * b).astype(a.dtype)


def int_power(a, b):
    """aᵇ, which wraps around; for a negative b the inverse truncated."""
    inverse = mx.where(mx.abs(a) == 1, mx.where(b % 2 == 0, 1, a), 0)
    return mx.where(b < 0, inverse, mx.power(a, mx.maximum(b, 0))).astype(a.dtype)


def shift_left(a, b, bits):
    """a·2ᵇ; 0 where all bits are shifted out."""
    inside = (b >= 0) & (b < bits)
    return mx.where(inside, a << mx.where(inside, b, 0), 0).astype(a.dtype)


def shift_right(a, b, bits):
    """a/2ᵇ rounded down; the sign remains where all bits are shifted out."""
    inside = (b >= 0) & (b < bits)
    return mx.where(inside, a >> mx.where(inside, b, 0), mx.where(a < 0, -1, 0)).astype(a.dtype)


def unsigned_shift_right(a, b, bits):
    """a/2ᵇ rounded down; 0 where all bits are shifted out."""
    return mx.where(b < bits, a >> mx.where(b < bits, b, 0), 0).astype(a.dtype)


def int_matmul(a, b):
    """The product of integer matrices, whose sums wrap around."""
    total = mx.zeros((*mx.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    for start in range(0, a.shape[-1], 64):  # So that no more than 64 products an element are kept.
        part = slice(start, start + 64)
        products = a[..., :, part, None] * b[..., None, part, :]
        total = total + products.sum(axis=-2).astype(a.dtype)
    return total


def byte_matmul(a, b):
    """The product of matrices of int32 from -255 to 255: sums of 256 products are exact in float32."""
    total = mx.zeros((*mx.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), mx.int32)
    for start in range(0, a.shape[-1], 256):
        part = slice(start, start + 256)
        product = a[..., part].astype(mx.float32) @ b[..., part, :].astype(mx.float32)
        total = total + product.astype(mx.int32)
    return total


def layer_norm(x, eps):
    """(x - mean)/√(variance + eps) over the last axis in x's own precision."""
    centered = x - mx.mean(x, axis=-1, keepdims=True)
    return centered * mx.rsqrt(mx.mean(centered * centered, axis=-1, keepdims=True) + eps)


def rms_norm(x, eps):
    """x/√(mean(x²) + eps) over the last axis in x's own precision."""
    return x * mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + eps)


def summed_to(x, shape):
    """x summed along the axes in which an array of that shape broadcasts to it."""
    padded = [1] * (x.ndim - len(shape)) + list(shape)
    axes = [axis for axis, (one, extent) in enumerate(zip(padded, x.shape, strict=True)) if one == 1 != extent]
    return (reduced(mx.sum, x, axes, False, 0) if axes else x).reshape(shape)


def ada_layer_norm_backward(x, scale, shift, dy, eps, centering):
    """The gradients by x, scale and shift of n(x)·(1 + scale) + shift, flattened one after the other."""
    centered = x - mx.mean(x, axis=-1, keepdims=True) if centering else x
    factor = mx.rsqrt(mx.mean(centered * centered, axis=-1, keepdims=True) + eps)
    norm, g = centered * factor, dy * (1 + scale)
    direct = g - mx.mean(g, axis=-1, keepdims=True) if centering else g
    dx = (direct - norm * mx.mean(g * norm, axis=-1, keepdims=True)) * factor
    parts = [dx, summed_to(dy * norm, scale.shape), summed_to(dy, shift.shape)]
    return mx.concatenate([part.flatten() for part in parts])


def log_softmax(x, exp):
    """log(exp(x)/Σ exp(x)) of each row."""
    shifted = x - mx.max(x, axis=-1, keepdims=True)
    return shifted - mx.log(mx.sum(exp(shifted), axis=-1, keepdims=True))


def reduced(reduce, x, axes, keepdims, empty):
    """A reduction of x, which gives ``empty`` where there is nothing to reduce: MLX's is undefined then."""
    if all(x.shape[axis] for axis in axes):
        return reduce(x, axis=axes, keepdims=keepdims)
    kept = [1 if axis in axes else extent for axis, extent in enumerate(x.shape) if keepdims or axis not in axes]
    return mx.full(kept, empty, x.dtype)


def windows(x, kernel, stride, padding, dilation, fill):
    """[N, C, output…, kernel…]: what a window that slides over the spatial axes of x [N, C, …] covers."""
    x = mx.contiguous(mx.pad(x, [(0, 0), (0, 0), *padding], constant_values=mx.array(fill, x.dtype)))
    steps = [1]
    for extent in reversed(x.shape[1:]):
        steps.insert(0, steps[0] * extent)
    outputs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    strides = (
        *steps[:2],
        *(n * s for n, s in zip(steps[2:], stride, strict=True)),
        *(n * d for n, d in zip(steps[2:], dilation, strict=True)),
    )
    return mx.as_strided(x, (*x.shape[:2], *outputs, *kernel), strides)


def grouped_conv(x, weight, groups, **options):
    """MLX's convolution, channels last, also with groups in three dimensions, which it does not have."""
    if groups == 1 or x.ndim < 5:
        return mx.conv_general(x, weight, groups=groups, **options)
    pairs = zip(mx.split(x, groups, axis=-1), mx.split(weight, groups, axis=0), strict=True)
    return mx.concatenate([mx.conv_general(a, b, **options) for a, b in pairs], axis=-1)


def conv(x, weight, stride, padding, dilation, groups):
    """Convolution of x [N, C, …] with weight [O, C/groups, …] by MLX's, whose channels are the last axis."""
    x, weight = mx.moveaxis(x, 1, -1), mx.moveaxis(weight, 1, -1)
    befores, afters = zip(*padding, strict=True)
    y = grouped_conv(x, weight, groups, stride=stride, padding=(befores, afters), kernel_dilation=dilation)
    return mx.moveaxis(y, -1, 1)


def window_conv(x, weight, stride, padding, dilation, groups):
    """Convolution of x [N, C, …] with weight [O, C/groups, …] in element types for which MLX has none."""
    covered = windows(x, weight.shape[2:], stride, padding, dilation, 0)
    rank = x.ndim - 2
    if not weight.shape[1]:
        return mx.zeros((x.shape[0], weight.shape[0], *covered.shape[2 : 2 + rank]), x.dtype)
    batch, channels, places = covered.shape[0], weight.shape[1], covered.shape[2 : 2 + rank]
    covered = covered.reshape(batch, groups, 1, channels, *places, *weight.shape[2:])
    kernel = weight.reshape(1, groups, weight.shape[0] // groups, channels, *[1] * rank, *weight.shape[2:])
    total = (covered * kernel).sum(axis=(3, *range(4 + rank, 4 + 2 * rank)))
    return total.reshape(batch, weight.shape[0], *places).astype(x.dtype)


def conv_transpose(x, weight, stride, padding, dilation, groups):
    """x [N, C, …] with zeros between its elements, convolved with the mirrored weight [C, O/groups, …]."""
    split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    kernel = mx.moveaxis(split, 1, -1).reshape(groups * weight.shape[1], *weight.shape[2:], split.shape[1])
    x = mx.moveaxis(x, 1, -1)
    befores, afters = zip(*padding, strict=True)
    options = {"padding": (befores, afters), "kernel_dilation": dilation, "input_dilation": stride, "flip": True}
    return mx.moveaxis(grouped_conv(x, kernel, groups, **options), -1, 1)


def conv_backward_weight(convolve, x, dy, kernel, stride, padding, dilation, groups):
    """The gradient of a convolution by its weight: one in which batch and channels change places."""
    batch, channels = x.shape[:2]
    split = x.reshape(batch, groups, channels // groups, *x.shape[2:]).swapaxes(0, 2)
    swapped = split.reshape(channels // groups, groups * batch, *x.shape[2:])
    value = convolve(swapped, dy.swapaxes(0, 1), dilation, padding, stride, groups)
    # Positions after the kernel's come from elements that the stride left over.
    return value[(slice(None), slice(None), *(slice(0, k) for k in kernel))].swapaxes(0, 1)


def max_pool_backward(x, dy, kernel, stride, padding, dilation):
    """dy added at the first greatest element of each window of x [N, C, …]."""
    rank = x.ndim - 2
    covered = windows(x, kernel, stride, padding, dilation, -mx.inf)
    size = 1
    for extent in x.shape[2:]:
        size *= extent
    numbers = mx.arange(size).reshape(1, 1, *x.shape[2:])
    places = windows(numbers, kernel, stride, padding, dilation, -1)
    covered = covered.reshape(*covered.shape[: 2 + rank], -1)
    places = places.reshape(*places.shape[: 2 + rank], -1)
    # Where all elements are -inf, padding is as great.
    hopeless = mx.max(covered, axis=-1) == -mx.inf
    first = mx.where(hopeless, mx.argmax((places >= 0).astype(mx.uint8), axis=-1), mx.argmax(covered, axis=-1))
    place = mx.take_along_axis(mx.broadcast_to(places, covered.shape), first[..., None], axis=-1)
    rows = mx.arange(x.shape[0] * x.shape[1]).reshape(-1, 1)
    index = place.reshape(rows.shape[0], -1)
    total = mx.zeros((rows.shape[0], size), dy.dtype).at[rows, index].add(dy.reshape(index.shape))
    return total.reshape(x.shape)


def replaced(data, index, updates):
    """A copy of data with updates at an index."""
    result = mx.array(data)
    result[index] = updates
    return result


def joined(join, data, index, updates):
    """Data with updates joined in by mx.maximum or mx.minimum; MLX's own scatters forget NaN."""
    found = data.at[index].maximum(updates) if join is mx.maximum else data.at[index].minimum(updates)
    unordered = mx.isnan(data).astype(mx.int32).at[index].maximum(mx.isnan(updates).astype(mx.int32))
    return mx.where(unordered != 0, mx.array(float("nan"), data.dtype), found)


def appended(cache, update, axis, pos):
    """The cache with update over the positions from ``pos`` on along an axis."""
    if pos + update.shape[axis] > cache.shape[axis]:
        raise ValueError(f"position {pos + update.shape[axis]} is outside extent {cache.shape[axis]} of a cache")
    return mx.slice_update(cache, update, mx.array([pos]), axes=[axis])


def arg_reduced(find, x, axis, keepdims):
    """The index of a greatest or least element, also for an x without elements, where MLX's refuses."""
    if x.size:
        return find(x, axis=axis, keepdims=keepdims)
    return mx.zeros([1 if a == axis else n for a, n in enumerate(x.shape) if keepdims or a != axis], mx.uint32)


def taken(x, axis, positions):
    """The elements at these positions along an axis."""
    return mx.take(x, mx.array(positions, mx.int32), axis=axis)


def mirrored(x, axis, before, after):
    """x with its mirror image in front and behind along an axis; the edge is not repeated."""
    last = x.shape[axis] - 1
    positions = [abs(i) if i <= last else 2 * last - i for i in range(-before, last + 1 + after)]
    return taken(x, axis, positions)


def wrapped(x, axis, before, after):
    """x with its other end in front and behind along an axis."""
    return taken(x, axis, [i % x.shape[axis] for i in range(-before, x.shape[axis] + after)])


def sorted_indices(x, axis, descending):
    """The indices that sort x; equal elements keep their order, and NaN is the greatest."""
    if not descending:
        return mx.argsort(x, axis=axis)
    # Backwards twice, so that equal elements keep their order.
    return x.shape[axis] - 1 - mx.flip(mx.argsort(mx.flip(x, axis), axis=axis), axis).astype(mx.int32)


def band(queries, keys, window=None):
    """Which keys each query sees: none after its own, and with a window no more than that many before it."""
    last = mx.arange(queries)[:, None] + (keys - queries)
    seen = mx.arange(keys) <= last
    return seen if window is None else seen & (mx.arange(keys) >= last - window)


def attention(q, k, v, scale, seen):
    """Attention to the keys that are seen; a query that sees none weighs all the same."""
    value = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=seen)
    if not v.shape[2]:
        return value
    mean = mx.repeat(mx.mean(v, axis=2, keepdims=True), q.shape[1] // v.shape[1], axis=1)
    return mx.where(mx.any(seen, axis=-1, keepdims=True), value, mean)


def causal_attention(q, k, v, scale):
    """Attention to the keys up to the own one, counted from the end."""
    if q.shape[2] <= k.shape[2]:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")
    return attention(q, k, v, scale, band(q.shape[2], k.shape[2]))


def plain_attention(q, k, v, scale, weigh, softcap=None, bias=None, seen=None):
    """Attention as products and a softmax, with bounded scores."""
    groups = q.shape[1] // k.shape[1]
    weights = attention_weights(q, mx.repeat(k, groups, axis=1), scale, weigh, softcap, bias, seen)
    return weights @ mx.repeat(v, groups, axis=1)


def attention_weights(q, k, scale, weigh, softcap=None, bias=None, seen=None):
    """How much each key counts."""
    scores = (q @ k.swapaxes(2, 3)) * scale
    if softcap is not None:
        scores = softcap * mx.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = mx.where(seen, scores, -1e9)
    return weigh(scores, axis=-1)


def attention_gradients(q, k, v, dy, scale, weigh, bias=None, seen=None):
    """The gradients by q, k and v, all with heads in front of the sequence."""
    heads = k.shape[1]
    groups = q.shape[1] // heads
    k, v = mx.repeat(k, groups, axis=1), mx.repeat(v, groups, axis=1)
    weights = attention_weights(q, k, scale, weigh, bias=bias, seen=seen)
    d_weights = dy @ v.swapaxes(2, 3)
    d_scores = weights * (d_weights - (weights * d_weights).sum(axis=-1, keepdims=True)) * scale
    if seen is not None:
        d_scores = mx.where(seen, d_scores, 0)

    def of_heads(x):
        return x.reshape(x.shape[0], heads, groups, *x.shape[2:]).sum(axis=2)

    return d_scores @ k, of_heads(d_scores.swapaxes(2, 3) @ q), of_heads(weights.swapaxes(2, 3) @ dy)


def rotated(x, cos, sin, axis, lanes, traditional):
    """x [B, S, H, D] (axis 1) or [B, H, S, D] (axis 2), its first lanes turned in pairs by angles of these cos, sin."""
    half = lanes // 2
    cos, sin = cos[: x.shape[axis], :half], sin[: x.shape[axis], :half]
    if axis == 1:
        cos, sin = cos[:, None], sin[:, None]
    a, b = (x[..., 0:lanes:2], x[..., 1:lanes:2]) if traditional else (x[..., :half], x[..., half:lanes])
    first, second = a * cos - b * sin, b * cos + a * sin
    if traditional:
        turned = mx.stack([first, second], axis=-1).reshape(*x.shape[:3], lanes)
    else:
        turned = mx.concatenate([first, second], axis=-1)
    return turned if lanes == x.shape[3] else mx.concatenate([turned, x[..., lanes:]], axis=-1)


def fft(x, inverse, scale):
    """The Fourier transform along the last axis, which holds complex numbers, times a number."""
    if not x.shape[-1]:
        return x
    return mx.fft.ifft(x) * (x.shape[-1] * scale) if inverse else mx.fft.fft(x) * scale


def split_fft(x, inverse, scale):
    """:func:`fft` of real parts in front of imaginary ones."""
    real, imaginary = mx.split(x, 2, axis=-1)
    spectrum = fft(real + 1j * imaginary, inverse, scale)
    return mx.concatenate([mx.real(spectrum), mx.imag(spectrum)], axis=-1)


def power_spectrum(spectrum):
    """|X|² of the frequencies from 0 to half the rate; real parts are in front of imaginary ones."""
    real, imaginary = mx.split(spectrum, 2, axis=-1)
    return (real * real + imaginary * imaginary)[..., : real.shape[-1] // 2 + 1]


def welch_peaks(spectrum, k, segments):
    """Pairs of bin and power of the k strongest frequencies, averaged over segments."""
    power = power_spectrum(spectrum)
    bins = power.shape[-1]
    inner = mx.arange(bins)
    power = power * mx.where((inner == 0) | (inner == bins - 1), 1.0, 2.0)
    mean = power.reshape(power.shape[0] // segments, segments, bins).mean(axis=1)
    order = sorted_indices(mean, 1, True)[:, :k]
    pairs = mx.stack([order.astype(mx.float32), mx.take_along_axis(mean, order, axis=1)], axis=-1)
    return mx.pad(pairs.reshape(pairs.shape[0], 2 * order.shape[1]), [(0, 0), (0, 2 * (k - order.shape[1]))])


def log_mel(spectrum, filters):
    """(max(v, greatest v - 8) + 4)/4 for v = log10(max(filters·|X|², 1e-10))."""
    energy = (power_spectrum(spectrum)[..., None, :] @ filters.T)[..., 0, :]
    mel = mx.log10(mx.maximum(energy, 1e-10))
    return (mx.maximum(mel, mx.max(mel, axis=-1, keepdims=True) - 8.0) + 4.0) / 4.0


def log_mel_backward(spectrum, filters, dy):
    """The gradient of :func:`log_mel` by the spectrum; what is cut off belongs to the first greatest value."""
    energy = (power_spectrum(spectrum)[..., None, :] @ filters.T)[..., 0, :]
    mel = mx.log10(mx.maximum(energy, 1e-10))
    kept = mel >= mx.max(mel, axis=-1, keepdims=True) - 8.0
    cut = mx.where(kept, 0, dy / 4).sum(axis=-1, keepdims=True)
    first = mx.arange(mel.shape[-1]) == mx.argmax(mel, axis=-1, keepdims=True)
    d_mel = mx.where(kept, dy / 4, 0) + mx.where(first, cut, 0)
    d_energy = mx.where(energy > 1e-10, d_mel / (mx.maximum(energy, 1e-10) * 2.302585092994046), 0)
    d_power = (d_energy[..., None, :] @ filters)[..., 0, :]
    halves = mx.split(spectrum, 2, axis=-1)
    bins = d_power.shape[-1]
    none = mx.zeros((*spectrum.shape[:-1], halves[0].shape[-1] - bins))
    parts = [part for half in halves for part in (2 * half[..., :bins] * d_power, none)]
    return mx.concatenate(parts, axis=-1)


def solve(a, b):
    """The x with a·x = b; NaN for a matrix that has no inverse."""
    singular = (mx.linalg.slogdet(a, stream=mx.cpu)[0] == 0)[..., None, None]
    regular = mx.where(singular, mx.eye(a.shape[-1], dtype=a.dtype), a)
    return mx.where(singular, mx.nan, mx.linalg.solve(regular, b, stream=mx.cpu))


def solve_triangular(a, b, upper):
    """The x with a·x = b for a triangular a; NaN where it has no inverse."""
    one = mx.eye(a.shape[-1], dtype=a.dtype)
    singular = mx.any(mx.diagonal(a, axis1=-2, axis2=-1) == 0, axis=-1)[..., None, None]
    triangle = mx.triu(a) if upper else mx.tril(a)
    regular = mx.where(singular, one, triangle)
    return mx.where(singular, mx.nan, mx.linalg.solve_triangular(regular, b, upper=upper, stream=mx.cpu))


def cholesky(a):
    """The lower triangular factor; NaN for a matrix that is not positive definite."""
    factor = mx.linalg.cholesky(a, stream=mx.cpu)
    definite = mx.all(mx.diagonal(factor, axis1=-2, axis2=-1) > 0, axis=-1)[..., None, None]
    return mx.where(definite, factor, mx.nan)


def log_det(a):
    """The logarithm of the determinant: -inf where that is 0, NaN where it is negative."""
    sign, logarithm = mx.linalg.slogdet(a, stream=mx.cpu)
    return mx.where(sign < 0, mx.nan, logarithm)


def encode(x, mantissa, least_exponent, greatest, sign, nan, negative_zero):
    """The codes of x as floats with so many bits of mantissa: nearest, ties to even, saturating at ``greatest``."""
    size = mx.minimum(mx.abs(x), greatest)
    exponent = mx.maximum((size.view(mx.uint32) >> 23).astype(mx.int32) - 127, least_exponent)
    step = ((exponent - mantissa + 127) << 23).view(mx.float32)
    code = ((exponent - least_exponent) << mantissa) + mx.round(size / step).astype(mx.int32)
    negative = (x.view(mx.uint32) >> 31) != 0
    if not negative_zero:
        negative = negative & (code != 0)
    code = mx.where(negative, code | sign, code)
    return mx.where(mx.isnan(x), nan, code).astype(mx.uint8)


def blocks_of(x, block):
    """The greatest size of each block of the last axis, the last one of which may be shorter."""
    return mx.concatenate(
        [mx.max(x[..., s : s + block], axis=-1, keepdims=True) for s in range(0, x.shape[-1], block)], axis=-1
    )


def power_scales(most, greatest_exponent):
    """The bytes of powers of two with which these greatest sizes still have a code."""
    exponent = (most.view(mx.uint32) >> 23).astype(mx.int32) - 127
    byte = mx.clip(exponent - greatest_exponent + 127, 0, 254)
    byte = mx.where(mx.isinf(most), 254, mx.where(most == 0, 127, byte))
    return mx.where(mx.isnan(most), 255, byte).astype(mx.uint8)
