"""Losses of tokens in numpy: checked against central differences, and row by row."""

import unittest

try:
    import numpy as np

    import flow_op
    from flow_op.losses import answer
    import pyarrow as pa
except ImportError:  # functions need both
    pa = None


def tokens():
    draw = np.random.default_rng(3)
    new = -draw.uniform(0.1, 2, 7).astype("f4")
    columns = {"new": new, "old": new + draw.normal(0, 0.1, 7).astype("f4"), "acted": new, "advantage": draw.normal(0, 1, 7).astype("f4"), "entropy": np.ones(7, "f4"),
               "row": np.array([0, 0, 0, 1, 1, 2, 2], "u4"), "part": np.ones(7, "f4"), "weight": np.full(7, 0.25, "f4")}
    return pa.table(columns)


@unittest.skipIf(pa is None, "pyarrow isn't installed")
class Losses(unittest.TestCase):
    def made(self, body, **declared):
        function = flow_op.loss(by="numpy", **declared)(body)
        return answer(function.__flow_op__, {"check": True}, tokens())

    def test_a_slope_is_the_derivative_of_the_weighted_sum(self):
        def right(new, old, acted, advantage, entropy, rows):
            ratio = np.exp(rows.mean(new - old))
            return -advantage * ratio, rows.mean(rows.weight * -advantage * ratio) * rows.part

        made = self.made(right)
        self.assertEqual(made.schema.names, ["loss", "by_new"])
        for wrong in (lambda loss, slope, rows: (loss, -slope), lambda loss, slope, rows: (loss, slope / rows.weight), lambda loss, slope, rows: (loss, slope * 1.2)):
            def off(new, old, acted, advantage, entropy, rows):
                return wrong(*right(new, old, acted, advantage, entropy, rows), rows)

            with self.assertRaisesRegex(flow_op.Error, "the slope isn't the derivative"):
                self.made(off)

    def test_a_gradient_that_is_stopped_is_declared(self):
        def cispo(new, old, acted, advantage, entropy, rows):
            ratio = np.exp(new - old)
            return -ratio * advantage * new, rows.weight * -ratio * advantage

        with self.assertRaisesRegex(flow_op.Error, "stopped=True"):
            self.made(cispo)
        self.made(cispo, stopped=True)

    def test_a_loss_is_of_its_row_alone(self):
        def mixed(new, old, acted, advantage, entropy, rows):
            return new - new.mean(), np.ones(len(new)) * rows.weight

        with self.assertRaisesRegex(flow_op.Error, "rows.mean"):
            self.made(mixed, stopped=True)


if __name__ == "__main__":
    unittest.main()
