"""BFCL's multi-turn categories: the package's ground truth wins, and what is wrong goes back to the policy."""

import importlib.util
import json
import unittest

from tests.door_driver import Flow, tool_calls

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")


@unittest.skipUnless(importlib.util.find_spec("bfcl_eval") and importlib.util.find_spec("mpmath"), "the package bfcl-eval isn't here")
class Bfcl(unittest.TestCase):
    def flow(self, world):
        flow = Flow.of(world)
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        return flow

    def led(self, flow, tasks, split="test"):
        """Episodes that the expert plays, one after another: their calls and last views."""
        played = []
        for task in tasks:
            calls, view = [], flow.ask({"request": "reset", "episode": 0, "split": split, "task": task, "seed": 1})
            while "call" in view:
                calls.append(view)
                action = flow.ask({"request": "expert", "episode": 0})["action"]
                view = flow.ask({"request": "step", "episode": 0, "action": action})
            played.append((calls, view))
            flow.ask({"request": "close", "episode": 0})
        return played

    def test_the_ground_truth_wins_and_empty_answers_do_not(self):
        for category in CATEGORIES:
            flow = self.flow(f"bfcl:{category}")
            self.assertEqual({split: len(names) for split, names in flow.hello["splits"].items()}, {"train": 180, "test": 20})
            self.assertEqual((flow.hello["protocol"], flow.hello["abilities"]), (3, ["expert"]))
            tasks = flow.hello["splits"]["test"]
            for task, (calls, end) in zip(tasks, self.led(flow, tasks)):
                self.assertEqual((end.get("reward"), end.get("won"), end.get("truncated")), (1, True, None), (task, end))
                self.assertTrue(all(call.get("valid", True) for call in calls), task)
            for calls, end in flow.play(lambda call: "", tasks, split="test"):
                self.assertEqual((end.get("reward"), end.get("info")), (0, {"turns": len(calls)}), end)
            self.assertEqual(flow.end()[0], 0)

    def test_equal_answers_give_equal_calls(self):
        flow = self.flow("bfcl:multi_turn_miss_func")
        first, second = self.led(flow, ["multi_turn_miss_func_0"] * 2, "train")
        self.assertEqual(json.dumps(first), json.dumps(second))
        # The function that is missed comes with a turn of its own.
        names = [{tool["function"]["name"] for tool in view["call"]["tools"]} for view in first[0]]
        self.assertEqual((["sort" in some for some in names].index(True), first[0][5]["observation"].endswith("What about now?")), (5, True))

    def test_wrong_calls_go_back_to_the_policy(self):
        said = iter([tool_calls(("fly", {})), tool_calls(("cd", {})), tool_calls(("cd", {"folder": 3, "x=print(1), y": 1})), tool_calls(("cd", {"folder": 3})),
                     tool_calls(("echo", {"content": "ls() and mv()"}))])
        calls, end = self.flow("bfcl:multi_turn_base").play(lambda call: next(said, "Done."), ["multi_turn_base_0"])[0]
        results = [call["messages"][-1]["content"] for call in calls[1:6]]
        self.assertTrue(results[0].startswith("Error: there is no tool `fly`; there are "), results)
        self.assertEqual(results[1:3], ["Error: the argument `folder` is missing", "Error: there is no argument `x=print(1), y`; there are folder"])
        self.assertIn("ls() and mv()", results[4])
        self.assertEqual([call["view"].get("valid", True) for call in calls[1:6]], [False] * 4 + [True], results)
        self.assertEqual((end["reward"], end["done"]), (0, True))

    def test_an_answer_whose_call_cannot_be_read_ends_the_turn_as_in_the_package(self):
        flow = self.flow("bfcl:multi_turn_base")
        questions = len(flow.play(lambda call: "", ["multi_turn_base_0"])[0][0])
        for said in ("<tool_call>{", tool_calls(("ls", {"a": float("nan")})), "<tool_call>[1]</tool_call>", "<think>I call <tool_call>{</tool_call>"):
            calls, end = flow.play(lambda call: said, ["multi_turn_base_0"])[0]
            self.assertEqual((len(calls), [call["messages"][-1]["role"] for call in calls]), (questions, ["user"] * questions), said)
            self.assertEqual((end["reward"], end.get("truncated"), end["info"]), (0, None, {"turns": questions}))
            wanted = said.startswith("<think>")  # a thought has no calls, so nothing is wrong with it
            self.assertEqual([each.get("valid", True) for each in (*(call["view"] for call in calls[1:]), end)], [wanted] * questions)
        # The ground truth after it doesn't help: its turn is over.
        view, spoilt = flow.ask({"request": "reset", "episode": 7, "split": "train", "task": "multi_turn_base_0", "seed": 1}), False
        while "call" in view:
            action = flow.ask({"request": "expert", "episode": 7})["action"] if spoilt else "<tool_call>{"
            spoilt, view = True, flow.ask({"request": "step", "episode": 7, "action": action})
        self.assertEqual((view["reward"], view["won"]), (0, False))

    def test_a_function_that_never_ends_fails_the_episode_alone(self):
        import signal

        from flow_env.adapters.bfcl import limited
        from flow_env.door.episode import Failure

        with self.assertRaisesRegex(Failure, "longer than 0.1 s"):
            with limited(0.1):
                while True:
                    try:
                        sum(range(1000))
                    except Exception:
                        pass
        self.assertEqual(signal.getitimer(signal.ITIMER_REAL)[0], 0)

    def test_too_many_answers_and_too_long_prompts_end_it(self):
        flow = self.flow("bfcl:multi_turn_base,turns=3")
        calls, end = flow.play(lambda call: tool_calls(("ls", {})), ["multi_turn_base_0"])[0]
        self.assertEqual((len(calls), end["reward"], end["truncated"], end["info"]), (4, 0, True, {"turns": 0}))
        calls, end = flow.play(lambda call: {"request": "refuse", "reason": "too_long", "tokens": 9, "limit": 8}, ["multi_turn_base_0"])[0]
        self.assertEqual((len(calls), end["reward"], end["truncated"]), (1, 0, True))

    def test_arithmetic_that_would_take_for_ever_is_refused(self):
        flow = self.flow("bfcl:multi_turn_base")
        task = next(task for task in flow.hello["splits"]["train"] if any(
            tool["function"]["name"] == "power" for tool in flow.play(lambda call: "", [task])[0][0][0]["tools"]))
        said = iter([tool_calls(("power", {"base": 9, "exponent": 10**9})), tool_calls(("power", {"base": 2, "exponent": 5}))])
        calls, _ = flow.play(lambda call: next(said, ""), [task])[0]
        self.assertEqual([call["messages"][-1]["content"] for call in calls[1:3]], ["Error: `exponent` is more than 1000", '{"result": 32}'])

    def test_wrong_names_are_told(self):
        for world, wanted in [("bfcl:simple", "names one of multi_turn_base"), ("bfcl:multi_turn_base,turn=3", r"there are no settings \['turn'\]")]:
            with self.assertRaisesRegex(RuntimeError, wanted):
                Flow.of(world)
