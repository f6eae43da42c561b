"""The adapter of verifiers on the real package, where it is installed, and how answers call tools."""

import asyncio
import importlib.util
import unittest
from pathlib import Path

from flow_env.adapters import tool_calls
from flow_env.episodes import Episodes

HERE = Path(__file__).with_name("tasksets")


class Calling(unittest.TestCase):
    def test_calls_are_read_out_of_an_answer(self):
        one, two = '{"name": "price", "arguments": {"thing": "hat"}}', '{"name": "price"}'
        for answer, wanted in [
            ("seven", ("seven", [])),
            (one, ("", [("price", {"thing": "hat"})])),
            (f"First: <tool_call>\n{one}\n</tool_call> <tool_call>{two}</tool_call>", ("First:", [("price", {"thing": "hat"}), ("price", {})])),
            ('{"name": "fly", "arguments": {}}', ('{"name": "fly", "arguments": {}}', [])),
            ('{"name": "price", "arguments": 3}', ('{"name": "price", "arguments": 3}', [])),
            ('{"name": "price", "argum', ('{"name": "price", "argum', [])),
            ("[1, 2]", ("[1, 2]", [])),
            ("<tool_call>no call</tool_call>", ("<tool_call>no call</tool_call>", [])),
        ]:
            self.assertEqual(tool_calls.calls(answer, {"price"}), wanted)

    def test_tools_are_told_one_a_line(self):
        self.assertEqual(tool_calls.told([]), "")
        self.assertEqual(tool_calls.told([{"name": "a"}, {"name": "b"}]).split("\n")[1:], ['{"name": "a"}', '{"name": "b"}'])


@unittest.skipUnless(importlib.util.find_spec("verifiers"), "the package verifiers isn't here")
class Playing(unittest.TestCase):
    def begin(self, arguments):
        from flow_env.adapters.verifiers import WORLD

        self.episodes = Episodes(lambda: WORLD(f"{HERE}/{arguments}"))
        self.addCleanup(self.episodes.end)
        return self.episodes.hello()

    def ask(self, what, episode=1, **fields):
        return self.episodes.answer({"request": what, "episode": episode, **fields})

    def reset(self, episode=1, task="0", split="train"):
        return self.ask("reset", episode, split=split, task=task, seed=0)

    def test_one_answer_is_graded_by_the_tasks_own_rewards(self):
        hello = self.begin("sums.py,expert=gold")
        self.assertEqual((hello["splits"], hello["abilities"]), ({"train": 180, "test": 20}, ["expert", "rollback", "copy"]))
        self.assertEqual(self.reset(task="21")["observation"], "What is 2 + 1? Put the answer into \\boxed{}.")
        self.assertEqual(self.ask("expert")["action"], "\\boxed{3}")
        last = self.ask("step", action="It is \\boxed{6/2}.")
        self.assertEqual((last["reward"], last["won"], last["score"], last["info"]), (1.0, True, 1.0, {"letters": 18.0, "right": 1.0}))
        self.reset(task="0", split="test")
        self.assertEqual(self.ask("step", action="I don't know")["reward"], 0.0)

    def test_the_environment_may_answer_back(self):
        self.assertEqual(self.begin("guess.py")["splits"], {"train": 500, "test": 50})
        first = self.reset()
        self.assertEqual((first["instruction"], first["observation"]), ("I think of a number from 1 to 20. You have 5 guesses.", "Guess."))
        low, high, guess = 1, 20, 10
        for guesses in range(1, 6):
            guess = (low + high) // 2
            seen = self.ask("step", action=f"Is it {guess}?")
            if seen["done"]:
                break
            low, high = (guess + 1, high) if seen["observation"] == "Too low." else (low, guess - 1)
        self.assertEqual((seen["won"], seen["info"]), (True, {"found": 1.0, "guesses": float(guesses)}))

    def test_fewer_steps_end_it_and_what_is_there_is_graded(self):
        self.begin("guess.py,steps=2")
        self.reset()
        self.assertFalse(self.ask("step", action="none")["done"])
        last = self.ask("step", action="none")
        self.assertEqual((last["done"], last["reward"]), (True, 0.0))

    def test_several_agents_ask_one_after_the_other(self):
        self.begin("sums.py,env=best-of-n")
        self.reset(task="5")
        for answer in ("\\boxed{1}", "\\boxed{5}", "five"):
            self.assertEqual(self.ask("step", action=answer)["observation"], "What is 0 + 5? Put the answer into \\boxed{}.")
        last = self.ask("step", action="5")
        self.assertEqual((last["done"], last["reward"], last["info"]),
                         (True, 0.25, {"letters": (9 + 9 + 4 + 1) / 4, "best": 0.25, "pass_at_n": 1.0, "right": 0.25}))

    def test_tools_are_called(self):
        self.begin("shop.py")
        first = self.reset(task="0")
        self.assertEqual(first["observation"], "What do the pear and the lamp cost together?")
        self.assertIn('"name": "price"', first["instruction"])
        self.assertEqual(self.ask("step", action='{"name": "price", "arguments": {"thing": "pear"}}')["observation"], "2")
        self.assertEqual(self.ask("step", action='{"name": "price", "arguments": {"thing": "lamp"}}')["observation"], "7")
        last = self.ask("step", action="9")
        self.assertEqual((last["won"], last["info"]), (True, {"asked": 2.0, "right": 1.0}))

    def test_closing_ends_the_waiting_episode(self):
        self.begin("guess.py")
        for number in (1, 2):
            self.reset(number)
        plays = [self.episodes.open[number].world.play for number in (1, 2)]
        bench = plays[0].bench
        self.assertIs(plays[1].bench, bench)
        self.ask("step", 1, action="3")
        self.assertFalse(plays[0].task.done())
        self.episodes.end()
        self.assertTrue(all(play.task.cancelled() for play in plays))
        self.assertTrue(bench.served.done() and bench.loop.is_closed())
        self.assertEqual(asyncio.all_tasks(bench.loop), set())


if __name__ == "__main__":
    unittest.main()
