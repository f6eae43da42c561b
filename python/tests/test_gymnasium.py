"""Gymnasium's environments: what counts as won, and how actions are named."""

import enum
import importlib.util
import random
import unittest

HERE = importlib.util.find_spec("gymnasium") is not None

if HERE:
    import gymnasium
    from gymnasium import spaces

    from flow_env.adapters.gymnasium import Gymnasium

    class Moves(enum.IntEnum):
        stay = 2
        go_on = 1
        turn = 3

    class Other(gymnasium.Env):
        """An environment of somebody else: it ends at once, with this reward and this information."""

        observation_space = spaces.Discrete(2)

        def __init__(self, info=None, reward=1.0, actions=None, start=0, truncated=False):
            self.info, self.reward, self.truncated = info or {}, reward, truncated
            self.action_space = spaces.Discrete(3, start=start)
            self.taken = []
            if actions:
                self.actions = actions

        def reset(self, seed=None, options=None):
            return 0, {}

        def step(self, action):
            self.taken.append(int(action))
            return 1, self.reward, not self.truncated, self.truncated, self.info

    for name in ("Other-v0", "other/FrozenLake-v0", "other/CartPole-v1"):
        gymnasium.register(name, entry_point=Other, disable_env_checker=True, order_enforce=False)


@unittest.skipUnless(HERE, "the package gymnasium isn't here")
class Won(unittest.TestCase):
    def played(self, name, policy, seed=1, task=0):
        """An episode: its last view and the sum of its rewards."""
        world = Gymnasium(name)
        view, total, steps = world.reset(task, seed), 0.0, 0
        while not view.done:
            view = world.step(policy(world, view, steps))
            total, steps = total + view.reward, steps + 1
        world.close()
        return view, total

    def at_random(self, name, episodes=10):
        draw = random.Random(0)
        return [self.played(name, lambda world, view, step: draw.choice(world.actions()), seed=seed) for seed in range(episodes)]

    def test_a_positive_reward_is_no_success(self):
        for view, total in self.at_random("CartPole-v1"):
            self.assertFalse(view.won, total)
        for name in ("MountainCar-v0", "Acrobot-v1"):
            for view, _ in self.at_random(name, 3):
                self.assertEqual(view.won, not view.truncated)

    def test_what_reaches_the_goal_is_won(self):
        way = ["up", *["right"] * 11, "down"]
        view, _ = self.played("CliffWalking-v1", lambda world, view, step: way[step])
        self.assertEqual((view.won, view.reward), (True, -1.0))
        way = ["down", "down", "right", "right", "down", "right"]
        self.assertTrue(self.played("FrozenLake-v1,is_slippery=false", lambda world, view, step: way[step])[0].won)
        self.assertFalse(self.played("FrozenLake-v1,is_slippery=false", lambda world, view, step: ["right", "down"][step % 2])[0].won)
        # It balances: the pole is pushed to where it falls.
        view, total = self.played("CartPole-v1", lambda world, view, step: ["left", "right"][float(view.observation.split()[2]) + float(view.observation.split()[3]) > 0])
        self.assertEqual((view.won, view.truncated, total), (True, True, 500.0))
        for view, total in self.at_random("Blackjack-v1", 20):
            self.assertEqual(view.won, total > 0)

    def test_an_environment_says_itself_whether_it_is_won(self):
        for info, reward, won in [({}, 1.0, False), ({}, -1.0, False), ({"is_success": True}, -1.0, True), ({"is_success": False}, 5.0, False), ({"success": 1.0}, 0.0, True),
                                  ({"success": 0}, 1.0, False), ({"is_success": False, "success": True}, 1.0, False), ({"won": True}, 1.0, False)]:
            for truncated in (False, True):
                gymnasium.register("Says-v0", entry_point=lambda: Other(info, reward, truncated=truncated), disable_env_checker=True, order_enforce=False)
                self.assertEqual(self.played("Says-v0", lambda world, view, step: "0")[0].won, won, (info, truncated))
                del gymnasium.registry["Says-v0"]

    def test_a_name_of_gymnasiums_in_another_package_says_nothing(self):
        for name in ("other/FrozenLake-v0", "other/CartPole-v1"):
            world = Gymnasium(name)
            world.reset(0, 0)
            self.assertEqual((world.actions(), world.step("1").won), (["0", "1", "2"], False))

    @unittest.skipUnless(importlib.util.find_spec("minigrid"), "the package minigrid isn't here")
    def test_of_minigrid_a_positive_reward_at_the_end_is_a_success(self):
        for name in ("MiniGrid-LavaGapS5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0", "MiniGrid-Empty-5x5-v0"):
            ends = {(view.won, view.reward > 0) for view, _ in self.at_random(f"{name},import=minigrid", 8)}
            self.assertLessEqual(ends, {(True, True), (False, False)}, name)


@unittest.skipUnless(HERE, "the package gymnasium isn't here")
class Names(unittest.TestCase):
    def taken(self, **settings):
        """The names of the actions, and which number each is."""
        gymnasium.register("Named-v0", entry_point=lambda: Other(**settings), disable_env_checker=True, order_enforce=False)
        try:
            world = Gymnasium("Named-v0")
            for name in world.actions():
                world.reset(0, 0)
                self.assertTrue(world.step(name).valid)
            self.assertFalse(world.step("none such").valid)
            return dict(zip(world.actions(), world.env.unwrapped.taken))
        finally:
            del gymnasium.registry["Named-v0"]

    def test_names_are_of_the_numbers_that_they_stand_for(self):
        self.assertEqual(self.taken(), {"0": 0, "1": 1, "2": 2})
        self.assertEqual(self.taken(start=5), {"5": 5, "6": 6, "7": 7})
        self.assertEqual(self.taken(start=-1), {"-1": -1, "0": 0, "1": 1})
        # In the order of the values, not of the definition; numbers where a value has no name.
        self.assertEqual(self.taken(actions=Moves, start=1), {"go on": 1, "stay": 2, "turn": 3})
        self.assertEqual(self.taken(actions=Moves), {"0": 0, "1": 1, "2": 2})

    @unittest.skipUnless(importlib.util.find_spec("minigrid"), "the package minigrid isn't here")
    def test_an_environment_with_the_first_of_its_packages_actions(self):
        self.assertEqual(Gymnasium("MiniGrid-Dynamic-Obstacles-5x5-v0,import=minigrid").actions(), ["left", "right", "forward"])
        self.assertEqual(len(Gymnasium("MiniGrid-DoorKey-5x5-v0,import=minigrid").actions()), 7)

    def test_names_of_gymnasium(self):
        for name, wanted in [("FrozenLake-v1", ["left", "down", "right", "up"]), ("Blackjack-v1", ["stick", "hit"]), ("FrozenLake8x8-v1", ["0", "1", "2", "3"]), ("CartPole-v1,names=l|r", ["l", "r"])]:
            self.assertEqual(Gymnasium(name).actions(), wanted)
        with self.assertRaisesRegex(ValueError, "CartPole-v1 has 2 actions, and these are 3 names"):
            Gymnasium("CartPole-v1,names=a|b|c")
