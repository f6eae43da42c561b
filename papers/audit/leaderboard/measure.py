"""How well a credit agrees with executed worths: the figures of one estimator, environment and seed. Pure functions, standard library only."""

import collections
import random
import statistics

NAME = ("iteration", "task", "sample", "attempt", "turn", "phase")
SHUFFLES = 20


def name(row):
    return tuple(row[key] for key in NAME)


def ranks(values):
    """Ranks from 0; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    made, first = [0.0] * len(values), 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for at in order[first : last + 1]:
            made[at] = (first + last) / 2
        first = last + 1
    return made


def correlation(a, b):
    """Pearson's; 0 where either is constant."""
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    both = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    size = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return both / size**0.5 if size > 0 else 0.0


def spearman(a, b):
    return correlation(ranks(a), ranks(b))


def sign(value):
    return (value > 0) - (value < 0)


def right(turns, credits):
    """The share of right signs among decided turns with a credit; none where there is no such turn."""
    signs = [sign(credit) == sign(worth) for (worth, decided), credit in zip(turns, credits) if decided and credit]
    return statistics.fmean(signs) if signs else None


def sign_regret(turns, credits):
    """What wrong signs lose, as a share of a coin's loss: 0 for no wrong sign, 1 for credits of 0 alone, 2 for all wrong."""
    size = sum(abs(worth) for worth, _ in turns)
    return 1 - sum(worth * sign(credit) for (worth, _), credit in zip(turns, credits)) / size if size else None


class Audit:
    """The audited turns of an environment and seed: worths, answers and visits."""

    def __init__(self, told):
        rows = [row for row in told["answers"] if not row["refused"]]
        self.refused = len({name(row) for row in told["answers"]}) - len({name(row) for row in rows})
        self.names = [name(row) for row in rows if row["role"] == "logged"]
        logged = {name(row): row for row in rows if row["role"] == "logged"}
        self.turns = [(logged[at]["audited"], abs(logged[at]["audited"]) > 1.96 * logged[at]["audited_error"]) for at in self.names]
        self.answers = collections.defaultdict(dict)
        for row in rows:
            if row["role"] != "policy":
                self.answers[name(row)][row["answer"]] = row["worth"]
        self.rows = [name(row) for row in told["turns"]]
        self.visits = collections.defaultdict(list)
        states = {}
        for at, row in enumerate(told["turns"]):
            states[name(row)] = (row["iteration"], row["task"], row["state"])
            self.visits[states[name(row)]].append((at, row["action"]))
        self.states = [states[at] for at in self.names]
        errors = statistics.fmean(logged[at]["audited_error"] ** 2 for at in self.names)
        spread = statistics.pvariance([worth for worth, _ in self.turns])
        self.facts = {
            "turns": len(self.names),
            "decided": sum(decided for _, decided in self.turns),
            "positive": statistics.fmean(worth > 0 for worth, decided in self.turns if decided) if any(decided for _, decided in self.turns) else None,
            "ceiling": max(0.0, 1 - errors / spread) ** 0.5 if spread else None,
            "choices": 0,
            "success": told["success"][0]["share"],
            "seconds": told["seconds"] / len(self.names),
        }
        picks = [pick for pick in (self.pick(at, lambda _: 0.0) for at in range(len(self.names))) if pick]
        self.facts |= {"choices": len(picks)} | {
            key: statistics.fmean(pick[key] for pick in picks) if picks else None for key in ("chosen", "random", "best")
        }

    def pick(self, turn, credit):
        """What choosing by credit loses to the best admissible answer, and what a random and the best pick of the logged answers lose."""
        worths = self.answers[self.names[turn]]
        credits = collections.defaultdict(list)
        for at, action in self.visits[self.states[turn]]:
            if action in worths:
                credits[action].append(credit(at))
        if len(credits) < 2:
            return None
        means = {action: statistics.fmean(values) for action, values in credits.items()}
        top = max(means.values())
        optimum, seen = max(worths.values()), [worths[action] for action in means]
        chosen = statistics.fmean(worths[action] for action, mean in means.items() if mean == top)
        return {"chosen": optimum - chosen, "random": optimum - statistics.fmean(seen), "best": optimum - max(seen)}

    def figures(self, told):
        """The figures of one estimator's credits."""
        by_row = [credit or 0.0 for credit in told["credits"]]
        credits = dict(zip(self.rows, by_row))
        mine = [credits[at] for at in self.names]
        worths = [worth for worth, _ in self.turns]
        picks = [pick for pick in (self.pick(turn, by_row.__getitem__) for turn in range(len(mine))) if pick]
        draw, shuffled = random.Random(0), []
        for _ in range(SHUFFLES):
            other = draw.sample(mine, len(mine))
            shuffled.append((right(self.turns, other), spearman(other, worths)))
        signs = [share for share, _ in shuffled if share is not None]
        decided = [credit for (_, decided), credit in zip(self.turns, mine) if decided]
        return {
            "right": right(self.turns, mine),
            "rank": spearman(mine, worths),
            "sign_regret": sign_regret(self.turns, mine),
            "choice_regret": statistics.fmean(pick["chosen"] for pick in picks) if picks else None,
            "credited": statistics.fmean(credit != 0 for credit in decided) if decided else None,
            "shuffled_right": statistics.fmean(signs) if signs else None,
            "shuffled_rank": statistics.fmean(rank for _, rank in shuffled),
            "microseconds": 1e6 * told["busy"] / told["rows"],
        }


def incomplete_beta(a, b, x):
    """The regularised incomplete beta function, by its continued fraction (Lentz; Press et al. 2007, section 6.4)."""
    from math import exp, lgamma, log

    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 300):
        for part in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d, c = 1 / (1 + part * d), 1 + part / c
            value *= c * d
    return exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a * value


def student(t, freedom):
    """The two-sided p of Student's t."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def quantile(freedom):
    """The 0.975 quantile of Student's t, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student(middle, freedom) > 0.05 else (low, middle)
    return low


def interval(values):
    """Mean, low and high of 95% over seeds, and the two-sided p of a mean of 0."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return {"mean": mean, "seeds": len(values)}
    error = statistics.stdev(values) / len(values) ** 0.5
    half = quantile(len(values) - 1) * error
    p = student(mean / error, len(values) - 1) if error else float(mean == 0)
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": p, "seeds": len(values)}


def holm(values):
    """Holm's adjusted p of each comparison, by its key."""
    adjusted, least = {}, 0.0
    for at, (key, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, p * (len(values) - at)))
        adjusted[key] = least
    return adjusted
