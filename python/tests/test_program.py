"""The package as a process, and what it finds wrong with others."""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flow_env import limits
from flow_env.check import check
from flow_env.client import Broken, Program, serving
from flow_env.play import play, tasks

ROOT = Path(__file__).resolve().parents[2]
WORLDS = str(Path(__file__).with_name("worlds.py"))
BROKEN = str(ROOT / "tests" / "programs" / "broken.py")


def checked(command):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = check(command, 4, 6, [])
    return status, out.getvalue()


class Serving(unittest.TestCase):
    def program(self, world, *options):
        program = Program(serving(f"{WORLDS}:{world}", *options), 60.0)
        self.addCleanup(lambda: program.end(1.0))
        return program

    def reset(self, program, episode=1, task="0"):
        return program.ask({"request": "reset", "episode": episode, "split": "train", "task": task, "seed": 0})[0]

    def step(self, program, action, episode=1):
        return program.ask({"request": "step", "episode": episode, "action": action})[0]

    def test_what_a_library_prints_is_no_answer(self):
        program = self.program("Talkative")
        self.reset(program)
        self.assertEqual(self.step(program, "right")["observation"], "You are at 1.")
        self.assertEqual(program.end()[0], 0)
        self.assertIn("stepping right", "\n".join(program.tail))

    def test_a_line_of_requests_is_answered_in_order(self):
        program = self.program("Walk")
        asked = [{"request": "reset", "episode": n, "split": "train", "task": str(n % 4), "seed": 0} for n in range(50)]
        self.assertEqual([answer["episode"] for answer in program.ask(*asked)], list(range(50)))

    def test_a_limit_costs_the_episode(self):
        program = self.program("Failing", "--seconds", "0.3")
        self.reset(program, 1)
        self.reset(program, 2)
        self.assertEqual(self.step(program, "loop")["error"], "no answer of the environment within 0.3 s")
        self.assertEqual(self.step(program, "right", 2)["observation"], "You are at 1.")

    def test_a_world_that_fails_is_greeted_and_fails_its_episode(self):
        for world, task, word in [("Raising", "0", r"ValueError: boom \(worlds.py, line \d+, in step\)"), ("Gym", "0", "must return a View, not a tuple"),
                                  ("Leaving", "0", r"SystemExit: 3 \(worlds.py, line \d+, in step\)")]:
            program = self.program(world)
            self.reset(program, task=task)
            answers = [self.step(program, "right") for _ in range(2)]
            self.assertRegex(" ".join(answer.get("error", "") for answer in answers), word)
            self.assertIn("observation", self.reset(program, 2))

    def test_words_that_take_too_long_are_not_waited_for(self):
        code = "from flow_env import cli, serve; serve.WORDS = 0.3; cli.main()"
        program = Program([sys.executable, "-c", code, "serve", f"{WORLDS}:Hanging"], 60.0)
        self.addCleanup(lambda: program.end(1.0))
        self.assertNotIn("words", program.hello)
        self.assertIn("observation", self.reset(program))

    def test_the_last_line_of_a_traceback_comes_first(self):
        with self.assertRaisesRegex(Broken, r"(?s)it last said: ValueError: first\n  and before that:\n    Traceback"):
            Program([sys.executable, "-c", "raise ValueError('first')"], 60.0)

    def test_a_world_that_cannot_go_on_ends_the_process(self):
        program = self.program("Failing")
        self.reset(program)
        with self.assertRaisesRegex(Broken, r"(?s)exit status 1.*the engine is dead"):
            self.step(program, "fatal")

    def test_a_flow_that_speaks_another_version_is_told_which_one_is_spoken(self):
        hello = json.dumps({"request": "hello", "protocol": 1, "name": "walk"}) + "\n"
        run = subprocess.run(serving(f"{WORLDS}:Walk"), input=hello, capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, json.loads(run.stdout)["protocol"]), (0, limits.PROTOCOL))

    def test_what_cannot_be_served_says_why(self):
        for spec, word in [("no_such_module", "there is no module `no_such_module` here"), ("no.py", "there is no file no.py"),
                           (WORLDS, "should have one subclass"), (f"{WORLDS}:Nothing", "has no environment `Nothing`")]:
            with self.assertRaisesRegex(Broken, re.escape(word)):
                Program(serving(spec), 60.0)


class Checking(unittest.TestCase):
    def test_a_right_world_passes(self):
        for world in ("Walk", "Named", "Drawing", "Quick"):
            status, out = checked(serving(f"{WORLDS}:{world}"))
            self.assertEqual(status, 0, f"{world}:\n{out}")
            cut = world == "Quick"
            self.assertRegex(out, r"plays (\d+) of \1 episodes to their end and wins " + ("3;" if cut else r"\1;"))

    def test_what_is_wrong_is_found(self):
        for world, word in [("Leaking", "FAILED  deterministic: train/0, turn 1: `observation` is"), ("Lying", "`left` was listed and refused"),
                            ("Half", "FAILED  states: train/0: the answer to a step has a `state`, and that to the reset has none")]:
            status, out = checked(serving(f"{WORLDS}:{world}"))
            self.assertEqual(status, 1, out)
            self.assertIn(word, out)

    def test_free_text_is_no_fault(self):
        status, out = checked(serving(f"{WORLDS}:Speaking"))
        self.assertEqual(status, 0, out)
        self.assertIn("note    actions: this environment lists none: they are free text. Said here: look, help", out)
        self.assertIn("note    rewards: no episode of 3 was won, and each earned 0: from such episodes nothing can be learnt", out)

    def test_a_fault_is_counted_once_and_shows_its_line(self):
        status, out = checked(serving(f"{WORLDS}:Raising"))
        self.assertEqual((status, out.count("FAILED"), out.count("\n1 failed")), (1, 1, 1), out)
        self.assertRegex(out, r"FAILED  answers: train/\d failed in turn 2: ValueError: boom \(worlds.py, line \d+, in step\) \(and \d more\)")
        self.assertIn("note    not tried: whatever else is played: episodes fail (see `answers`)", out)

    def test_the_world_of_the_readme(self):
        code = re.search(r"```python\n(.*?)```", (ROOT / "python" / "README.md").read_text(encoding="utf-8"), re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "corridor.py"
            path.write_text(code[1], encoding="utf-8")
            status, out = checked(serving(str(path)))
        self.assertEqual(status, 0, out)
        self.assertLessEqual(len(code[1].strip().splitlines()), 30)

    def test_the_session_of_the_protocols_page(self):
        page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
        block = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
        lines = re.sub(r"\n    ", "", block).strip().splitlines()
        pairs = list(zip(lines[::2], lines[1::2]))
        self.assertEqual(len(pairs), 4)
        for asked, answered in pairs:
            self.assertTrue(asked.startswith("-> ") and answered.startswith("<- "))
            requests, answers = json.loads(asked[3:]), json.loads(answered[3:])
            for request, answer in zip(*(value if isinstance(value, list) else [value] for value in (requests, answers))):
                if request["request"] == "hello":
                    self.assertEqual(limits.wrong_hello(answer), [])
                elif request["request"] in ("reset", "step"):
                    self.assertEqual(limits.wrong_view(answer, request["request"] == "step", True), [])


class BrokenPrograms(unittest.TestCase):
    def test_the_corridor_that_others_break_is_right(self):
        program = Program([sys.executable, BROKEN, "fine"], 60.0)
        played = play(program, tasks(program.hello, 8), "expert")
        self.assertTrue(all(last["won"] for last in played.last()))
        self.assertEqual(program.end()[::2], (0, []))

    def test_each_way_to_break_the_protocol_is_found(self):
        listed = subprocess.run([sys.executable, BROKEN, "--list"], capture_output=True, text=True, check=True).stdout
        ways = [line.split("\t") for line in listed.splitlines()]
        self.assertGreaterEqual(len(ways), 30)
        borne = {"fine", "flood", "child", "stays"}
        errors = {"unknown-task", "error", "expert-missing"}
        # `silent` takes a minute; one who reads single answers can't tell the other two from an answer that is late.
        ways = [way for way in ways if way[1] not in ("silent", "closed-episode", "array")]
        with ThreadPoolExecutor(8) as pool:
            for (_, way, what), wrong in zip(ways, pool.map(lambda way: outcome(*way[:2]), ways)):
                self.assertEqual(wrong, None, f"{way}: {what}")


def outcome(when, way):
    """What isn't as it should be when this broken program is played with."""
    try:
        program = Program([sys.executable, BROKEN, way], 0.8 if way in ("hang", "close-unanswered") else 60.0)
    except Broken:
        return None if when == "hello" and way != "child" else "it broke at hello"
    try:
        played = play(program, [("train", "4"), ("train", "0"), ("train", "1")], "expert", live=2)
        failed = [row.answer for rows in played.rows for row in rows if "error" in row.answer]
        if when == "expert":
            failed = [not by for by in played.expert if not by]
        status, _, left = program.end(0.5 if way == "stays" else 10.0)
        found = ["an error"] * bool(failed) + ["stays"] * (status is None) + ["leaves a child"] * bool(left and status is not None)
        right = {"unknown-task": ["an error"], "error": ["an error"], "expert-missing": ["an error"], "stays": ["stays"], "child": ["leaves a child"]}
        return None if found == right.get(way, []) and (way in right or way in ("fine", "flood")) else f"found: {found}"
    except Broken as error:
        program.end(0.0)
        return None if when != "hello" and way not in ("fine", "flood", "stays") else str(error)


if __name__ == "__main__":
    unittest.main()
