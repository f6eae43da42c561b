"""What rank 0 receives from flow goes to the other ranks."""
import json, struct
import torch
import torch.distributed as dist

# Bytes of a message that go with its size: most messages are no longer.
SHORT = 1 << 12


def to_all(message, group):
    """What rank 0 received, on every rank. None: flow is gone."""
    rank = dist.get_rank()
    if dist.get_world_size() == 1:
        return message
    data = b""
    if rank == 0 and message:
        head = json.dumps(message[0]).encode()
        data = struct.pack("<q", len(head)) + head + message[1]
    first = torch.frombuffer(bytearray(struct.pack("<q", len(data)) + data[:SHORT].ljust(SHORT, b"\0")), dtype=torch.uint8)
    dist.broadcast(first, 0, group=group)
    begin = first.numpy().tobytes()
    (size,) = struct.unpack_from("<q", begin)
    if not size:
        return None
    if size > SHORT:
        rest = torch.frombuffer(bytearray(data[SHORT:]), dtype=torch.uint8) if rank == 0 else torch.empty(size - SHORT, dtype=torch.uint8)
        dist.broadcast(rest, 0, group=group)
    if rank == 0:
        return message
    data = begin[8 : 8 + min(size, SHORT)] + (rest.numpy().tobytes() if size > SHORT else b"")
    (head,) = struct.unpack_from("<q", data)
    return json.loads(data[8 : 8 + head]), data[8 + head :]
