"""What a single process sees of a GPU; prints a line for each thing that is as CUDA promises."""

import tempfile
import threading

import torch
from torch import nn


def holds(name, rule):
    if not rule:
        raise SystemExit(f"broken: {name}")
    print("holds", name, flush=True)


assert torch.cuda.is_available()
properties = torch.cuda.get_device_properties(0)
holds("profile", "A100" in properties.name and (properties.major, properties.minor) == (8, 0))

# Generators: a state is a seed and an offset, and restores what follows.
torch.cuda.manual_seed(7)
state = torch.cuda.get_rng_state()
first, second = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
torch.cuda.set_rng_state(state)
holds("generator", torch.equal(first, torch.rand(1000, device="cuda")) and not torch.equal(first, second))
holds("uniform", 0.45 < first.mean().item() < 0.55)
before = torch.get_rng_state()
nn.functional.dropout(torch.ones(100, device="cuda"))
holds("the CPU's generator is left alone", torch.equal(before, torch.get_rng_state()))

# Memory: counted, and at an end where the profile's is.
base = torch.cuda.memory_allocated()
kept = torch.empty(1 << 20, device="cuda")
holds("memory_allocated", torch.cuda.memory_allocated() - base == 4 << 20)
try:
    torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
    holds("out of memory", False)
except torch.cuda.OutOfMemoryError:
    holds("out of memory", True)

# Streams are queues, and operations wait for theirs.
side = torch.cuda.Stream()
pinned = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
with torch.cuda.stream(side):
    there = pinned.to("cuda", non_blocking=True)
    doubled = there + there
torch.cuda.current_stream().wait_stream(side)
doubled.record_stream(torch.cuda.current_stream())
holds("streams", torch.equal(doubled.cpu(), 2 * pinned))
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
torch.empty(64 << 20, device="cuda").copy_(torch.zeros(64 << 20).pin_memory(), non_blocking=True)
end.record()
end.synchronize()
holds("events", start.elapsed_time(end) >= 0 and end.query())

# Layers that torch has kernels of its own for.
torch.manual_seed(0)
for name, layer, shape in (
    ("lstm", nn.LSTM(4, 6, 2), (3, 2, 4)),
    ("gru", nn.GRU(4, 6, 2), (3, 2, 4)),
    ("depthwise", nn.Conv2d(4, 4, 3, groups=4), (2, 4, 6, 6)),
    ("attention", nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
):
    rows = torch.randn(shape)
    results = []
    for device in ("cpu", "cuda"):
        layer.zero_grad()
        layer.to(device)
        out = layer(rows.to(device))
        out = out[0] if isinstance(out, tuple) else out
        out.square().sum().backward()
        results.append((out.detach().cpu(), [p.grad.detach().cpu() for p in layer.parameters()]))
    (want, wanted), (got, grads) = results
    close = torch.allclose(want, got, atol=1e-5)
    holds(name, close and all(torch.allclose(a, b, atol=1e-4) for a, b in zip(wanted, grads)))

scaler = torch.amp.GradScaler("cuda")
net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = net(torch.ones(2, 4, device="cuda")).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
holds("scaler and fused optimizer", scaler.get_scale() > 0)

loader = torch.utils.data.DataLoader(torch.arange(64.0), batch_size=8, num_workers=2, pin_memory=True)
holds("workers", sum(batch.cuda().sum().item() for batch in loader) == 2016)
compiled = torch.compile(lambda x: torch.relu(x) * 2, backend="aot_eager")
holds("compile", compiled(torch.ones(3, device="cuda")).sum().item() == 6)
with tempfile.NamedTemporaryFile() as file:
    torch.save(net.state_dict(), file.name)
    holds("save and load", torch.equal(torch.load(file.name)["weight"], net.weight))

# What cannot be done says so.
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        kept.add_(1)
    holds("graphs of operations are refused", False)
except RuntimeError as error:
    holds("graphs of operations are refused", "cannot be captured" in str(error))

results = []
threads = [threading.Thread(target=lambda: results.append(torch.ones(9, device="cuda").sum().item())) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
holds("threads", results == [9.0] * 4)
