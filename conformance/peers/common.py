"""What all libraries share: cases as padded tensors, and the comparison of a library's numbers with those of a case."""

import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from reference import credit, losses  # noqa: E402

TOLERANCE = 1e-5  # of the largest number compared
PAD = {"new": -0.5, "old": -0.5, "acted": -0.5, "reference": -0.5, "target": 0.0, "advantage": 0.0, "part": 0.0, "entropy": 0.0}


class Batch:
    """The rows of a loss case as tensors `[rows, longest]` of float64; `new` is a leaf. Missing columns are None."""

    def __init__(self, rows):
        self.rows, longest = rows, max(len(row["new"]) for row in rows)
        for name, pad in PAD.items():
            table = None
            if name in rows[0] or name == "acted":
                table = torch.full((len(rows), longest), pad, dtype=torch.float64)
                for i, row in enumerate(rows):
                    values = row.get(name, row["old"]) if name == "acted" else row[name]
                    table[i, : len(row["new"])] = torch.tensor(values, dtype=torch.float64)
            setattr(self, name, table)
        self.new.requires_grad_(True)
        self.chosen = [(i, t) for i, row in enumerate(rows) for t, c in enumerate(row.get("chosen", [])) if c]

    def result(self, loss):
        """The loss and its gradient by each row's `new`."""
        (gradient,) = torch.autograd.grad(loss, [self.new])
        return loss.item(), [gradient[i, : len(row["new"])].tolist() for i, row in enumerate(self.rows)]


def used_rows(rows):
    """Without rows that have no token that takes part."""
    return [row for row in rows if sum(row["part"])]


def by_trajectory(rows):
    """Rows of one trajectory put together into one: the layout of trainers whose row is a whole trajectory."""
    joined = {}
    for row in rows:
        mine = joined.setdefault(row["trajectory"], {name: [] for name in row if isinstance(row[name], list) or name == "advantage"})
        for name in mine:
            mine[name] += row[name] if isinstance(row[name], list) else [row[name]] * len(row["new"])
    return list(joined.values())


def flat(value):
    return [x for one in value for x in flat(one)] if isinstance(value, (list, tuple, np.ndarray)) else [float(value)]


def difference(found, expected):
    """The largest difference, and whether it counts: above 1e-5 of the largest number."""
    a, b = np.array(flat(found)), np.array(flat(expected))
    if a.shape != b.shape:
        raise ValueError(f"{a.shape} numbers in place of {b.shape}")
    worst = float(abs(a - b).max())
    return worst, worst <= TOLERANCE * max(1.0, abs(b).max())


def settle(attempts):
    """The first attempt that agrees; else by how much the first one differs. An attempt: a note or None, found, expected.

    Without a note the library agrees; with one it agrees by another convention, which the note names. A note that begins with !
    explains a difference that is no convention.
    """
    first = None
    for note, found, expected in attempts:
        try:
            worst, fine = difference(found(), expected)
        except Exception as error:  # a library's refusal is a result
            worst, fine, note = float("inf"), False, f"{type(error).__name__}: {str(error)[:80]}"
        if fine and (note or "").startswith("!"):
            return {**first, "note": note[1:]}
        if fine:
            return {"result": "convention" if note else "equal", "difference": worst, **({"note": note} if note else {})}
        first = first or {"result": "differs", "difference": worst, **({"note": note} if note else {})}
    return first or {"result": "not had"}


def split(case, micro):
    """Whether two micro-batches give what one batch gives, by the library's own accumulation: `micro(case, part, whole)`.

    Each half has as many rows; the first has long rows and the second short ones, so a mean over a micro-batch shows.
    """
    rows = used_rows(case["rows"])
    rows = rows[: len(rows) // 2 * 2]
    if len(rows) < 4 or case["settings"].get("surrogate") in ("kl_cov", "clip_cov"):
        return None
    rows = sorted(rows, key=lambda row: -len(row["new"]))
    halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    one = micro(case, rows, None)
    two = [micro(case, half, rows) for half in halves]
    found = [two[0][0] + two[1][0], two[0][1] + two[1][1]]
    worst, fine = difference(found, list(one))
    return {"result": "equal" if fine else "differs", "difference": worst, "times": round(found[0] / one[0], 3)}


def expected_loss(case, gradient_alone=False):
    """What a case says of loss and gradient, in the order of `Batch.result`."""
    return case["dloss_dnew"] if gradient_alone else [case["loss"], case["dloss_dnew"]]


def with_settings(case, rows=None, **changes):
    """The reference's loss and gradient by other settings, or of other rows."""
    settings = {**case["settings"], **changes}
    loss, gradients, _ = losses.step(
        [tensor_free(row) for row in rows or case["rows"]], {k: v for k, v in settings.items() if v is not None}
    )
    return [loss, [g.tolist() for g in gradients]]


def unbounded(case):
    """The reference's loss and gradient without the bound of a log ratio."""
    bound, losses.LOG_RATIO = losses.LOG_RATIO, np.inf
    try:
        return with_settings(case)
    finally:
        losses.LOG_RATIO = bound


def tensor_free(row):
    import make

    return make.as_row({"trajectory": 0, **row})


def advantage_by(case, **changes):
    """The reference's advantages by other settings."""
    by = {"by": case["group_by"]} if case["function"] in ("grpo", "grouped_step", "lamer") else {}
    return credit.METHODS[case["function"]](case["rows"], **by, **{**case["settings"], **changes})


class Episodes:
    """The rows of a credit case, an episode a line: rewards with the last token of each turn, a masked token between two turns."""

    def __init__(self, rows, tokens=None):
        self.rows, self.episodes = rows, credit.episodes(rows)
        count = lambda row: tokens or row.get("tokens", 1)
        self.places, lengths = {}, []
        for e, episode in enumerate(self.episodes):
            at = 0
            for i in episode:
                self.places[i] = (e, range(at, at + count(rows[i])))
                at += count(rows[i]) + 1
            lengths.append(at - 1)
        shape = (len(self.episodes), max(lengths))
        self.mask, self.rewards, self.values = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
        for i, row in enumerate(rows):
            e, place = self.places[i]
            self.mask[e, list(place)] = 1.0
            self.rewards[e, place[-1]] += row["reward"]
            for k, t in enumerate(place):
                self.rewards[e, t] += row["token_rewards"][k] if "token_rewards" in row else 0.0
                self.values[e, t] = row["token_values"][k] if "token_values" in row else row.get("value", 0.0)
        self.index = np.array([f"{rows[e[0]].get('iteration', 0)}-{rows[e[0]]['task']}" for e in self.episodes], dtype=object)

    def turns(self, table):
        """Of each row the number at its last token."""
        return [table[self.places[i][0], self.places[i][1][-1]].item() for i in range(len(self.rows))]

    def lists(self, table):
        """Of each row the numbers of its tokens."""
        return [table[self.places[i][0], list(self.places[i][1])].tolist() for i in range(len(self.rows))]


class Joined(Episodes):
    """Turns without a masked token between them."""

    def __init__(self, rows):
        super().__init__(rows)
        keep = {e: [t for i in episode for t in self.places[i][1]] for e, episode in enumerate(self.episodes)}
        longest = max(len(places) for places in keep.values())
        self.places = {i: (e, [keep[e].index(t) for t in place]) for i, (e, place) in self.places.items()}
        for name in ("mask", "rewards", "values"):
            table, old = torch.zeros(len(keep), longest, dtype=torch.float64), getattr(self, name)
            for e, places in keep.items():
                table[e, : len(places)] = old[e, places]
            setattr(self, name, table)


def package(name, folder):
    """Makes a folder a package without running its __init__: for files that need neither a GPU nor their package's other files."""
    import types

    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module
    return module


def stand_in(name, **values):
    """A module with these values, for an import that the functions held here don't use."""
    import types

    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


def installed(name):
    """The folder of an installed package, without importing it."""
    import importlib.util

    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])
