"""ALFWorld's engine beside the package's own environment, step by step. Runs where the package is: .venv-alfworld/bin/python -m unittest."""

import importlib.util
import json
import random
import tempfile
import unittest
from pathlib import Path


@unittest.skipUnless(importlib.util.find_spec("alfworld"), "alfworld isn't installed")
class AlfWorldTest(unittest.TestCase):
    def test_texts_commands_and_facts_are_the_packages(self):
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs import PddlEnv

        from flow_env.adapters import alfworld as adapter
        from flow_env.adapters.alfworld_scenes import TYPES

        world = adapter.AlfWorld()
        domain, grammar = ((adapter.DATA / name).read_text() for name in ("alfred.pddl", "alfred.twl2"))
        wanted = textworld.EnvInfos(feedback=True, admissible_commands=True, won=True, facts=True)
        with tempfile.TemporaryDirectory() as folder:
            for number, kind in enumerate(TYPES):
                world.split, task = ("train", "dev", "test")[number % 3], f"{kind}/{number}"
                world.reset(task, 0)
                made = adapter.scene(world.split, task)
                file = Path(folder) / "game.tw-pddl"
                sentence = grammar.replace("UNKNOWN GOAL", made.sentence)
                file.write_text(json.dumps({"pddl_domain": domain, "grammar": sentence, "pddl_problem": made.problem}))
                package = AlfredDemangler(PddlEnv(wanted), shuffle=False)
                package.load(str(file))
                state, draw = package.reset(), random.Random(number)
                for turn in range(25):
                    self.assertEqual(world.engine.feedback, state["feedback"])
                    self.assertEqual(world.actions(), state["admissible_commands"])
                    self.assertEqual([fact.text for fact in world.engine.facts.ordered], sorted(map(str, state["facts"])))
                    self.assertEqual(world.engine.won, state["won"])
                    command = draw.choice(world.actions()) if turn % 5 else "go to nowhere"
                    world.step(command)
                    state, _, _ = package.step(command)
        world.close()


if __name__ == "__main__":
    unittest.main()
