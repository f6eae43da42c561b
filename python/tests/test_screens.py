"""How screens become texts, and texts actions, in the adapters of AndroidWorld and OSWorld. Neither world is played: stand-ins record what
they are asked, so nothing here says that an emulator or a virtual machine would do it."""

import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from flow_env.adapters import android_world, osworld


def element(**known):
    names = ("text", "content_description", "hint_text", "tooltip", "class_name", "is_checked", "is_selected", "is_focused", "is_editable")
    return SimpleNamespace(**{**dict.fromkeys((*names, "bbox_pixels", "is_clickable")), "is_visible": True, **known})


def box(x_min, x_max, y_min=0, y_max=10):
    return SimpleNamespace(x_min=x_min, x_max=x_max, y_min=y_min, y_max=y_max)


class Android(unittest.TestCase):
    def test_texts_are_actions_of_the_package(self):
        for text, action in [
            ("click 2", {"action_type": "click", "index": 2}),
            ("long press 0", {"action_type": "long_press", "index": 0}),
            ("type 1 a  b", {"action_type": "input_text", "index": 1, "text": "a  b"}),
            ("scroll down", {"action_type": "scroll", "direction": "down"}),
            ("scroll left 1", {"action_type": "scroll", "direction": "left", "index": 1}),
            ("open Clock", {"action_type": "open_app", "app_name": "Clock"}),
            ("answer 7 pm", {"action_type": "answer", "text": "7 pm"}),
            ("back", {"action_type": "navigate_back"}),
            ("click 3", None),
            ("type 3 x", None),
            ("scroll in", None),
            ("open ", None),
            ("click", None),
            ("CLICK 1", None),
        ]:
            self.assertEqual(android_world.json_of(text, 3), action, text)

    def test_an_element_is_a_line_and_what_is_out_of_sight_is_none(self):
        self.assertEqual(
            android_world.element_text(element(class_name="android.widget.Switch", text=" Wi-Fi\n", content_description="Wi-Fi", is_checked=True)),
            "Switch Wi-Fi (checked)",
        )
        sight = [android_world.in_sight(element(bbox_pixels=each), 100, 100) for each in (None, box(0, 5), box(100, 120), box(5, 5), box(-9, 0))]
        self.assertEqual(sight, [True, True, False, False, False])
        self.assertFalse(android_world.in_sight(element(is_visible=False), 100, 100))

    def test_an_episode_is_won_by_the_check_of_its_task(self):
        calls = []

        class Task:
            complexity = 0.2
            goal = "Turn it on."

            @staticmethod
            def generate_random_params():
                import random

                return {"number": random.random()}

            def __init__(self, parameters):
                calls.append(("task", parameters["number"]))

            def initialize_task(self, env):
                calls.append("initialize")

            def is_successful(self, env):
                return 1.0

            def tear_down(self, env):
                calls.append("tear down")

        screen = SimpleNamespace(ui_elements=[element(class_name="Button", text="On", is_clickable=True), element(is_visible=False)])
        env = SimpleNamespace(
            logical_screen_size=(100, 100), reset=lambda go_home: calls.append("home"), get_state=lambda wait_to_stabilize: screen,
            execute_action=lambda action: calls.append(action), close=lambda: None,
        )
        registry = SimpleNamespace(TaskRegistry=lambda: SimpleNamespace(ANDROID_WORLD_FAMILY="", get_registry=lambda family: {"Turn": Task}))
        package = types.ModuleType("android_world")
        package.registry = registry
        inner = types.ModuleType("android_world.env")
        inner.env_launcher = SimpleNamespace(load_and_setup_env=lambda **settings: env)
        inner.json_action = SimpleNamespace(JSONAction=lambda **parts: parts)
        with mock.patch.dict(sys.modules, {"android_world": package, "android_world.env": inner}):
            world = android_world.WORLD("adb=adb")
        world.split = "train"
        view = world.reset("Turn/3", 0)
        self.assertEqual((view.observation, view.instruction, view.type), ("0 Button On", "Turn it on.", "Turn"))
        self.assertFalse(world.step("fly").valid)
        self.assertTrue(world.step("click 0").truncated, "two steps are ten times the complexity")
        world.reset("Turn/3", 1)
        view = world.step("complete")
        self.assertEqual((view.done, view.won, view.reward), (True, True, 1.0))
        world.split = "test"
        world.reset("Turn/3", 0)
        drawn = [call[1] for call in calls if isinstance(call, tuple)]
        self.assertEqual(drawn[0], drawn[1], "a task is the same under any seed")
        self.assertNotEqual(drawn[0], drawn[2], "and another one in another split")
        self.assertEqual(calls.count("tear down"), 2)
        self.assertIn({"action_type": "click", "index": 0}, calls)
        self.assertFalse(world.step("infeasible").won)


TREE = """<desktop xmlns:s="https://accessibility.ubuntu.example.org/ns/state" xmlns:c="https://accessibility.ubuntu.example.org/ns/component">
<push-button name="Save" s:showing="true" s:visible="true" s:enabled="true" c:screencoord="(10, 20)" c:size="(30, 10)"/>
<entry name="" s:showing="true" s:visible="true" s:editable="true" c:screencoord="(0, 0)" c:size="(4, 4)">draft\n text</entry>
<label name="hidden" s:showing="false" s:visible="true" s:enabled="true" c:screencoord="(0, 0)" c:size="(4, 4)"/>
<label name="off" s:showing="true" s:visible="true" s:enabled="true" c:screencoord="(-1, -1)" c:size="(4, 4)"/>
</desktop>"""


class Desktop(unittest.TestCase):
    def test_the_tree_is_what_can_be_used(self):
        self.assertEqual(osworld.elements(TREE), [("push-button Save", 25, 25), ("entry draft text", 2, 2)])
        self.assertIsNone(osworld.pair("(1, 2); import os"))

    def test_texts_are_calls_and_nothing_else_gets_into_them(self):
        seen = osworld.elements(TREE)
        for text, call in [
            ("click 0", "pyautogui.click(25, 25)"),
            ("double click 1", "pyautogui.doubleClick(2, 2)"),
            ("type it's", 'pyautogui.typewrite("it\'s")'),
            ("press enter", "pyautogui.press('enter')"),
            ("hotkey ctrl s", "pyautogui.hotkey('ctrl', 's')"),
            ("scroll up", "pyautogui.scroll(5)"),
            ("wait", "WAIT"),
            ("click 2", None),
            ("press enter; x", None),
            ("hotkey ctrl", None),
            ("type a\nb", None),
            ("import os", None),
        ]:
            self.assertEqual(osworld.call_of(text, seen), call, text)
        quoted = osworld.call_of("type '); import os; ('", seen)
        self.assertEqual(quoted, 'pyautogui.typewrite("\'); import os; (\'")')

    def test_an_episode_is_scored_when_it_ends(self):
        asked = []

        class DesktopEnv:
            def __init__(self, **settings):
                asked.append(settings["provider_name"])

            def reset(self, task_config):
                asked.append(task_config["id"])
                return {"accessibility_tree": TREE}

            def step(self, action, pause):
                asked.append(action)
                return {"accessibility_tree": TREE}, 0, False, {}

            def evaluate(self):
                return 0.5

            def close(self):
                pass

        module = types.ModuleType("desktop_env.desktop_env")
        module.DesktopEnv = DesktopEnv
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, {"desktop_env": types.ModuleType("desktop_env"), module.__name__: module}):
            home = Path(folder)
            (home / "examples" / "os").mkdir(parents=True)
            for name in ("a", "b"):
                (home / "examples" / "os" / f"{name}.json").write_text(json.dumps({"id": name, "instruction": f"Do {name}."}))
            (home / "test_all.json").write_text(json.dumps({"os": ["a"]}))
            (home / "mine.json").write_text(json.dumps({"os": ["b"]}))
            arguments = f"{folder},train=mine.json,steps=3,pause=0"
            world = osworld.WORLD(arguments)
            self.assertEqual((world.tasks("train"), world.tasks("test"), world.tasks("dev")), (["os/b"], ["os/a"], []))
            self.assertEqual(world.reset("os/b", 0).instruction, "Do b.")
            self.assertEqual(world.step("done").score, 0.5)
            world.reset("os/b", 0)
            views = [world.step(action) for action in ("click 0", "fly", "wait")]
            self.assertEqual([(view.done, view.valid) for view in views], [(False, True), (False, False), (True, True)])
            self.assertEqual((views[2].truncated, views[2].score, views[2].won), (True, 0.5, False))
            self.assertEqual(asked.count("DONE"), 1)
            (home / "mine.json").write_text(json.dumps({"os": ["a"]}))
            with self.assertRaisesRegex(ValueError, "os/a is both trained on and tested"):
                osworld.WORLD(arguments)
            with self.assertRaisesRegex(ValueError, "no list of tasks"):
                osworld.WORLD(f"{folder},list=nothing.json")
