"""The sequences and the choices of a `trace`, and which rank computes which sequences in which batches: every rank finds the same answer from the same
message."""
import numpy as np


class Rows:
    """A message, as docs/protocol.md lays it out."""

    def __init__(self, message, payload):
        lengths, choices, allowed = message["sequences"], message["choices"], message.get("allowed", [])
        self.count = choices
        counts = [sum(lengths), choices, choices, choices, choices, sum(allowed)]
        if len(payload) != 4 * sum(counts):
            raise ValueError(f"a payload of {len(payload)} bytes for {counts} numbers")
        numbers = np.frombuffer(payload, dtype="<u4").astype(np.int64)
        tokens, self.sequence, self.place, self.token, temperature, self.allowed = np.split(numbers, np.cumsum(counts)[:-1])
        self.sequences = np.split(tokens, np.cumsum(lengths)[:-1])
        self.temperature = temperature.astype("<u4").view("<f4")
        # Where each choice's list of allowed tokens begins. A choice with an empty list is one among the whole vocabulary.
        self.lists = np.concatenate([[0], np.cumsum(allowed)]) if allowed else None
        self.sort()

    def sort(self):
        """Finds the sequences that no other one begins with: the others are computed as a part of those."""
        order = sorted(range(len(self.sequences)), key=lambda i: self.sequences[i].astype(">u4").tobytes())
        self.leaves, self.owner = [], np.arange(len(self.sequences))
        for i in reversed(order):
            last = self.leaves[-1] if self.leaves else None
            if last is not None and common(self.sequences[i], self.sequences[last]) == len(self.sequences[i]):
                self.owner[i] = last
            else:
                self.leaves.append(i)
        self.leaves.reverse()
        # How much each leaf has in common with the one before it, which is the most that it has in common with any before.
        pairs = zip(self.leaves, self.leaves[1:])
        self.shared = dict(zip(self.leaves[1:], (common(self.sequences[a], self.sequences[b]) for a, b in pairs)))

    def batches(self, ranks, tokens, layout):
        """For each rank its batches of sequences, each of at most `tokens` tokens as `layout` computes them: as many batches on every rank."""
        if layout.padded:
            order = sorted(self.leaves, key=lambda i: (-len(self.sequences[i]), i))
            shares = [order[rank::ranks] for rank in range(ranks)]
        else:
            shares = self.shares(ranks, layout)
        batches = []
        for share in shares:
            own, size, keys = [], 0, 0
            for i in share:
                length = len(self.sequences[i])
                if layout.padded:
                    # Descending, so the first of a batch is its longest.
                    size = len(self.sequences[own[-1][0]]) * (len(own[-1]) + 1) if own else tokens + 1
                else:
                    size, keys = size + self.new(i, layout), keys + length
                if own and size <= tokens and keys <= KEYS * tokens:
                    own[-1].append(i)
                else:
                    own.append([i])
                    size, keys = length, length
            batches.append(own)
        most = max(map(len, batches), default=0)
        return [own + [[]] * (most - len(own)) for own in batches]

    def new(self, i, layout):
        """Tokens of a leaf that aren't computed with the leaf before it."""
        return len(self.sequences[i]) - (self.shared.get(i, 0) if layout.tree else 0)

    def computed(self, which, layout):
        """Tokens that a batch of these leaves computes, padding included."""
        if layout.padded:
            return len(which) * max((len(self.sequences[i]) for i in which), default=0)
        return sum(self.new(i, layout) if number else len(self.sequences[i]) for number, i in enumerate(which))

    def shares(self, ranks, layout):
        """The leaves in their order, cut into one share for each rank, of about as many tokens each."""
        sizes = [self.new(i, layout) for i in self.leaves]
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        rank = np.minimum((middles * ranks / max(1, sum(sizes))).astype(int), ranks - 1) if sizes else []
        return [[i for i, own in zip(self.leaves, rank) if own == r] for r in range(ranks)]

    def choices(self, which):
        """The numbers of the choices in these leaves."""
        member = np.zeros(len(self.sequences), dtype=bool)
        member[which] = True
        return np.nonzero(member[self.owner[self.sequence]])[0]

    def mask(self, choices):
        """The tokens that these choices were drawn among, as ascending numbers of choices and as tokens; None where all are free."""
        if self.lists is None:
            return None
        lengths = self.lists[choices + 1] - self.lists[choices]
        if not lengths.any():
            return None
        rows = np.repeat(np.arange(len(choices)), lengths)
        tokens = np.concatenate([self.allowed[self.lists[i] : self.lists[i + 1]] for i in choices])
        return rows, tokens


# The most keys that a batch's sequences may read, for each of its tokens: sequences with a common beginning gather copies of its keys.
KEYS = 8


def common(a, b):
    """How many tokens two sequences begin with in common."""
    most = min(len(a), len(b))
    differ = np.nonzero(a[:most] != b[:most])[0]
    return int(differ[0]) if len(differ) else most
