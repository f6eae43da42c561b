"""The files of examples/ideas: their own tests, and each as an operator in a process."""

import os
import unittest

from .op_client import HERE, NEEDS_ARROW, Process, ipc, table

IDEAS = os.path.join(os.path.dirname(HERE), "examples", "ideas")
KINDS = {"solver_credit": "columns", "prediction": "columns", "empirical_value": "columns", "type_priority": "columns", "distinct_episodes": "rows", "repetition": "columns"}


def load_tests(loader, tests, pattern):
    tests.addTests(unittest.TestLoader().discover(IDEAS, "test_*.py", IDEAS))
    return tests


@NEEDS_ARROW
class Operators(unittest.TestCase):
    def test_each_is_described_and_run(self):
        import pyarrow as pa

        board = "# # # # #\n# P X O #\n# # # # #"
        rows = table(observation=pa.array([board] * 8), outcome=pa.array(["", board] * 4), response=pa.array(["left <predict># P</predict>", "right", "up", "up"] * 2),
                     state=pa.array([1, 2, 2, 3] * 2, pa.uint64()), type=pa.array(["easy"] * 4 + ["hard"] * 4), advantage=pa.array([0.5, -1, 0, 1] * 2, pa.float32()),
                     response_tokens=pa.array([[1, 2, 1, 2, 1, 2]] * 8, pa.list_(pa.uint32())))
        op = Process()
        self.addCleanup(op.close)
        for name, form in KINDS.items():
            with self.subTest(name):
                said = op.ask({"do": "describe", "protocol": 1, "call": f"{name}.py:{name}", "folder": IDEAS})[0]
                self.assertEqual(said["ok"]["form"], form)
                needed = rows.select([*rows.column_names[:6], *said["ok"]["needs"]])
                ends = [8] if said["ok"]["state"] else [4, 8]
                header, body = op.ask({"do": "run", "settings": {}, "seed": 1, "iteration": 7, "groups": [{"end": end, "seed": end, "name": ""} for end in ends], "state": None, "check": True}, ipc(needed))
                self.assertIn("ok", header, header)
                self.assertEqual(pa.ipc.open_stream(body).read_all().num_rows, header["ok"]["rows"])


if __name__ == "__main__":
    unittest.main()
