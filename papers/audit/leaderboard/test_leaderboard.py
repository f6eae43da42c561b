"""Worked numbers, and the page as its figures say: PYTHONPATH=../../../python:../../../.pyarrow python3 -m unittest"""

import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import leaderboard  # noqa: E402
import measure  # noqa: E402
import page  # noqa: E402

FILES = sorted((HERE / "estimators").glob("*.yaml"))


def answer(turn, role, text, worth, audited=0.0, error=0.1):
    return dict(iteration=0, task="a", sample=0, attempt=0, turn=turn, phase="play", role=role, answer=text, worth=worth, audited=audited, audited_error=error, refused="")


def visit(sample, turn, state, action):
    return dict(iteration=0, task="a", sample=sample, attempt=0, turn=turn, phase="play", state=state, action=action)


class Measure(unittest.TestCase):
    def test_ranks_share_ties(self):
        self.assertEqual(measure.ranks([3, 1, 3, 0]), [2.5, 1, 2.5, 0])
        # Ranks 0, 1, 2.5, 2.5 and 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
        self.assertAlmostEqual(measure.spearman([1, 2, 3, 3], [1, 2, 3, 4]), 0.948683, 6)
        self.assertEqual(measure.spearman([0, 0, 0], [1, 2, 3]), 0.0)

    def test_signs_and_their_regret(self):
        turns = [(2.0, True), (-1.0, True), (0.5, False), (-0.5, True)]
        # Decided with a credit: the first and the second, of which one is right.
        self.assertEqual(measure.right(turns, [1, 1, -1, 0]), 0.5)
        # Lost are 1 and 0.5, and half of 0.5: 1.75 where a coin loses 2.
        self.assertAlmostEqual(measure.sign_regret(turns, [1, 1, -1, 0]), 1.75 / 2)
        self.assertEqual(measure.sign_regret(turns, [0, 0, 0, 0]), 1.0)
        self.assertEqual(measure.sign_regret(turns, [-1, 1, -1, 1]), 2.0)

    def test_the_regret_of_a_choice(self):
        told = {
            "answers": [answer(0, "policy", "", 1.0), answer(0, "logged", "left", 2.0, 1.0), answer(0, "other", "right", 5.0), answer(0, "other", "up", 1.0)],
            "turns": [visit(0, 0, 7, "left"), visit(1, 0, 7, "up"), visit(2, 1, 7, "left"), visit(3, 0, 8, "up")],
            "success": [{"share": 0.5}],
            "seconds": 2.0,
        }
        audit = measure.Audit(told)
        # The best answer, 5, was never logged. Left has the mean credit 1, up 0.5: 5 - 2. At random 5 - 1.5, at best 5 - 2.
        self.assertEqual(audit.pick(0, [3.0, 0.5, -1.0, 9.0].__getitem__), {"chosen": 3.0, "random": 3.5, "best": 3.0})
        self.assertEqual(audit.pick(0, [0.0, 0.5, 0.0, 0.0].__getitem__)["chosen"], 4.0)
        self.assertEqual(audit.pick(0, lambda at: 0.0)["chosen"], 3.5)
        made = audit.figures({"credits": [1.0, None, None, None], "busy": 1e-3, "rows": 4})
        self.assertEqual((made["right"], made["credited"], made["sign_regret"], made["microseconds"]), (1, 1, 0, 250))

    def test_student_and_holm(self):
        # Table values: 2.262 with 9 degrees of freedom, 12.706 with one.
        self.assertAlmostEqual(measure.quantile(9), 2.262157, 5)
        self.assertAlmostEqual(measure.quantile(1), 12.706205, 5)
        self.assertAlmostEqual(measure.student(2.0, 4), 0.116117, 5)
        made = measure.interval([1.0, 2.0, 3.0])
        self.assertAlmostEqual(made["high"] - made["mean"], 4.302653 / 3**0.5, 5)
        self.assertEqual(measure.holm({"a": 0.01, "b": 0.04, "c": 0.03}), {"a": 0.03, "c": 0.06, "b": 0.06})


class Page(unittest.TestCase):
    def test_the_page_is_what_its_figures_say(self):
        made = json.loads((HERE / "results.json").read_text())
        self.assertEqual((HERE / "README.md").read_text(), page.text(made, FILES))

    def test_an_estimator_says_what_it_is(self):
        for file in FILES:
            said = page.headers(file)
            self.assertTrue(all(said.get(key) for key in ("name", "source", "read", "about")), file.name)
            self.assertLessEqual(len(file.read_text().splitlines()), 25, file.name)

    def test_costs_leave_out_what_plays_and_trains(self):
        others = {file.stem: leaderboard.others(file) for file in FILES}
        self.assertNotIn("episodes", others["grpo"])
        self.assertTrue({"rollout", "update", "learn", "grpo"} <= others["hcapo"])
        self.assertFalse({"value", "batch", "learn"} & others["ppo"])


class Solver(unittest.TestCase):
    def setUp(self):
        try:
            import solver
        except ImportError as error:
            self.skipTest(f"pyarrow isn't installed: {error}")
        self.solver = solver

    def test_distances(self):
        self.assertEqual(self.solver.distance("F . P . T"), 2)
        self.assertEqual(self.solver.distance("P H .\n. H G\n. . ."), 5)
        self.assertEqual(self.solver.distance("P H G"), float("inf"))

    def test_the_chance_of_the_best_play(self):
        # Of four cells one is open and sees two mines in the other three: a guess, right once in three times.
        self.assertAlmostEqual(self.solver.chance(tuple("2???")), 1 / 3)
        # The two 1s leave the middle of the upper row no mine, so nothing is guessed.
        self.assertEqual(self.solver.chance(tuple("???" "121" "...")), 1.0)

    def test_the_chance_by_brute_force(self):
        @functools.lru_cache(maxsize=None)
        def best(view):
            closed = [cell for cell, shown in enumerate(view) if shown == "?"]
            if len(closed) == 2:
                return 1.0
            shown = {cell: text for cell, text in enumerate(view) if text != "?"}
            agree = lambda mines: all(str(sum(near in mines for near in self.solver.around(cell, 3)) or ".") == text for cell, text in shown.items())
            boards = [mines for mines in map(frozenset, itertools.combinations(closed, 2)) if agree(mines)]
            then = lambda cell: sum(best(self.solver.opened(view, cell, mines, 3)) for mines in boards if cell not in mines)
            return max(map(then, closed)) / len(boards)

        views = {
            self.solver.opened(("?",) * 9, cell, frozenset(mines), 3)
            for mines in itertools.combinations(range(9), 2) for cell in range(9) if cell not in mines
        }
        self.assertGreater(len(views), 30)
        for view in views | {("?",) * 9}:
            self.assertAlmostEqual(self.solver.chance(view), best(view), 12, view)

    def test_a_turn_is_worth_the_change(self):
        import flow_op

        rows = {"task": ["corridor/train/1"] * 2, "turn": [0, 1], "sample": [0, 0], "observation": ["F . P . T", "F P . . T"], "outcome": ["", "P . . . T"],
                "done": [False, True], "won": [False, True], "truncated": ["", ""]}
        made = flow_op.call(self.solver.solver_credit, rows, gamma=0.5)["advantage"].to_pylist()
        # 1/4, 1/2, and the goal: 1.
        self.assertEqual(made, [0.25, 0.5])


@unittest.skipUnless(os.environ.get("FLOW"), "FLOW names no program")
class Small(unittest.TestCase):
    def test_the_whole_in_small(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, HERE / "leaderboard.py", "--flow", os.environ["FLOW"], "--home", folder, "--page", folder, "--first", "1"]
            command += ["--seeds", "2", "--worlds", "corridor", "--iterations", "6", "--turns", "6", "--plays", "4", "--only", "grpo,cast,at2po"]
            subprocess.run(command, check=True, timeout=600)
            made = json.loads((pathlib.Path(folder) / "results.json").read_text())
            self.assertEqual(made["seeds"], {"corridor": [1, 2]})
            self.assertEqual(made["facts"]["corridor"]["turns"]["mean"], 6)
            # A second time nothing is left to do, and the page is the same.
            first = (pathlib.Path(folder) / "README.md").read_text()
            marks = {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).glob("*/credits/*.json")}
            subprocess.run(command, check=True, timeout=60)
            self.assertEqual((pathlib.Path(folder) / "README.md").read_text(), first)
            self.assertEqual(marks, {path: path.stat().st_mtime_ns for path in marks})
            self.assertEqual(len(marks), 6)


if __name__ == "__main__":
    unittest.main()
