"""Which rank computes which sequences of a `trace`, and in which batches: every rank finds the same answer from the same message."""
import torch


class Rows:
    """The sequences and the choices of a message, as docs/protocol.md lays them out."""

    def __init__(self, message, payload):
        lengths, choices, allowed = message["sequences"], message["choices"], message.get("allowed", [])
        self.count = choices
        counts = [sum(lengths), choices, choices, choices, choices, sum(allowed)]
        if len(payload) != 4 * sum(counts):
            raise ValueError(f"a payload of {len(payload)} bytes for {counts} numbers")
        numbers = torch.frombuffer(bytearray(payload), dtype=torch.int32) if payload else torch.empty(0, dtype=torch.int32)
        tokens, self.sequence, self.place, self.token, temperature, self.allowed = numbers.split(counts)
        self.sequences = tokens.split(lengths)
        self.temperature = temperature.view(torch.float32)
        # A choice with no allowed tokens is one among the whole vocabulary.
        self.restricted = self.allowed.split(allowed) if allowed else None

    def batches(self, ranks, tokens):
        """For each rank its batches of sequences, each of at most `tokens` tokens with padding: as many batches on every rank."""
        order = sorted(range(len(self.sequences)), key=lambda i: (-len(self.sequences[i]), i))
        shares = [order[rank::ranks] for rank in range(ranks)]
        batches = []
        for share in shares:
            own = []
            for i in share:
                # Descending, so the first of a batch is its longest.
                if own and len(self.sequences[own[-1][0]]) * (len(own[-1]) + 1) <= tokens:
                    own[-1].append(i)
                else:
                    own.append([i])
            batches.append(own)
        most = max(map(len, batches), default=0)
        return [own + [[]] * (most - len(own)) for own in batches]

    def batch(self, which, device):
        """Padded tokens `[sequences, longest]`, and the choices in them: their indices, and their places `[choices]` in the batch."""
        if not which:
            # Every rank takes part in every collective: one choice without a weight.
            return torch.zeros(1, 2, dtype=torch.long, device=device), torch.empty(0, dtype=torch.long), None
        ids = torch.nn.utils.rnn.pad_sequence([self.sequences[i].long() for i in which], batch_first=True)
        row = torch.full((len(self.sequences),), -1)
        row[torch.tensor(which)] = torch.arange(len(which))
        own = row[self.sequence.long()]
        choices = (own >= 0).nonzero()[:, 0]
        at = own[choices] * ids.shape[1] + self.place[choices].long()
        return ids.to(device), choices, at.to(device)

    def mask(self, choices, vocabulary):
        """Added to the logits of these choices: minus infinity on tokens that aren't allowed. None where all are."""
        if self.restricted is None or all(len(self.restricted[i]) == 0 for i in choices.tolist()):
            return None
        mask = torch.full((len(choices), vocabulary), -1e30)
        for row, i in enumerate(choices.tolist()):
            allowed = self.restricted[i].long()
            mask[row, allowed if len(allowed) else slice(None)] = 0.0
        return mask
