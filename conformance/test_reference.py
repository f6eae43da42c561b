"""The reference against central differences and worked numbers. Usage: python3 conformance/test_reference.py"""

import json
import pathlib
import unittest

import numpy as np

import make
import run
from reference import credit, divergences, losses

HERE = pathlib.Path(__file__).resolve().parent


def differences(rows, settings, size=1e-6):
    """The gradient by central differences; what gradients are stopped at stays as it is (`Row.held`)."""
    found = []
    for r, row in enumerate(rows):
        slope = np.zeros(len(row.new))
        for t in range(len(row.new)):
            ends = []
            for sign in (1, -1):
                new = row.new.copy()
                new[t] += sign * size
                ends.append(losses.step([*rows[:r], row.moved(new), *rows[r + 1 :]], settings)[0])
            slope[t] = (ends[0] - ends[1]) / (2 * size)
        found.append(slope)
    return found


class Losses(unittest.TestCase):
    def test_gradients_are_those_of_central_differences(self):
        for name, _, settings, rows in make.loss_inputs():
            rows = [make.as_row(row) for row in rows]
            loss, gradients, _ = losses.step(rows, settings)
            # A difference of losses is known to 1e-16 of the loss, divided by the step.
            allowed = 1e-7 + 1e-9 * abs(loss) + 1e-6 * max(abs(g).max() for g in gradients)
            if name == "on-policy":
                # At a ratio of 1 a move of 1e-6 stays within the clip.
                self.assertAlmostEqual(gradients[0][0], -1.3 / 20, 12)
            for ours, numeric in zip(gradients, differences(rows, settings)):
                self.assertTrue((abs(ours - numeric) < allowed).all(), (name, ours, numeric))

    def test_one_token_as_worked_by_hand(self):
        def one(advantage, ratio, **settings):
            row = losses.Row(*(np.array([x], float) for x in (np.log(ratio), 0.0, advantage, 1.0)))
            return losses.step([row], {"clip": 0.2, **settings})[0]

        self.assertAlmostEqual(one(1, 1.5, clip_high=0.28), -1.28)
        self.assertAlmostEqual(one(-1, 0.5), 0.8)
        self.assertAlmostEqual(one(-1, 5, dual_clip=3.0), 3)
        self.assertAlmostEqual(one(-1, 5, dual_clip=10.0), 5)
        self.assertAlmostEqual(one(1, 1.5, surrogate="sapo"), -2.489837, 6)
        self.assertAlmostEqual(one(2, 1.5, surrogate="cispo"), -0.973116, 6)
        row = losses.Row(*(np.array([x]) for x in (-1.0, -1.0, 0.0, 1.0)), reference=np.array([-1.5]))
        for kind, expected in [("k1", 0.5), ("k2", 0.125), ("k3", 0.106531), ("abs", 0.5)]:
            self.assertAlmostEqual(losses.divergence(row, kind)[0][0], expected, 6)

    def test_a_sequence_ratio_is_a_geometric_mean(self):
        row = losses.Row(np.log([0.8, 0.5]), np.log([0.2, 0.5]), np.ones(2), np.ones(2))
        self.assertTrue(np.allclose(losses.sequence_ratio(row)[0], 2.0))

    def test_aggregations_of_two_responses(self):
        row = lambda n, t: losses.Row(np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n), trajectory=t)
        rows = [row(3, 0), row(1, 1), row(2, 1)]
        weights = lambda name: [round(w, 6) for w in losses.token_weights(rows, name, 8)]
        self.assertEqual(weights("token_mean"), [round(1 / 6, 6)] * 3)
        self.assertEqual(weights("seq_mean_token_mean"), [round(x, 6) for x in (1 / 9, 1 / 3, 1 / 6)])
        self.assertEqual(weights("seq_mean_token_sum"), [round(1 / 3, 6)] * 3)
        self.assertEqual(weights("seq_mean_token_sum_norm"), [round(1 / 24, 6)] * 3)
        self.assertEqual(weights("trajectory_mean_token_mean"), [round(1 / 6, 6)] * 3)
        self.assertEqual(weights("trajectory_mean_turn_mean"), [0.5, 0.25, 0.25])

    def test_every_bound_is_clear_of_every_token(self):
        """A float32 computation must take the same branch."""
        for name, _, s, rows in make.loss_inputs():
            if s.get("objective") or name == "beyond-e20":
                continue
            for row in map(make.as_row, rows):
                if row.part.sum() == 0:
                    continue
                r = losses.ratio(row, s.get("ratio", "token"))[0]
                narrow = 1e-5 if s.get("clip", 0.2) < 1e-2 else 1e-4
                bounds = [1 - s.get("clip", 0.2), 1 + s.get("clip_high", s.get("clip", 0.2)), s.get("dual_clip", 99.0)]
                self.assertGreater(min(abs(r - b).min() for b in bounds), narrow, name)


class Credit(unittest.TestCase):
    def advantage(self, name, **settings):
        _, _, function, defaults, by, rows = next(c for c in make.credit_inputs() if c[0] == name)
        return credit.METHODS[function](rows, **{**defaults, **settings})

    def close(self, found, expected):
        self.assertTrue(np.allclose(found, expected, atol=1e-6), (found, expected))

    def test_groups_of_four_as_worked_by_hand(self):
        rows = make.samples([1, 0, 0, 1])
        half = lambda x: [x, -x, -x, x]
        self.close(credit.grpo(rows)["advantage"], half(0.866024))
        self.close(credit.dr_grpo(rows)["advantage"], half(0.5))
        self.close(credit.rloo(rows)["advantage"], half(0.666667))

    def test_gigpo_as_worked_by_hand(self):
        rows = make.walk("a", 0, [0, 0, 10], [0, 1, 2]) + make.walk("a", 1, [0, 0], [0, 1])
        self.close(credit.step_return(rows, 0.95), [9.025, 9.5, 10, 0, 0])
        self.close(credit.gigpo(rows, scale="none", unit="turn")["advantage"], [8.5125, 8.75, 4, -10.5125, -10.75])

    def test_lamer_as_worked_by_hand(self):
        rows = make.walk("a", 0, [0, 0.5]) + make.walk("a", 0, [0], first=2, phase="reflect") + make.walk("a", 0, [0, 10], attempt=1)
        self.close(credit.cross_episode_return(rows, 0.95, 0.6)[:3], [6.175, 6.2, 9.5])
        self.close(credit.cross_episode_return(rows, 0.95, 0.6, "code"), [5.89, 6.2, 9.5, 9.5, 10])

    def test_depths_and_trees(self):
        rows = make.walk("a", 0, [0] * 4, [1, 2, 1, 1])
        self.assertEqual(credit.visitation_depths(rows), [0, 0, 1, 2])
        tree = next(c for c in make.credit_inputs() if c[0] == "at2po")[-1]
        # After sample 2's first answer are 0 and 0.5; after sample 0's 1: the mean of the answers to turn 1 is (1 + 0.25) / 2.
        self.close(credit.tree_return(tree, 1.0)[:3], [0.625, 1, 1])

    def test_gae_is_the_return_less_the_value_at_lambda_1(self):
        rewards, values = [0.0, 0.0, 10.0], [1.0, 2.0, 4.0]
        self.close(credit.gae(rewards, values, 0.5, 0.5), [0.375, 1.5, 6.0])
        self.close(credit.gae(rewards, values, 0.9, 1.0), np.array([8.1, 9.0, 10.0]) - values)

    def test_tokens_as_worked_by_hand(self):
        rows = [
            {"task": "a", "sample": 0, "turn": 0, "reward": 0, "tokens": 2, "token_rewards": [-0.1, -0.2]},
            {"task": "a", "sample": 0, "turn": 1, "reward": 1, "tokens": 1, "token_rewards": [-0.4]},
        ]
        self.close(np.concatenate(credit.token_return(rows, 1.0)), [0.3, 0.4, 0.6])
        self.close(np.concatenate(self.advantage("iql")["token_targets"]), [4, 4, 3, 8, 10, -1])


class Divergences(unittest.TestCase):
    def test_values_and_gradients(self):
        for case in make.divergence_cases():
            s, q = case["settings"], np.array(case["teacher"])
            logits = np.log(case["policy"])

            def at(z):
                p = np.exp(z) / np.exp(z).sum()
                return divergences.divergence(p, q, s["divergence"], s.get("beta", 0.5), s.get("top_k"))[0]

            numeric = [(at(logits + d) - at(logits - d)) / 2e-6 for d in 1e-6 * np.eye(4)]
            self.assertTrue(np.allclose(case["by_logits"], numeric, atol=1e-8), case["name"])
        self.assertAlmostEqual(make.divergence_cases()[0]["value"], 0.606504, 6)


class Files(unittest.TestCase):
    def test_the_cases_are_up_to_date(self):
        self.assertEqual(make.out_of_date(), [], "run conformance/make.py")

    def test_results_and_table_are_up_to_date(self):
        stale = [name for name, one in run.results().items() if one["cases"] != run.made_from()]
        self.assertEqual(stale, [], "run these again: run.py --library NAME")
        self.assertEqual((HERE / "README.md").read_text(), run.page(), "run conformance/run.py --table")

    def test_the_cases_are_small(self):
        self.assertLess(sum(path.stat().st_size for path in (HERE / "cases").iterdir()), 200_000)
        for path in (HERE / "cases").iterdir():
            names = [case["name"] for case in json.loads(path.read_text())]
            self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
