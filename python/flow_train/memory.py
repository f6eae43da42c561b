"""How much of a pass is kept for the way back: measured once, so that nobody has to guess `gradient_checkpointing` or a batch's size."""
import os
import torch
import torch.distributed as dist

# The share of free memory that the way back may take: the rest is for logits, for one block computed again, and for others on the machine.
SHARE = {"cuda": 0.7, "cpu": 0.4}

# Tensors of fewer bytes than these are copied or widened together: many small ones cost a GPU a kernel or a wait each.
TOGETHER = 1 << 30


class Memory:
    """What this rank may keep, the least over all ranks, in bytes. `share` of the device's memory is all that the trainer may take, weights included."""

    def __init__(self, device, trained, share=None):
        self.device = device
        # Gradient and moments, which aren't there yet.
        soon = 12 * sum(p.numel() for p in trained)
        free = torch.tensor([SHARE[device.type] * max(0, available(device, share or 1) - soon)], dtype=torch.float64)
        dist.all_reduce(free, op=dist.ReduceOp.MIN)
        # The environment variable is for tests.
        self.budget = float(os.environ.get("FLOW_TRAIN_BUDGET", free.item()))

    def cost(self, compute, tokens, weights):
        """Bytes a token that the way back of `compute` keeps, beside these weights: the most over all ranks."""
        saved, known = {}, {local(p).untyped_storage().data_ptr() for p in weights}

        def pack(tensor):
            storage = local(tensor).untyped_storage()
            if storage.data_ptr() not in known and not isinstance(tensor, torch.nn.Parameter):
                saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            compute()
        cost = torch.tensor([sum(saved.values()) / tokens], dtype=torch.float64)
        dist.all_reduce(cost, op=dist.ReduceOp.MAX)
        return cost.item()

    def kept(self, sizes, cost):
        """How many of these batches, in their order, keep their way back; the others are computed again."""
        if cost * sum(sizes) <= self.budget:
            return len(sizes)
        # Room is left for the one that is computed again.
        room, kept = self.budget / cost - max(sizes), 0
        while kept < len(sizes) and sizes[kept] <= room:
            room -= sizes[kept]
            kept += 1
        return kept


def local(tensor):
    """A rank's own part of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def available(device, share):
    """Bytes of memory that this rank could take beside those that it has, which together are at most a share of the device's."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_allocated(device)
        return min(free + torch.cuda.memory_reserved(device) - own, share * total - own)
    free, total, ranks = kilobytes("/proc/meminfo", "MemAvailable"), kilobytes("/proc/meminfo", "MemTotal"), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(free / ranks, share * total / ranks - kilobytes("/proc/self/status", "VmRSS"))


def kilobytes(path, name):
    """A line of a file of Linux, in bytes."""
    with open(path) as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def to_host(tensors):
    """Tensors by name in this machine's memory, as files have them. Many small ones come from a GPU together."""
    if all(t.is_cpu for t in tensors.values()) or sum(t.nbytes for t in tensors.values()) > TOGETHER or len({t.dtype for t in tensors.values()}) > 1:
        return {name: t.cpu().contiguous() for name, t in tensors.items()}
    flat = torch.cat([t.reshape(-1) for t in tensors.values()]).cpu()
    return {name: part.view(t.shape).clone() for (name, t), part in zip(tensors.items(), flat.split([t.numel() for t in tensors.values()]))}
