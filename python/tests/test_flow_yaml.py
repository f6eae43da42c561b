"""The YAML that `flow.Pipeline` writes, read back by PyYAML."""

import importlib.util
import random
import re
import unittest
from pathlib import Path

from flow import yaml_text

ROOT = Path(__file__).resolve().parent.parent.parent
LETTERS = "ab:c, -#'\"{}[]&*!|>%@`\n\t \\é\u2028\x85\x00~=?<.\r0e1😀()/+_$;\x7f\x1b"
WORDS = ["yes", "No", "null", "~", "0x1", "1e3", ".5", "-1", "a: b", "a #b", "- x", "true", "1_000", "12:30:00", "2020-01-01", "<<", "=", "x:", "?", " a", "a ",
         "a\n", "a\n\n", "a\nb", "a\n  b\n", "\na", "a\n\nb\n", "a\n \nb", "---", "...", "a\n---\nb", "  a\nb", "\ta\nb", "a\n\tb", "a \nb ", "# a\nb", "../a/b", "on"]
NUMBERS = [None, True, False, 1, -5, 2**63, 0, 1.5, 1e-5, 1e22, 1e300, -0.0, 0.1, 3e-4, float("inf"), 1.0, 123456789.123]


def reader():
    """PyYAML with the numbers and the booleans of YAML 1.2, which `flow` reads."""
    import yaml

    class Reader(yaml.SafeLoader):
        pass

    Reader.yaml_implicit_resolvers = {key: [one for one in found if one[0] != "tag:yaml.org,2002:bool"] for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Reader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))
    Reader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"), list("-+0123456789."))
    return lambda text: yaml.load(text, Reader)


@unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML isn't installed here")
class ReadBack(unittest.TestCase):
    def test_every_text_and_number_is_read_as_it_was(self):
        import yaml

        chance, read = random.Random(1), reader()

        def text():
            return chance.choice(WORDS) if chance.random() < 0.4 else "".join(chance.choice(LETTERS) for _ in range(chance.randrange(12)))

        def value(depth=0):
            kind = chance.random()
            if depth < 4 and kind < 0.25:
                return {text(): value(depth + 1) for _ in range(chance.randrange(5))}
            if depth < 4 and kind < 0.45:
                return [value(depth + 1) for _ in range(chance.randrange(5))]
            return text() if kind < 0.8 else chance.choice(NUMBERS)

        for _ in range(700):
            source = {text(): value() for _ in range(chance.randrange(1, 5))}
            written = yaml_text.document(source)
            # 1 and 1.0 are equal, but not the same setting.
            self.assertEqual(repr(read(written)), repr(source), written)
            self.assertEqual(repr(yaml.safe_load(written)), repr(source), written)
            self.assertEqual(read(yaml_text.inline(source)), source)

    def test_every_pipeline_of_the_repository_is_read_as_it_was(self):
        read, count = reader(), 0
        for file in sorted([*ROOT.glob("pipelines/**/*.yaml"), *ROOT.glob("papers/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")]):
            source = read(file.read_text())
            if isinstance(source, dict) and {"flow", "like"} & set(source):
                count += 1
                self.assertEqual(repr(read(yaml_text.document(source))), repr(source), file)
        self.assertGreater(count, 40)


class Written(unittest.TestCase):
    def test_the_text_is_for_people(self):
        source = {"flow": "x", "about": "A, b and c's", "models": {"a": {"load": "../runs/a"}}, "nodes": {"update": {"op": "gpu-update", "with": {"lr": 1e-5, "prompt": "One.\nTwo.\n"}}}}
        self.assertEqual(yaml_text.document(source), "flow: x\nabout: A, b and c's\nmodels:\n  a: { load: ../runs/a }\nnodes:\n  update:\n    op: gpu-update\n"
                                                     "    with:\n      lr: 1.0e-05\n      prompt: |\n        One.\n        Two.\n")

    def test_what_yaml_has_no_form_for_is_refused(self):
        for source in ({1: "a"}, {"a": {True: 1}}, {"a": object()}):
            with self.assertRaises(TypeError):
                yaml_text.document(source)
        with self.assertRaises(UnicodeEncodeError):
            yaml_text.document({"a": "\ud800"})


if __name__ == "__main__":
    unittest.main()
