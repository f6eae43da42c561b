"""python/flow/operators.py is what scripts/stubs.py makes of the schema."""

import importlib.util
import inspect
import json
import unittest
from pathlib import Path

from flow import operators

ROOT = Path(__file__).resolve().parent.parent.parent


class TheStubs(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("stubs", ROOT / "scripts/stubs.py")
        self.stubs = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.stubs)

    def test_they_are_those_of_the_schema(self):
        self.assertEqual((ROOT / "python/flow/operators.py").read_text(), self.stubs.generated(), "run python3 scripts/stubs.py")

    def test_an_operator_has_all_its_settings(self):
        schema = json.loads((ROOT / "schemas/flow.schema.json").read_text())
        for one in schema["$defs"]["node"]["properties"]["op"]["oneOf"]:
            made = getattr(operators, self.stubs.python(one["const"]))
            settings = schema["$defs"][f"with.{one['const']}"].get("properties", {})
            self.assertEqual(sorted(inspect.signature(made).parameters), sorted(map(self.stubs.python, settings)))
            self.assertIn(one["const"], made.__doc__)

    def test_only_given_settings_are_written(self):
        self.assertEqual(operators.advantage(of="gae", lambda_=1), {"op": "advantage", "with": {"of": "gae", "lambda": 1}})
        self.assertEqual(operators.gpu_update(model="a", clip=None)["with"], {"model": "a", "clip": None})
        self.assertEqual(operators.rollback(), {"op": "rollback"})
        with self.assertRaises(TypeError):
            operators.gpu_update(model="a", lrr=1)


if __name__ == "__main__":
    unittest.main()
