"""One epoch of scikit-learn's digits by DistributedDataParallel, 2 nodes x 4 ranks: `nccl` and CUDA here against gloo
and the CPU; and the report's counts against what the script called.

    python verification/torch/digits.py     with the Python of `fakegpu setup torch`, and scikit-learn in it

Each side is an ordinary script (`train` below), also with `device_id=` and with non-blocking communicators. These print
the same to the last digit. Gloo adds 8 ranks' gradients in another order than NCCL does, so its last digit may be one
off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FAKEGPU = Path(os.environ.get("FAKEGPU_LAYOUT", Path(__file__).parents[2] / "target/fakegpu")) / "bin/fakegpu"
NODES, RANKS_PER_NODE = 2, 4
BATCH, BARRIERS = 32, 2


def train(backend: str, binds_device: bool) -> None:
    """What a rank does. Nothing in it knows of FakeGPU."""
    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    cuda = backend == "nccl"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(backend, **({"device_id": device} if binds_device else {}))
    rows, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(rows / 16.0, dtype=torch.float32), torch.tensor(labels))
    sampler = DistributedSampler(digits, seed=1)
    sampler.set_epoch(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    dist.barrier()
    steps = 0
    for batch, wanted in DataLoader(digits, batch_size=BATCH, sampler=sampler):
        loss = nn.functional.cross_entropy(model(batch.to(device)), wanted.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        print(f"result {dist.get_rank()} loss {steps} {loss.item():.6f}", flush=True)
    right = (model(digits.tensors[0].to(device)).argmax(1).cpu() == digits.tensors[1]).sum().item()
    size = sum(parameter.double().square().sum().item() for parameter in model.parameters())
    print(f"result {dist.get_rank()} right {right} of {len(digits)}, parameters {size:.6f}", flush=True)
    dist.barrier()
    if dist.get_rank() == 0:
        gradients = sum(parameter.numel() for parameter in model.parameters()) * 4
        print("shape", json.dumps({"steps": steps, "gradient_bytes": gradients}), flush=True)
    dist.destroy_process_group()


def run(backend: str, *more: str, **env: str) -> tuple[list[str], dict[str, int], dict]:
    """One side: its results in order, its shape, and the report."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--nodes", str(NODES), "--ranks-per-node", str(RANKS_PER_NODE), "--report", folder]
        program = [sys.executable, __file__, "--rank", backend, *more]
        outcome = subprocess.run(
            [str(FAKEGPU), "run", *place, "--", *program],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **env},
        )
        if outcome.returncode != 0:
            raise SystemExit(f"{backend} ended with {outcome.returncode}:\n{outcome.stdout}{outcome.stderr}")
        said = [line.split("] ", 1)[-1] for line in outcome.stdout.splitlines()]
        shape = next(json.loads(line.split(" ", 1)[1]) for line in said if line.startswith("shape "))
        reports = list(Path(folder).rglob("*.json"))
        report = json.loads(next(path for path in reports if "report" in path.name).read_text())
        return sorted(line for line in said if line.startswith("result ")), shape, report


def check(name: str, differences: list[str]) -> bool:
    """Says how a comparison came out."""
    print(f"{'DIFFERENT' if differences else 'same'}  {name}", *differences[:5], sep="\n    ", flush=True)
    return not differences


def differ(seen: list[str], wanted: list[str], tolerance: float) -> list[str]:
    """Lines whose words are not the same, or whose numbers are further apart."""

    def is_same(one: str, other: str) -> bool:
        if one == other:
            return True
        try:
            return abs(float(one) - float(other)) <= tolerance
        except ValueError:
            return False

    def are_same(one: str, other: str) -> bool:
        (ones, others) = (one.split(), other.split())
        return len(ones) == len(others) and all(map(is_same, ones, others))

    if len(seen) != len(wanted):
        return [f"{len(seen)} lines against {len(wanted)}"]
    return [f"{one}  against  {other}" for one, other in zip(seen, wanted) if not are_same(one, other)]


def miscounted(report: dict, shape: dict[str, int]) -> list[str]:
    """Where the report does not say what the script called."""
    kinds = report["collectives"]
    parameters = shape["gradient_bytes"]
    # DDP broadcasts its parameters' shapes, too; they are small.
    shapes = kinds["broadcast"]["bytes"] - parameters
    facts = {
        f"all_reduce: one a step, {shape['steps']}": kinds["all_reduce"]["calls"] == shape["steps"],
        "all_reduce: the gradients' bytes": kinds["all_reduce"]["bytes"] == shape["steps"] * parameters,
        "broadcast: the parameters' bytes, and less than 1 KiB about them": 0 <= shapes < 1024,
        f"barrier: {BARRIERS}": kinds["barrier"]["calls"] == BARRIERS,
    }
    return [f"{fact}: {kinds}" for fact, holds in facts.items() if not holds]


def main() -> None:
    if "--rank" in sys.argv:
        at = sys.argv.index("--rank")
        return train(sys.argv[at + 1], "--device-id" in sys.argv)
    gloo, shape, _ = run("gloo")
    nccl, _, report = run("nccl")
    wanted = shape["steps"] + 1
    ranks = NODES * RANKS_PER_NODE
    is_right = check(f"{ranks} ranks print {wanted} lines each", [] if len(gloo) == wanted * ranks else [str(len(gloo))])
    is_right &= check("nccl and gloo, to 0.000002", differ(nccl, gloo, 0.000002))
    is_right &= check("the report's all-reduces, broadcasts and barriers", miscounted(report, shape))
    ways = {
        "device_id": (["--device-id"], {}),
        "non-blocking communicators": ([], {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"}),
    }
    for name, (more, env) in ways.items():
        results, _, _ = run("nccl", *more, **env)
        is_right &= check(f"nccl with {name}", differ(results, nccl, 0.0))
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
