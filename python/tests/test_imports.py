"""The readers of other trainers' rollouts: conversations, and which fields are named."""

import json
import tempfile
import unittest
from pathlib import Path

from flow_runs.imports import conversation, fields, source, values


def episode(line):
    names = set()
    return conversation.read(line, names), sorted(names)


def turns(episode):
    return [(call["observation"], call["response"]) for call in episode["calls"]]


class Fields(unittest.TestCase):
    def test_what_no_pattern_has_is_named_once(self):
        known = fields.patterns(["id", "nodes.*.role", "nodes.*.content.*.text", "nodes.*.content", "data.**", "run.work.step"])

        def named(value):
            names = set()
            fields.unread(value, known, names)
            return sorted(names)

        self.assertEqual(named({"id": 1, "data": {"a": {"b": [1]}}, "nodes": [{"role": "x", "content": "y"}]}), [])
        two = {"nodes": [{"tokens": [1]}, {"tokens": [2], "content": [{"text": "a"}, {"image": "b"}]}], "extra": {"a": 1}}
        self.assertEqual(named(two), ["extra", "nodes[].content[].image", "nodes[].tokens"])
        self.assertEqual(named({"run": {"id": "x", "work": {"step": 1, "other": 0}}, "note": "", "more": None, "none": []}), ["run.id", "run.work.other"])
        self.assertEqual(len(named({f"f{i}": 1 for i in range(1000)})), fields.MOST)


class Spelling(unittest.TestCase):
    def test_json_is_spelled_as_flow_spells_it(self):
        read = values.parsed(b'{"b": [1.0, 1e16, 0.00001, 1.25e-5, 1e-6, -3.5e-5, 123456789012345.6, 100000000000000000000, 18446744073709551615], "a": "\\u0001\\u00e9\\n"}')
        expected = '{"a":"\\u0001é\\n","b":[1.0,1e+16,0.00001,0.0000125,1e-6,-0.000035,123456789012345.6,1e+20,18446744073709551615]}'
        self.assertEqual(values.spelled(read, ordered=True), expected)
        for bad in (b"NaN", b"[1e400]", b"{", b'"\xff"', b"[" * 100_000):
            with self.assertRaises(ValueError):
                values.parsed(bad)


class Folders(unittest.TestCase):
    def test_of_a_folder_the_episodes_that_were_trained_on_are_read(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)

            def write(*names):
                for name in names:
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text("{}\n")
                return [str(file.relative_to(folder)) for file in source.files_of(folder)]

            with self.assertRaises(source.Refused):
                write("notes.txt")
            self.assertEqual(write("completions_2.jsonl", "completions_1.jsonl"), ["completions_1.jsonl", "completions_2.jsonl"])
            (folder / "a_link.jsonl").symlink_to(folder / "completions_1.jsonl")
            self.assertEqual(write(), ["a_link.jsonl", "completions_2.jsonl"], "a link and its file are one")
            (folder / "a_link.jsonl").unlink()
            (folder / "completions_1.jsonl").write_text('{"messages": [], "reward": NaN}\n')
            with self.assertRaisesRegex(source.Refused, "completions_1.jsonl:1 can't be read: NaN is no JSON"):
                source.detect(folder / "completions_1.jsonl")
            self.assertEqual(write("rollouts/step_0/eval/all/traces.jsonl"), ["rollouts/step_0/eval/all/traces.jsonl"], "a known name")
            subsets = [f"rollouts/step_1/train/{subset}/traces.jsonl" for subset in ("all", "effective")]
            self.assertEqual(write(*subsets), subsets[1:])
            self.assertEqual(source.files_of(folder / "notes.txt"), [folder / "notes.txt"], "a file is read whatever its name")


class Conversations(unittest.TestCase):
    def test_the_same_conversation_is_read_from_each_format(self):
        user, answer = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
        lines = [
            {"messages": [user, answer], "reward": 1.0},
            {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}], "score": 1},
            {"prompt": [user], "completion": [answer], "answer": "4", "reward": 1.0, "info": {}, "metrics": {"exact": 1.0}},
            {"step": 3, "prompt": "2 + 2?", "completion": "4", "exact_reward": 0.75, "length_reward": 0.25, "advantage": 0.5},
            {"prompt": "2 + 2?", "response": "4", "rewards": {"exact": 1.0}},
        ]
        read = [episode(line) for line in lines]
        for one, names in read:
            self.assertEqual((turns(one), one["reward"], names), ([("2 + 2?", "4")], 1.0, []))
            self.assertEqual(one["task"], read[0][0]["task"], "one task, whatever the format")
        self.assertEqual([one["calls"][0]["advantage"] for one, _ in read], [None, None, None, 0.5, None])
        self.assertEqual((read[3][0]["iteration"], read[3][0]["info"]), (3, '{"exact_reward":0.75,"length_reward":0.25}'))

    def test_tools_thoughts_and_further_turns_are_read(self):
        call = [{"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"b": 2, "a": 1}'}}]
        plain = [{"id": "a", "name": "add", "arguments": {"b": 2, "a": 1}}]
        for tools in (call, plain):
            one, names = episode({"reward": 0.5, "messages": [
                {"role": "system", "content": "Add."},
                {"role": "user", "content": [{"type": "text", "text": "1 + 2?"}]},
                {"role": "assistant", "content": None, "reasoning_content": "I add.", "tool_calls": tools},
                {"role": "tool", "tool_call_id": "a", "content": "3"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "Done."}, {"type": "text", "text": "3"}]},
            ]})
            first = '<think>\nI add.\n</think>\nadd({"a":1,"b":2})'
            self.assertEqual(turns(one), [("system: Add.\nuser: 1 + 2?", first), ("3", "<think>\nDone.\n</think>\n3")])
            self.assertEqual((names, one["calls"][1]["parent"]), ([], one["calls"][0]["call"]))

    def test_what_is_not_read_is_named_and_what_lacks_is_said(self):
        one, names = episode({"reward": 1, "logprobs": [-0.5], "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, {"role": "assistant", "content": "a", "weight": 0}]})
        self.assertEqual((names, one["failure"]), (["content[].image_url", "logprobs", "weight"], None))
        failure = lambda line: episode(line)[0]["failure"]["error"]
        self.assertIn("no answer of an assistant", failure({"messages": [{"role": "user", "content": "a"}], "reward": 1}))
        self.assertIn("no reward", failure({"prompt": "a", "completion": "b"}))
        for line, why in (
            ({"prompt": "a", "completion": "b", "reward": "good"}, "`reward` is no number"),
            ({"prompt": "a", "completion": "b", "reward": 1, "step": 1 << 40}, "at most 1000000"), ({"text": "a"}, "neither `messages`"),
        ):
            with self.assertRaisesRegex(values.Bad, why):
                episode(line)

    def test_a_text_with_half_a_pair_is_a_bad_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "a.jsonl"
            good = {"prompt": "a", "completion": "b", "reward": 1}
            file.write_text(json.dumps(good) + "\n" + json.dumps({**good, "completion": "\ud800"}) + "\n")
            read, written = source.Source([file], "messages", True), []
            read.episodes(written.append)
            self.assertEqual((read.tally.lines, read.tally.bad, len(written)), (2, 1, 1))


if __name__ == "__main__":
    unittest.main()
