"""Every operation of torch's own database, on CUDA tensors against the CPU: values and gradients.

    fakegpu exec -- python opinfo.py [--only NAME] [--samples N]

Prints each operation that differs, with the reason that EXCEPTIONS states for it, and a line with the totals. The exit
status is 1 where an operation differs that EXCEPTIONS does not list, or one that it lists does not differ any more.
Needs torch's test packages (`pip install expecttest`).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

#: Operations that differ, and why.
EXCEPTIONS: dict[str, str] = {
    "as_strided.partial_views": "the sample is a view of a larger storage, which moving to the GPU leaves behind",
    "histogram": "CUDA has no such operation",
    "histogramdd": "CUDA has no such operation",
    "nn.functional.multi_head_attention_forward": "drops out at random, with a generator of the device's",
    "nn.functional.scaled_dot_product_attention": "drops out at random, with a generator of the device's",
    "sparse.mm.reduce": "CUDA has no such operation",
    "tensor_split": "the indices must be on the CPU, on a GPU too",
    "to_sparse": "sums sparse tensors by a kernel, which is refused",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "CUDA has no such operation",
}

#: Operations whose values are random or not set at all.
RANDOM = (
    "bernoulli multinomial normal randn rand randint dropout uniform exponential cauchy geometric log_normal empty rrelu "
    "fractional"
).split()


def on_cuda(values: Any) -> Any:
    """The same values on the GPU; a tensor that is there twice stays one tensor."""
    made: dict[int, torch.Tensor] = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in made:
                made[id(value)] = value.detach().to("cuda").requires_grad_(value.requires_grad)
            return made[id(value)]
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device("cuda")
        return value

    return tree_map(move, values)


def tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> None:
    if theirs.layout != torch.strided:
        ours, theirs = ours.to_dense(), theirs.to_dense()
    torch.testing.assert_close(
        ours.detach().cpu(), theirs.detach(), equal_nan=True, rtol=tolerance, atol=tolerance, check_stride=False
    )


def gradients(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    roots = [each for each in results if each.requires_grad and (each.is_floating_point() or each.is_complex())]
    if not roots:
        return []
    total = sum(each.abs().sum() if each.is_complex() else each.sum() for each in roots)
    total.backward()
    return [each.grad for each in inputs if each.requires_grad]


def is_random(once: Any, again: Any) -> bool:
    """Whether the CPU alone gives two answers, as with dropout."""
    pairs = zip(tensors(once), tensors(again), strict=True)
    return not all(one.layout != torch.strided or torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)


def check(operation: Any, sample: Any) -> None:
    """Raises where the two differ; a sample that the CPU itself refuses says nothing."""
    arguments = (sample.input, sample.args, sample.kwargs)
    moved = on_cuda(arguments)
    # Samples share tensors.
    for each in tensors(arguments):
        each.grad = None
    try:
        expected = operation(arguments[0], *arguments[1], **arguments[2])
        if is_random(expected, operation(arguments[0], *arguments[1], **arguments[2])):
            return
    except Exception:
        return
    got = operation(moved[0], *moved[1], **moved[2])
    wanted, found = tensors(expected), tensors(got)
    for theirs, ours in zip(wanted, found, strict=True):
        close(ours, theirs, 1e-4)
    if operation.supports_autograd:
        theirs, ours = gradients(wanted, tensors(arguments)), gradients(found, tensors(moved))
        for one, other in zip(theirs, ours, strict=True):
            if one is not None and other is not None:
                close(other, one, 1e-3)


def outcome(operation: Any, count: int) -> str | None:
    """What is wrong with an operation; `None` for nothing, "skipped" where nothing can be said."""
    if any(word in operation.name for word in RANDOM):
        return "skipped"
    kinds = [kind for kind in (torch.float32, torch.complex64, torch.int64, torch.bool) if kind in operation.dtypes]
    if not kinds:
        return "skipped"
    grad = operation.supports_autograd and (kinds[0].is_floating_point or kinds[0].is_complex)
    try:
        samples = [each for each, _ in zip(operation.sample_inputs("cpu", kinds[0], requires_grad=grad), range(count))]
    except Exception:
        return "skipped"
    for sample in samples:
        try:
            check(operation, sample)
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="operations whose name holds this")
    parser.add_argument("--samples", type=int, default=3)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    equal = skipped = 0
    differ: dict[str, str] = {}
    for operation in op_db:
        if chosen.only and chosen.only not in operation.name:
            continue
        name = f"{operation.name}.{operation.variant_test_name}" if operation.variant_test_name else operation.name
        wrong = outcome(operation, chosen.samples)
        if wrong == "skipped":
            skipped += 1
        elif wrong is None:
            equal += 1
        else:
            differ[name] = wrong
            print(f"{name}: {EXCEPTIONS.get(name, wrong)}", flush=True)
    stale = [] if chosen.only else [name for name in EXCEPTIONS if name not in differ]
    for name in stale:
        print(f"{name}: listed as an exception, and equal now", flush=True)
    checked = equal + len(differ)
    print(f"{equal} of {checked} operations equal ({100 * equal / max(checked, 1):.1f} %), {skipped} skipped")
    return int(bool(stale) or any(name not in EXCEPTIONS for name in differ))


if __name__ == "__main__":
    sys.exit(main())
