"""A trainer with snapshots, distributed by DDP: what torch's "multi-GPU with torchrun" tutorial builds up to. It trains some
epochs, saves, starts again from the snapshot, and goes on. Also a communication hook, as its DDP notes have."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Line(Dataset):
    """Points of a plane with some noise."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(3)
        self.rows = torch.randn(count, 20, generator=generator)
        self.values = self.rows.sum(1, keepdim=True) + 0.1 * torch.randn(count, 1, generator=generator)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int):
        return self.rows[at], self.values[at]


class Trainer:
    def __init__(self, model: nn.Module, device: torch.device, snapshot: str) -> None:
        self.device, self.snapshot, self.epoch = device, snapshot, 0
        model = model.to(device)
        if os.path.exists(snapshot):
            saved = torch.load(snapshot, map_location=device)
            model.load_state_dict(saved["model"])
            self.epoch = saved["epoch"]
        self.model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self, loader: DataLoader, epochs: int) -> None:
        while self.epoch < epochs:
            loader.sampler.set_epoch(self.epoch)
            total = torch.zeros((), device=self.device)
            for rows, values in loader:
                loss = nn.functional.mse_loss(self.model(rows.to(self.device)), values.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.detach()
            dist.all_reduce(total)
            self.epoch += 1
            if dist.get_rank() == 0:
                print(f"result epoch {self.epoch} loss {total.item():.5f}", flush=True)
                torch.save({"model": self.model.module.state_dict(), "epoch": self.epoch}, self.snapshot)
            dist.barrier()


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, device=device)
    data = Line(256)
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data), pin_memory=cuda, num_workers=1)
    for until, hook in ((2, None), (4, default_hooks.bf16_compress_hook)):
        torch.manual_seed(0)
        trainer = Trainer(nn.Linear(20, 1), device, os.path.join(folder[0], "snapshot.pt"))
        if hook is not None:
            trainer.model.register_comm_hook(None, hook)
        trainer.train(loader, until)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
