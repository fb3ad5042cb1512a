"""A small transformer's training step on 4 ranks: `nccl` and CUDA here against gloo and the CPU, in one run.

    python verification/torch/bench.py [--ranks N] [--rounds N]     with the Python of `fakegpu setup torch`

Prints medians in milliseconds and their ratio, and for all_reduce microseconds by size. Both sides run with
OMP_NUM_THREADS=1, turn about, so that a busy machine is busy for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

FAKEGPU = Path(os.environ.get("FAKEGPU_LAYOUT", Path(__file__).parents[2] / "target/fakegpu")) / "bin/fakegpu"
SIZES = (1, 1_000, 1_000_000)


def side(backend: str, ranks: int) -> dict[str, float]:
    """One run of one side: what rank 0 measured."""
    command = [str(FAKEGPU), "run", "--ranks-per-node", str(ranks), "--report", f"/tmp/fakegpu-bench-{os.getpid()}", "--"]
    outcome = subprocess.run(
        [*command, sys.executable, __file__, "--rank", backend], capture_output=True, text=True, timeout=600
    )
    for line in outcome.stdout.splitlines():
        if "figures " in line:
            return json.loads(line.split("figures ", 1)[1])
    raise SystemExit(f"{backend} gave no figures:\n{outcome.stdout}{outcome.stderr}")


def measure(backend: str) -> None:
    """A rank: trains, reduces, and rank 0 prints."""
    import time

    import torch
    import torch.distributed as dist
    from torch import nn

    cuda = backend == "nccl"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    net = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 64)).to(device)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = torch.randn(8, 32, 64).to(device)

    def step() -> None:
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        if cuda:
            torch.cuda.synchronize()

    def median(action, count: int, scale: float) -> float:
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            action()
            times.append((time.perf_counter() - begun) * scale)
        return statistics.median(times[count // 5 :])

    figures = {"step": median(step, 40, 1e3)}
    for size in SIZES:
        values = torch.ones(size, device=device)

        def reduce(values=values) -> None:
            dist.all_reduce(values)
            if cuda:
                torch.cuda.synchronize()

        figures[f"all_reduce {size}"] = median(reduce, 60, 1e6)
    if dist.get_rank() == 0:
        print("figures " + json.dumps(figures), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank:
        measure(chosen.rank)
        return
    ours, theirs = [], []
    for _ in range(chosen.rounds):
        ours.append(side("nccl", chosen.ranks))
        theirs.append(side("gloo", chosen.ranks))
    print(f"| {chosen.ranks} ranks | nccl and CUDA here | gloo and CPU | ratio |\n|---|---|---|---|")
    for name in ours[0]:
        mine = statistics.median(run[name] for run in ours)
        others = statistics.median(run[name] for run in theirs)
        unit = "ms" if name == "step" else "us"
        print(f"| {name} | {mine:.2f} {unit} | {others:.2f} {unit} | {mine / others:.2f} |")


if __name__ == "__main__":
    main()
