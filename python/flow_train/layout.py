"""How the sequences of a batch are computed.

`tree`: side by side, and tokens that follow the same tokens once. `packed`: side by side. `padded`: one below the other, as long as the longest. In the first
two a token attends to its own sequence alone, which `attention.py` sees to; a model whose layers mix tokens in another way is computed `padded`.
"""
import numpy as np
import torch


class Layout:
    def __init__(self, name):
        if name not in ("tree", "packed", "padded"):
            raise ValueError(f"there is no layout `{name}`")
        self.name, self.tree, self.padded = name, name == "tree", name == "padded"


class Transfer:
    """Whole numbers that go to a device together, in one copy that nothing waits for: a copy of its own for each list would wait for all that the device does."""

    def __init__(self, device):
        self.device, self.arrays = device, []

    def add(self, array):
        """The number by which `send` has it; None stays None."""
        if array is None:
            return None
        self.arrays.append(np.asarray(array, dtype=np.int64))
        return len(self.arrays) - 1

    def send(self):
        """What was added, by number, on the device and in its shape; of None it is None."""
        flat = torch.from_numpy(np.concatenate([array.reshape(-1) for array in self.arrays]))
        parts = sent(flat, self.device).split([array.size for array in self.arrays])
        return lambda number: None if number is None else parts[number].view(self.arrays[number].shape)


def sent(tensor, device):
    """A tensor of this machine's memory on a device, by a copy that nothing waits for."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


class Batch:
    """The tokens of some sequences on a device, and where each place of a sequence lies among them."""

    def __init__(self, rows, which, layout, device):
        transfer = Transfer(device)
        sequences = [rows.sequences[i] for i in which] or [np.zeros(2, dtype=np.int64)]
        self.segments = None
        if layout.padded:
            longest = max(map(len, sequences))
            ids = np.zeros((len(sequences), longest), dtype=np.int64)
            for row, sequence in enumerate(sequences):
                ids[row, : len(sequence)] = sequence
            paths = [np.arange(len(sequence)) + row * longest for row, sequence in enumerate(sequences)]
            positions = None
        else:
            tokens, positions, segments, paths, size = [], [], [], [], 0
            for number, sequence in enumerate(sequences):
                shared = rows.shared.get(which[number], 0) if number and layout.tree else 0
                new = len(sequence) - shared
                path = np.arange(size, size + new)
                paths.append(np.concatenate([paths[-1][:shared], path]) if shared else path)
                tokens.append(sequence[shared:])
                positions.append(np.arange(shared, len(sequence)))
                segments.append((size, new, paths[-1]))
                size += new
            ids, positions = np.concatenate(tokens)[None], np.concatenate(positions)[None]
            self.segments = Segments(segments, transfer)
        self.paths = paths
        # Every rank takes part in every collective: without sequences there is one choice without a weight.
        self.choices = rows.choices(which) if which else np.empty(0, dtype=np.int64)
        if len(self.choices):
            begins = np.zeros(len(rows.sequences), dtype=np.int64)
            begins[which] = np.cumsum([0] + [len(path) for path in paths[:-1]])
            at = np.concatenate(paths)[begins[rows.owner[rows.sequence[self.choices]]] + rows.place[self.choices]]
            token, temperature = rows.token[self.choices], rows.temperature[self.choices]
        else:
            at, token, temperature = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32)
        # None where all are 1.
        self.temperature = sent(torch.tensor(temperature), device) if (temperature != 1).any() else None
        mask = rows.mask(self.choices)
        # The choices that are restricted, and of each of its tokens the choice: both ascend, so that a part of them is known without asking the device.
        self.bounds = None if mask is None else (np.unique(mask[0]), mask[0])
        numbers = [transfer.add(array) for array in (ids, positions, at, token, self.choices, *(mask or (None, None)), self.bounds and self.bounds[0])]
        of = transfer.send()
        self.ids, self.positions, self.at, self.token, self.place, *self.mask = map(of, numbers)
        if self.segments is not None:
            self.segments.receive(of)

    def restricted(self, begin, end):
        """Of the choices from `begin` to `end` those that are restricted, and each token that one may be with its choice; None where all of them are free."""
        if self.bounds is None:
            return None
        (first, last), (low, high) = (np.searchsorted(bounds, (begin, end)) for bounds in self.bounds)
        rows, tokens, some = self.mask
        return (some[first:last] - begin, rows[low:high] - begin, tokens[low:high]) if last > first else None


class Segments:
    """Runs of tokens that lie side by side, each with the keys that its last token reads: its own sequence up to there."""

    def __init__(self, segments, transfer):
        self.device, self.parts, self.windows, self.orders = transfer.device, segments, {}, {}
        starts = np.cumsum([0] + [new for _, new, _ in segments])
        ends = np.cumsum([0] + [len(path) for _, _, path in segments])
        self.most_queries = int(max(new for _, new, _ in segments))
        self.most_keys = int(max(len(path) for _, _, path in segments))
        gather = np.concatenate([path for _, _, path in segments])
        # Where nothing is shared the keys lie as they are read.
        self.numbers = [transfer.add(array) for array in (starts, ends, None if len(gather) == starts[-1] else gather)]

    def receive(self, of):
        """Takes what was sent to the device."""
        queries, keys, self.gather = map(of, self.numbers)
        self.queries, self.keys = queries.int(), keys.int()

    def groups(self, window):
        """Segments of about one size, padded: their queries `[segments, queries]`, their keys `[segments, keys]`, and the mask; None: causal by itself."""
        if window not in self.windows:
            order = sorted(self.parts, key=lambda part: (-len(part[2]), -part[1]))
            groups = []
            for part in order:
                first = groups[-1][0] if groups else None
                # A quarter more of queries and of keys is computed at most.
                if first and 4 * len(first[2]) <= 5 * len(part[2]) and first[1] <= 5 * part[1] / 4 and part[1] <= first[1]:
                    groups[-1].append(part)
                else:
                    groups.append([part])
            self.windows[window] = [self.group(group, window) for group in groups]
        return self.windows[window]

    def order(self, window):
        """Where each token is among the real queries of all groups."""
        if window not in self.orders:
            self.orders[window] = torch.cat([tokens for *_, tokens in self.groups(window)]).argsort()
        return self.orders[window]

    def group(self, parts, window):
        most, longest = max(new for _, new, _ in parts), max(len(path) for _, _, path in parts)
        queries, keys = np.zeros((len(parts), most), dtype=np.int64), np.zeros((len(parts), longest), dtype=np.int64)
        place, real = np.zeros((len(parts), most), dtype=np.int64), np.zeros((len(parts), most), dtype=bool)
        for row, (start, new, path) in enumerate(parts):
            queries[row, :new], real[row, :new] = np.arange(start, start + new), True
            keys[row, : len(path)] = path
            place[row, :new] = np.arange(len(path) - new, len(path))
        key = np.arange(longest)[None, None]
        mask = key <= place[:, :, None]
        if window is not None:
            mask &= key > place[:, :, None] - window
        to = lambda array: torch.as_tensor(array, device=self.device)
        causal = most == longest and window is None and real.all()
        return to(queries), to(keys), None if causal else to(mask[:, None]), to(np.nonzero(real.reshape(-1))[0]), to(queries[real])
