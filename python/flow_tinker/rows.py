"""The rows of a pass as a server of Tinker's protocol reads them: sequences with a target at each position."""
import numpy

from .calls import Refused


class Sequence:
    """Tokens, the target after each, and, once it is known, the gradient of the loss by the log-probability of each target."""

    def __init__(self, tokens, targets):
        self.tokens, self.targets = tokens, targets
        self.gradient = None

    def __len__(self):
        return len(self.tokens)


class Rows:
    """The sequences and choices of a message `trace`. A second choice at a place needs its sequence a second time."""

    def __init__(self, message, payload, vocabulary):
        if message.get("allowed"):
            raise Refused("a choice among some tokens (`decode: constrained`): a server of Tinker's protocol knows the whole vocabulary alone")
        lengths, count = message["sequences"], message["choices"]
        numbers = numpy.frombuffer(payload, "<u4")
        if len(numbers) != sum(lengths) + 4 * count:
            raise Refused(f"a trace of {len(payload)} bytes, which isn't what it announces")
        tokens, rest = numbers[: sum(lengths)].astype("int64"), numbers[sum(lengths) :]
        sequence, place, token = rest[:count].astype("int64"), rest[count : 2 * count].astype("int64"), rest[2 * count : 3 * count].astype("int64")
        temperature = rest[3 * count :].view("<f4")
        if count and not (temperature == 1.0).all():
            raise Refused(f"a temperature of {temperature[temperature != 1.0][0]:g}: a server of Tinker's protocol has log-probabilities at temperature 1 alone")
        beyond = numpy.concatenate([tokens, token])
        if (beyond >= vocabulary).any():
            raise Refused(f"the token {beyond[beyond >= vocabulary][0]}, and the model has {vocabulary}: a server may answer NaN as a success")
        sequences = numpy.split(tokens, numpy.cumsum(lengths)[:-1])
        if count and ((sequence >= len(lengths)).any() or (place >= numpy.array(lengths)[sequence]).any()):
            raise Refused("a choice outside of its sequence")
        layers, self.at = {}, []
        for i in range(count):
            layer = 0
            while place[i] in layers.setdefault((sequence[i], layer), {}):
                layer += 1
            layers[sequence[i], layer][place[i]] = token[i]
            self.at.append(((sequence[i], layer), place[i]))
        self.sequences = {key: self.cut(sequences[key[0]], chosen) for key, chosen in layers.items()}

    @staticmethod
    def cut(sequence, chosen):
        """The sequence up to the last choice."""
        last = max(chosen)
        targets = numpy.append(sequence[1 : last + 1], 0)[: last + 1]
        targets[list(chosen)] = list(chosen.values())
        return Sequence(sequence[: last + 1], targets)

    def gather(self, logprobs):
        """The log-probability of each choice, from those of each position."""
        numbers = dict(zip(self.sequences, logprobs))
        return numpy.array([numbers[key][place] for key, place in self.at], "<f4")

    def scatter(self, by):
        """The sequences with their gradient, given the one by each choice."""
        for sequence in self.sequences.values():
            sequence.gradient = numpy.zeros(len(sequence), "f4")
        for (key, place), number in zip(self.at, by):
            self.sequences[key].gradient[place] = number
        return list(self.sequences.values())
