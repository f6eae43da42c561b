"""How a server reduces a linear loss, measured on a client that is then released.

The same call means a sum on one server and a mean over positive weights on another. So each encoding of a linear loss, the sum of c_t ln p_t, is
tried: with c of both signs, on two sequences of different length alone, together, and in two calls. A step without moments moves the weights by
-s k g: g is the gradient of the sum, s is known, k is the server's factor. The server reports the norm n = k |g|. The loss drops by
s k |g|^2 = s n^2 / k. Two forwards show that drop, hence k. An encoding is right if k is 1 each time.
"""
import numpy

from .calls import Refused
from .rows import Sequence

# Drops of the loss to aim at, in nats: small for a server that computes in f32, larger for one that rounds.
DROPS = (0.01, 0.1, 1.0)
CLOSE = 0.1


def summed(sequences, _):
    """Weights of the cross-entropy -sum(w ln p), as the SDK documents it."""
    return [{"weights": -sequence.gradient} for sequence in sequences], "cross_entropy", None


def averaged(sequences, count):
    """A ratio clipped to exactly 1, for a server that takes the mean over positions and over the step's `count` sequences."""
    inputs = [{"logprobs": numpy.zeros(len(one)), "advantages": -one.gradient * len(one) * count} for one in sequences]
    return inputs, "cispo", {"clip_low_threshold": 1.0, "clip_high_threshold": 1.0}


ENCODINGS = {"sum": summed, "mean": averaged}


def encode(encoding, batches):
    """The batches of a step, for `Server.step`."""
    count = sum(map(len, batches))
    return [(sequences, *ENCODINGS[encoding](sequences, count)) for sequences in batches]


def sgd(s, norm=1.0):
    """AdamW without moments: with an eps far above every gradient the step is s times it."""
    eps = 1e6 * max(norm, 1.0)
    return dict(learning_rate=max(s * eps, 1e-20), beta1=0.0, beta2=0.0, eps=eps, weight_decay=0.0)


class Measured:
    def __init__(self, server, client, vocabulary):
        self.server, self.client = server, client
        random = numpy.random.default_rng(7)
        self.sequences = []
        # One whose weights sum up to something below 0, one to something above.
        for length, sign in ((19, 1.0), (30, -1.0)):
            tokens = random.integers(0, vocabulary, length + 1)
            sequence = Sequence(tokens[:-1], tokens[1:])
            drawn = random.normal(size=length)
            sequence.gradient = (drawn - drawn.mean() + 0.5 * sign).astype("f4")
            self.sequences.append(sequence)
        self.report = []
        self.encoding = next((encoding for encoding in ENCODINGS if self.holds(encoding)), None)

    def loss(self, sequences):
        """The sum of c_t ln p_t over `sequences`."""
        logprobs = self.server.forward(self.client, self.sequences)
        if not all(numpy.isfinite(numbers).all() for numbers in logprobs):
            raise Refused("the server's log-probabilities of ordinary tokens aren't numbers")
        return sum(float((one.gradient.astype("f8") * own).sum()) for one, own in zip(self.sequences, logprobs) if one in sequences)

    def factor(self, encoding, batches, drop):
        """The server's factor k, and the norm that it reports."""
        sequences = [sequence for batch in batches for sequence in batch]
        before = self.loss(sequences)
        norm, _ = self.server.step(self.client, encode(encoding, batches), sgd(0.0))
        if norm is None:
            raise Refused("the server reports no gradient norm at `optim_step`, so its gradient can't be measured")
        if not 0 < norm < float("inf"):
            return 0.0, norm
        s = drop / norm**2
        again, _ = self.server.step(self.client, encode(encoding, batches), sgd(s, norm))
        measured = before - self.loss(sequences)
        return (s * again**2 / measured if measured > 0 else float("inf")), norm

    def holds(self, encoding):
        a, b = self.sequences
        for name, batches in {"one sequence": [[a]], "another": [[b]], "both": [[a, b]], "both in two calls": [[a], [b]]}.items():
            try:
                tried = [self.factor(encoding, batches, DROPS[0])]
                while abs(tried[-1][0] - 1) > CLOSE and len(tried) < len(DROPS) and 0.2 < tried[-1][0] < 5:
                    tried.append(self.factor(encoding, batches, DROPS[len(tried)]))
            except Refused as why:
                if "`forward_backward" not in str(why):
                    raise
                self.report.append(f"{encoding}: refused ({why})")
                return False
            factor, norm = tried[-1]
            self.report.append(f"{encoding}, {name}: the gradient times {factor:.4g} (norm {norm:.4g})")
            if abs(factor - 1) > CLOSE:
                return False
        return True

    def clips(self):
        """Whether it clips a gradient where it is asked to."""
        batch = self.sequences[:1]
        norm, _ = self.server.step(self.client, encode(self.encoding, [batch]), sgd(0.0))
        before, s = self.loss(batch), DROPS[0] / norm**2
        self.server.step(self.client, encode(self.encoding, [batch]), {**sgd(s, norm), "grad_clip_norm": norm / 10})
        return before - self.loss(batch) < DROPS[0] / 2

    def shrinks_others(self, other):
        """Whether a step of another client with weight decay changes this one's weights."""
        batch = self.sequences[:1]
        before = self.server.forward(self.client, batch)
        self.server.step(other, encode(self.encoding, [batch]), dict(learning_rate=0.1, beta1=0.0, beta2=0.0, eps=1.0, weight_decay=1.0))
        return not numpy.array_equal(before[0], self.server.forward(self.client, batch)[0])
