"""What rank 0 receives from flow goes to the other ranks."""
import json, struct
import torch
import torch.distributed as dist


def to_all(message, group):
    """What rank 0 received, on every rank. None: flow is gone."""
    rank = dist.get_rank()
    if dist.get_world_size() == 1:
        return message
    data = b""
    if rank == 0 and message:
        head = json.dumps(message[0]).encode()
        data = struct.pack("<q", len(head)) + head + message[1]
    size = torch.tensor([len(data)])
    dist.broadcast(size, 0, group=group)
    if not size.item():
        return None
    buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8) if rank == 0 else torch.empty(size.item(), dtype=torch.uint8)
    dist.broadcast(buffer, 0, group=group)
    if rank == 0:
        return message
    data = buffer.numpy().tobytes()
    (head,) = struct.unpack_from("<q", data)
    return json.loads(data[8 : 8 + head]), data[8 + head :]
