"""What the package answers, without any process."""

import contextlib
import io
import json
import time
import unittest

from flow_env import limits, words
from flow_env.change import change, changed
from flow_env.episodes import Episodes
from flow_env.serve import encoded
from flow_env.world import View

from . import worlds


class Asking(unittest.TestCase):
    world = worlds.Walk

    def setUp(self):
        self.episodes = Episodes(self.world)

    def ask(self, what, episode=1, **fields):
        with contextlib.redirect_stderr(io.StringIO()):
            return self.episodes.answer({"request": what, "episode": episode, **fields})

    def reset(self, episode=1, task="0", split="train", **fields):
        return self.ask("reset", episode, split=split, task=task, seed=7, **fields)


class Walking(Asking):
    def test_hello_names_what_the_world_has(self):
        hello = self.episodes.hello()
        self.assertEqual(limits.wrong_hello(hello), [])
        self.assertEqual(hello["splits"], {"train": 4, "test": 2})
        self.assertEqual(hello["abilities"], ["actions", "expert", "rollback", "copy"])
        self.assertEqual(hello["score"], [0, 5])
        self.assertNotIn("live", hello)

    def test_an_episode_from_reset_to_close(self):
        first = self.reset(actions="full")
        self.assertEqual(first, {"episode": 1, "observation": "You are at 0.", "score": 0, "instruction": "Task 0, seed 7.", "type": "walk",
                                 "actions": ["left", "right"]})
        for place in range(1, 5):
            seen = self.ask("step", action="right")
            self.assertEqual(seen, {"episode": 1, "observation": f"You are at {place}.", "reward": 0.0, "done": False, "score": place,
                                    "info": {"steps": place}})
        last = self.ask("step", action="right", actions="full")
        self.assertEqual((last["reward"], last["done"], last["won"]), (1.0, True, True))
        self.assertNotIn("actions", last)
        self.assertEqual(self.ask("step", action="right")["error"], "the episode is over")
        self.assertEqual(self.ask("expert"), {"episode": 1, "action": None})
        self.assertEqual(self.ask("close"), {"episode": 1, "closed": True})
        self.assertEqual(self.ask("close"), {"episode": 1, "closed": True})
        self.assertEqual(self.ask("step", action="right")["error"], "episode 1 isn't open")

    def test_numbered_tasks_of_two_splits_never_meet(self):
        self.assertEqual(self.reset(task="3")["instruction"], "Task 3, seed 7.")
        self.assertEqual(self.reset(split="test", task="0")["instruction"], "Task 4, seed 7.")

    def test_what_cannot_be_asked_is_an_error_of_the_episode(self):
        for fields, word in [
            ({"split": "dev"}, "there is no split 'dev'; there are train, test"),
            ({"task": "4"}, "its tasks are \"0\" to \"3\""),
            ({"task": "-1"}, "has no task '-1'"),
            ({"task": "٣"}, "has no task"),
            ({"actions": "some"}, "neither \"full\" nor \"change\""),
        ]:
            answer = self.reset(**fields)
            self.assertIn(word, answer["error"])
        self.assertIn("no `seed`", self.ask("reset", split="train", task="0")["error"])
        self.reset()
        self.assertIn("there is no request 'fly'", self.ask("fly")["error"])
        self.assertIn("no `action`", self.ask("step")["error"])
        self.assertIn("names no episode", self.episodes.answer({"request": "step"})["error"])
        self.assertEqual(self.ask("step", action="swim")["valid"], False)

    def test_actions_come_when_asked_and_as_a_change(self):
        self.assertNotIn("actions", self.reset())
        self.assertEqual(self.ask("actions", actions="change")["actions"], ["left", "right"])
        self.assertEqual(self.ask("step", action="right", actions="change")["actions"], {"drop": [], "add": [[2, "jump"]]})
        self.assertNotIn("actions", self.ask("step", action="right"))
        self.assertEqual(self.ask("actions", actions="change")["actions"], {"drop": [2], "add": []})
        self.assertEqual(self.ask("actions", actions="full")["actions"], ["left", "right"])

    def test_episodes_do_not_meet(self):
        self.reset(1)
        self.reset(2, task="1")
        self.ask("step", 1, action="right")
        self.assertEqual(self.ask("step", 2, action="left")["observation"], "You are at 0.")
        self.assertEqual(self.ask("step", 1, action="right")["observation"], "You are at 2.")

    def test_rollback_and_copy_by_playing_again(self):
        self.reset()
        views = [self.ask("step", action=action) for action in ("right", "jump", "right", "right")]
        self.assertTrue(views[-1]["done"])
        self.assertEqual(self.ask("rollback", steps=2), views[1])
        self.assertEqual(self.ask("copy", 2, **{"from": 1}), {**views[1], "episode": 2})
        self.assertEqual(self.ask("step", 2, action="left")["observation"], "You are at 2.")
        self.assertEqual(self.ask("step", 1, action="right"), views[2])
        self.assertEqual(self.ask("rollback", steps=3)["observation"], "You are at 0.")
        self.assertIn("can't be taken back", self.ask("rollback", steps=1)["error"])
        self.assertIn("isn't open", self.ask("copy", 3, **{"from": 99})["error"])


class OneAtATime(Asking):
    world = worlds.Named

    def test_live_is_kept_to_and_instances_are_used_again(self):
        self.assertEqual(self.episodes.hello()["live"], 1)
        self.assertEqual(self.episodes.hello()["abilities"], ["actions", "expert", "rollback"])
        self.reset(task="a/1")
        self.assertIn("1 episodes are open", self.reset(2, task="a/2")["error"])
        first = self.episodes.open[1].world
        self.ask("close")
        self.assertIn("observation", self.reset(2, task="b/1", split="dev"))
        self.assertIs(self.episodes.open[2].world, first)
        self.assertIn("has no task 'b/1'", self.reset(2, task="b/1")["error"])
        self.ask("step", 2, action="right")
        self.assertEqual(self.ask("rollback", 2, steps=1)["observation"], "You are at 1.")


class Faults(Asking):
    world = worlds.Failing

    def test_a_failure_costs_its_episode_and_no_other(self):
        self.reset(2)
        for action, word in [
            ("nan", "`reward` is nan"), ("none", "TypeError: step must return a View, not None"),
            ("tuple", "TypeError: step must return a View, not a tuple (Gymnasium's environments: `gymnasium:ID`)"),
            ("raise", "KeyError: 'no such key' (worlds.py, line 85, in step)"), ("empty", "`observation` is no text, or empty"),
            ("end", "`observation` of the episode's last view is no text, or empty"),
            ("info", "`info` isn't"), ("exit", "SystemExit: 3"),
        ]:
            self.reset(1)
            self.assertIn(word, self.ask("step", action=action)["error"], action)
            self.assertIn("has failed before", self.ask("step", action="right")["error"])
        self.assertEqual(self.ask("step", 2, action="right")["observation"], "You are at 1.")
        self.assertEqual(self.ask("step", 2, action="half")["observation"], "half ? a character")

    def test_numbers_that_rows_cannot_hold_and_a_text_for_a_list_become_errors(self):
        for field in ("reward", "score"):
            for value in (1e39, -1e39, 10**39, 10**400):
                self.reset()
                world = self.episodes.open[1].world
                world.step = lambda action: View("x", **{"reward": 0, field: value})
                self.assertRegex(self.ask("step", action="right")["error"], f"`{field}` is (too large|no finite number)")
        self.reset()
        self.episodes.open[1].world.step = lambda action: View("x", reward=3.4e38)
        self.assertEqual(self.ask("step", action="right")["reward"], 3.4e38)
        self.reset()
        self.episodes.open[1].world.actions = lambda: "left"
        self.assertIn("`actions` gave the text 'left': it gives a list of texts", self.ask("actions", actions="full")["error"])

    def test_what_is_too_long_becomes_an_error(self):
        self.reset()
        for _ in range(4):
            answer = self.ask("step", action="right", actions="full")
        self.assertIn("20000 texts, 10000 at most", answer["error"])
        self.reset()
        line = json.loads(encoded(self.ask("step", action="long")))
        self.assertIn("1048576 are allowed", line["error"])


class Chance(Asking):
    world = worlds.Drawing

    def test_each_episode_has_its_own_global_generator(self):
        def play(order):
            self.setUp()
            self.reset(0)
            self.reset(1, task="1")
            seen = {0: [], 1: []}
            for number in order:
                seen[number].append(self.ask("step", number, action="right")["observation"])
            return seen

        self.assertEqual(play([0, 0, 0, 1, 1, 1]), play([1, 0, 1, 0, 1, 0]))
        self.reset(0)
        two = [self.ask("step", 0, action="right")["observation"] for _ in range(2)]
        self.assertEqual(self.ask("rollback", 0, steps=1)["observation"], two[0])
        self.assertEqual(self.ask("step", 0, action="right")["observation"], two[1])


class Written(Asking):
    world = worlds.Quick

    def test_a_world_may_write_rollback_and_copy_and_a_limit(self):
        self.reset()
        one = self.ask("step", action="right")
        two = self.ask("step", action="right")
        back = self.ask("rollback", steps=1)
        self.assertEqual(back, {key: value for key, value in one.items() if key not in ("reward", "done")})
        self.assertEqual(self.ask("copy", 2, **{"from": 1})["observation"], back["observation"])
        self.assertEqual(self.ask("step", action="right"), two)
        self.ask("step", action="left")
        cut = self.ask("step", action="left")
        self.assertEqual((cut["done"], cut["truncated"], cut.get("won")), (True, True, None))


class Changing(unittest.TestCase):
    def test_a_change_gives_the_new_list(self):
        lists = [[], ["a"], ["a", "b", "c"], ["x", "a", "y", "c", "z"], ["c"], ["q", "r"], ["b", "a"]]
        for one in lists:
            for two in lists:
                by = change(one, two)
                if by is not None:
                    self.assertEqual(changed(one, by), two)
        self.assertIsNone(change(["a", "b"], ["b", "a"]))
        for wrong in ({"drop": [3], "add": []}, {"drop": [1, 0], "add": []}, {"drop": [], "add": [[5, "x"]]}):
            with self.assertRaises(ValueError):
                changed(["a", "b"], wrong)

    def test_words_are_gathered_from_what_a_world_shows_before_it_fails(self):
        for world in (worlds.Raising, worlds.Gym, worlds.Torn, worlds.Leaving):
            self.assertIn(" at", words.of_world(world), world.__name__)
            hello = Episodes(world, lambda: words.of_world(world)).hello()
            self.assertEqual(limits.wrong_hello(hello), [])
        self.assertIn("Walk", words.of_world(worlds.Counting))
        self.assertEqual(Episodes(worlds.Mute, lambda: words.of_world(worlds.Mute)).hello()["words"], [])

    def test_a_long_text_is_looked_through_in_part(self):
        begun = time.monotonic()
        self.assertIn(" waves", words.of_world(worlds.Long))
        self.assertLess(time.monotonic() - begun, 15)
        self.assertEqual(list(words.beginning((text for text in ("abc", "def", "ghi")), 5)), ["abc", "de"])

    def test_a_world_whose_words_cannot_be_gathered_names_none(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            hello = Episodes(worlds.Walk, lambda: {}["no"]).hello()
        self.assertNotIn("words", hello)
        self.assertIn("no words of this environment were gathered: KeyError: 'no' (test_episodes.py, line ", said.getvalue())

    def test_words_carry_the_space_before_them(self):
        self.assertEqual(words.of_texts(["go north", "go south, go"]), ["go", " go", " north", " south"])
        self.assertIn(" are", words.of_world(worlds.Walk))


if __name__ == "__main__":
    unittest.main()
