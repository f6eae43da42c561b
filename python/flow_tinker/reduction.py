"""What a server makes of a told gradient, measured on a client that is thrown away.

The same call means a sum on one server, a mean over positive weights on another. So each way to tell it a linear loss, the sum of c_t ln p_t, is
tried: with signs of both kinds, on sequences of two lengths alone, together, and in two calls. A step without moments moves the weights by
-s k g, where g is the gradient, s is known, and k is what the server multiplies by. It says the norm n = k |g|; the loss falls by
s k |g|^2 = s n^2 / k. Two forwards show that fall, hence k. A way is right where k is 1 each time.
"""
import numpy

from .calls import Refused
from .rows import Told

# How far the loss is to fall, in nats: little where the server computes in f32, more where it rounds.
FALLS = (0.01, 0.1, 1.0)
CLOSE = 0.1


def summed(all, _):
    """Weights of the cross-entropy -sum(w ln p), as the SDK's text has it."""
    return [{"weights": -told.by} for told in all], "cross_entropy", None


def averaged(all, count):
    """A ratio clipped to exactly 1, of a server that takes the mean over positions and over the step's `count` sequences."""
    inputs = [{"logprobs": numpy.zeros(len(told)), "advantages": -told.by * len(told) * count} for told in all]
    return inputs, "cispo", {"clip_low_threshold": 1.0, "clip_high_threshold": 1.0}


WAYS = {"sum": summed, "mean": averaged}


def calls(way, batches):
    """What is sent of a step whose sequences come in these calls."""
    count = sum(map(len, batches))
    return [(all, *WAYS[way](all, count)) for all in batches]


def sgd(s, norm=1.0):
    """AdamW without moments: with an eps far above every gradient the step is s times it."""
    eps = 1e6 * max(norm, 1.0)
    return dict(learning_rate=max(s * eps, 1e-20), beta1=0.0, beta2=0.0, eps=eps, weight_decay=0.0)


class Measured:
    def __init__(self, server, client, vocabulary):
        self.server, self.client = server, client
        random = numpy.random.default_rng(7)
        self.rows = []
        # One whose weights sum up to something below 0, one to something above.
        for length, sign in ((19, 1.0), (30, -1.0)):
            tokens = random.integers(0, vocabulary, length + 1)
            told = Told(tokens[:-1], tokens[1:])
            drawn = random.normal(size=length)
            told.by = (drawn - drawn.mean() + 0.5 * sign).astype("f4")
            self.rows.append(told)
        self.seen = []
        self.way = next((way for way in WAYS if self.holds(way)), None)

    def loss(self, all):
        """Of the sequences in `all`, the sum of c_t ln p_t."""
        logprobs = self.server.forward(self.client, self.rows)
        if not all_finite(logprobs):
            raise Refused("the server's log-probabilities of ordinary tokens aren't numbers")
        return sum(float((told.by.astype("f8") * own).sum()) for told, own in zip(self.rows, logprobs) if told in all)

    def factor(self, way, batches, fall, **further):
        """What the server multiplies the told gradient by, and the norm that it says."""
        all = [told for batch in batches for told in batch]
        before = self.loss(all)
        norm, _ = self.server.step(self.client, calls(way, batches), sgd(0.0))
        if norm is None:
            raise Refused("the server doesn't say a gradient's norm at `optim_step`, by which its gradient is measured")
        if not 0 < norm < float("inf"):
            return 0.0, norm
        s = fall / norm**2
        again, _ = self.server.step(self.client, calls(way, batches), {**sgd(s, norm), **further})
        fallen = before - self.loss(all)
        return (s * again**2 / fallen if fallen > 0 else float("inf")), norm

    def holds(self, way):
        a, b = self.rows
        for name, batches in {"one sequence": [[a]], "another": [[b]], "both": [[a, b]], "both in two calls": [[a], [b]]}.items():
            try:
                tried = [self.factor(way, batches, FALLS[0])]
                while abs(tried[-1][0] - 1) > CLOSE and len(tried) < len(FALLS) and 0.2 < tried[-1][0] < 5:
                    tried.append(self.factor(way, batches, FALLS[len(tried)]))
            except Refused as why:
                if "`forward_backward" not in str(why):
                    raise
                self.seen.append(f"{way}: refused ({why})")
                return False
            factor, norm = tried[-1]
            self.seen.append(f"{way}, {name}: {factor:.4g} times the gradient that was told (norm {norm:.4g})")
            if abs(factor - 1) > CLOSE:
                return False
        return True

    def clips(self):
        """Whether it clips a gradient where it is asked to."""
        a = [[self.rows[0]]]
        norm, _ = self.server.step(self.client, calls(self.way, a), sgd(0.0))
        before, s = self.loss(a[0]), FALLS[0] / norm**2
        self.server.step(self.client, calls(self.way, a), {**sgd(s, norm), "grad_clip_norm": norm / 10})
        return before - self.loss(a[0]) < FALLS[0] / 2

    def shrinks_others(self, other):
        """Whether a step of another client with weight decay changes this one's weights."""
        all = self.rows[:1]
        before = self.server.forward(self.client, all)
        self.server.step(other, calls(self.way, [all]), dict(learning_rate=0.1, beta1=0.0, beta2=0.0, eps=1.0, weight_decay=1.0))
        return not numpy.array_equal(before[0], self.server.forward(self.client, all)[0])


def all_finite(arrays):
    return all(numpy.isfinite(numbers).all() for numbers in arrays)
