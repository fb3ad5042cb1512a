"""Operations that torch has for CUDA only, written with CPU operations: synchronized batch norm, fused cells, products
with a wider result, depthwise convolutions.

Each has its operation's arguments and results, on CPU tensors. Sums are made in at least 32 bits, as CUDA makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _over_channels(tensor: Tensor) -> list[int]:
    return [axis for axis in range(tensor.dim()) if axis != 1]


def _channels(values: Tensor, like: Tensor) -> Tensor:
    """Values by channel, so that they combine with a batch."""
    return values.reshape([1, -1, *([1] * (like.dim() - 2))])


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(_wide(input), _over_channels(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    result = (_wide(input) - _channels(mean, input)) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(_wide(weight), input)
    if bias is not None:
        result = result + _channels(_wide(bias), input)
    return result.to(input.dtype)


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    counts = counts.to(mean.dtype).reshape(-1, 1)
    total = counts.sum()
    variance = invstd.pow(-2) - eps
    whole = (mean * counts).sum(0) / total
    spread = ((variance + (mean - whole).square()) * counts).sum(0)
    if running_mean is not None:
        running_mean.lerp_(whole.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((spread / (total - 1)).to(running_var.dtype), momentum)
    return whole, torch.rsqrt(spread / total + eps)


def batch_norm_gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    counts = torch.full((mean.size(0),), float(count), dtype=mean.dtype)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    grad, axes = _wide(grad_out), _over_channels(input)
    sum_dy = grad.sum(axes)
    sum_dy_xmu = (grad * (_wide(input) - _channels(mean, input))).sum(axes)
    kind = weight.dtype if weight is not None else input.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(kind) if weight_g else None,
        sum_dy.to(kind) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    total = count.sum().to(sum_dy.dtype)
    scale = invstd if weight is None else invstd * _wide(weight)
    slope = sum_dy_xmu / total * invstd.square()
    centred = _wide(input) - _channels(mean, input)
    grad = _wide(grad_out) - _channels(sum_dy / total, input) - centred * _channels(slope, input)
    return (grad * _channels(scale, input)).to(input.dtype)


def _gates(input_gates: Tensor, hidden_gates: Tensor, input_bias: Tensor | None, hidden_bias: Tensor | None) -> Tensor:
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias
    return gates if hidden_bias is None else gates + hidden_bias


def fused_lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    gates = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    let_in, forget, new, out = gates.chunk(4, 1)
    let_in, forget, new, out = let_in.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    cy = forget * cx + let_in * new
    return out * cy.tanh(), cy, torch.cat([let_in, forget, new, out], 1)


def fused_lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    let_in, forget, new, out = workspace.chunk(4, 1)
    shown = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_cell = grad_hy * out * (1 - shown.square())
    grad_cell = grad_cell if grad_cy is None else grad_cell + grad_cy
    grad_gates = torch.cat(
        [
            grad_cell * new * let_in * (1 - let_in),
            grad_cell * cx * forget * (1 - forget),
            grad_cell * let_in * (1 - new.square()),
            grad_hy * shown * out * (1 - out),
        ],
        1,
    )
    return grad_gates, grad_cell * forget, grad_gates.sum(0) if has_bias else None


def fused_gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    inputs = input_gates if input_bias is None else input_gates + input_bias
    hiddens = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    (ir, iz, inew), (hr, hz, hnew) = inputs.chunk(3, 1), hiddens.chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + reset * hnew).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, hnew], 1)


def fused_gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, update, new, hx, hnew = workspace.chunk(5, 1)
    grad_new = grad_hy * (1 - update) * (1 - new.square())
    grad_update = grad_hy * (hx - new) * update * (1 - update)
    grad_reset = grad_new * hnew * reset * (1 - reset)
    grad_inputs = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_hiddens = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    biases = (grad_inputs.sum(0), grad_hiddens.sum(0)) if has_bias else (None, None)
    return grad_inputs, grad_hiddens, grad_hy * update, *biases


def fused_rms_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    axes = list(range(input.dim() - len(normalized_shape), input.dim()))
    grad, normed = _wide(grad_out), _wide(input) * rstd
    scaled = grad if weight is None else grad * _wide(weight)
    grad_input = (scaled - normed * (scaled * normed).mean(axes, keepdim=True)) * rstd
    grad_weight = None
    if weight is not None and output_mask[1]:
        others = list(range(axes[0]))
        grad_weight = ((grad * normed).sum(others) if others else grad * normed).to(weight.dtype)
    return grad_input.to(input.dtype) if output_mask[0] else None, grad_weight


def fused_dropout(input: Tensor, p: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """``p`` is the probability of keeping a value."""
    kept = torch.rand(input.size(), generator=generator) < p
    return input * kept / p, kept.to(torch.uint8)


def masked_scale(input: Tensor, mask: Tensor, scale: float) -> Tensor:
    return (input * mask * scale).to(input.dtype)


def depthwise(
    input: Tensor,
    weight: Tensor,
    kernel_size: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    convolve = torch.conv2d if input.dim() == 4 else torch.conv3d
    return convolve(input, weight, bias, stride, padding, dilation, groups=input.size(1))


def _product(multiply: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda left, right, out_dtype: multiply(left.to(out_dtype), right.to(out_dtype))


def _sum_of_product(multiply: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(added: Tensor, left: Tensor, right: Tensor, out_dtype: torch.dtype, **factors: Any) -> Tensor:
        return multiply(added.to(out_dtype), left.to(out_dtype), right.to(out_dtype), **factors)

    return run


#: By the operation's full name.
WRITTEN: dict[str, Callable[..., Any]] = {
    "aten::batch_norm_stats": batch_norm_stats,
    "aten::batch_norm_elemt": batch_norm_elemt,
    "aten::batch_norm_gather_stats": batch_norm_gather_stats,
    "aten::batch_norm_gather_stats_with_counts": batch_norm_gather_stats_with_counts,
    "aten::batch_norm_backward_reduce": batch_norm_backward_reduce,
    "aten::batch_norm_backward_elemt": batch_norm_backward_elemt,
    "aten::_thnn_fused_lstm_cell": fused_lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": fused_lstm_cell_backward,
    "aten::_thnn_fused_gru_cell": fused_gru_cell,
    "aten::_thnn_fused_gru_cell_backward": fused_gru_cell_backward,
    "aten::_fused_rms_norm_backward": fused_rms_norm_backward,
    "aten::_fused_dropout": fused_dropout,
    "aten::_masked_scale": masked_scale,
    "aten::_conv_depthwise2d": depthwise,
    "aten::conv_depthwise3d": depthwise,
    "aten::mm.dtype": _product(torch.mm),
    "aten::bmm.dtype": _product(torch.bmm),
    "aten::addmm.dtype": _sum_of_product(torch.addmm),
    "aten::baddbmm.dtype": _sum_of_product(torch.baddbmm),
}
