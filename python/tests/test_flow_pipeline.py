"""Pipelines that are built in Python."""

import tempfile
import unittest
from pathlib import Path

import flow
from flow.arguments import file_of, flags, grids, seeds, sets


def small():
    p = flow.Pipeline("mine", iterations=20, seed=1)
    actor = p.model("actor", new="tiny", layers=1, width=32)
    tasks = p.node("tasks", op="tasks", env="minesweeper", size=4, mines=2, batch=6)
    rollout = p.node("rollout", op="rollout", inputs={"tasks": tasks, "weights": flow.after("update")}, agent={"model": actor, "max_turns": 5}, samples=4)
    group = p.node("group", flow.ops.group(by=["task"]), inputs=rollout)
    advantage = p.node("advantage", op="advantage", inputs=group, of="episode_return")
    p.node("update", op="gpu-update", inputs=advantage, model=actor, lr=1e-3)
    p.log(rollout, advantage)
    return p


class APipeline(unittest.TestCase):
    def test_it_is_a_plain_dict(self):
        p = small()
        self.assertEqual(p.source["nodes"]["rollout"], {"op": "rollout", "inputs": {"tasks": "tasks", "weights": {"after": "update"}},
                                                        "with": {"agent": {"model": "actor", "max_turns": 5}, "samples": 4}})
        self.assertEqual(p.source["nodes"]["group"], {"op": "group", "inputs": "rollout", "with": {"by": ["task"]}})
        self.assertEqual(list(p.source), ["flow", "iterations", "seed", "models", "nodes", "log"])

        def types(value):
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            return {type(value)}.union(*map(types, inner))

        self.assertLessEqual(types(p.source), {dict, list, str, int, float})
        p.source["keep"] = {"every": 5}
        self.assertTrue(p.to_yaml().endswith("log: [rollout, advantage]\nkeep: { every: 5 }\n"))
        self.assertEqual(flow.Pipeline.from_dict(p.source).to_yaml(), p.to_yaml())
        self.assertEqual(repr(p), "<pipeline mine: tasks, rollout, group, advantage, update>")

    def test_loops_agents_staleness_and_variants(self):
        p = flow.Pipeline("two", like="base.yaml", keep={"last": 2})
        player = p.agent("player", model="actor", max_turns=8)
        trial = p.loop("trial", attempts=3, until="won")
        rollout = trial.node("rollout", op="rollout", inputs={"tasks": "tasks", "weights": flow.after("update", staleness=1), "memory": flow.after("reflect")}, agent=player)
        trial.output(rollout, trial.node("reflect", op="reflect", inputs=rollout, agent="writer"))
        p.node("group", op="group", inputs=trial, by=["task"])
        p.source["nodes"]["novelty"] = None
        self.assertEqual(p.source["nodes"]["trial"]["output"], ["rollout", "reflect"])
        self.assertEqual(p.source["nodes"]["trial"]["nodes"]["rollout"]["inputs"]["weights"], {"after": "update", "staleness": 1})
        self.assertEqual(p.source["nodes"]["group"]["inputs"], "trial")
        self.assertTrue(p.to_yaml().startswith("like: base.yaml\nflow: two\nagents:\n  player: { model: actor, max_turns: 8 }\n"))
        self.assertIn("  novelty: null\n", p.to_yaml())

    def test_settings_may_have_the_names_of_parameters(self):
        p = flow.Pipeline("x")
        p.node("tasks", op="tasks", env="process", name="corridor")
        p.node("group", {"op": "group", "inputs": "a", "with": {"by": ()}}, as_of=Path("b/c"))
        self.assertEqual(p.source["nodes"]["tasks"]["with"], {"env": "process", "name": "corridor"})
        self.assertEqual(p.source["nodes"]["group"], {"op": "group", "inputs": "a", "with": {"by": [], "as_of": "b/c"}})


class Arguments(unittest.TestCase):
    def test_values_are_written_as_the_program_reads_them(self):
        self.assertEqual(sets({"nodes.update.with.lr": 1e-5, "a": None, "b": "yes", "c": {"new": "tiny"}, "d": True}),
                         ["--set=nodes.update.with.lr=1.0e-05", "--set=a=null", '--set=b="yes"', "--set=c={ new: tiny }", "--set=d=true"])
        self.assertEqual(sets(["a=1"]) + sets(None) + grids({"a": [1, "x"]}) + grids(["b=1,2"]), ["--set=a=1", "--grid=a=1,x", "--grid=b=1,2"])
        self.assertEqual(flags(dry_run=True, view=False, out=Path("a"), workers=2, device=None, stall=0), ["--dry-run", "--out=a", "--workers=2", "--stall=0"])
        self.assertEqual([seeds(None), seeds(3), seeds([1, 2])], [None, "3", "1,2"])
        with self.assertRaises(TypeError):
            sets("a=1")

    def test_a_pipeline_is_in_its_folder_while_it_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            p = small()
            p.folder = Path(folder)
            with file_of(p) as (file, names):
                self.assertEqual(Path(file).read_text(), p.to_yaml())
                self.assertEqual((Path(file).parent, names[file]), (Path(folder), "<pipeline mine>"))
            self.assertEqual(list(Path(folder).iterdir()), [])
            p.folder = Path(folder) / "none"
            with self.assertRaisesRegex(flow.Error, "can't be written into"), file_of(p):
                pass
        with file_of("a/b.yaml") as given:
            self.assertEqual(given, ("a/b.yaml", {}))


if __name__ == "__main__":
    unittest.main()
