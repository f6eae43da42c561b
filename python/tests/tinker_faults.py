"""flow_tinker and the SDK itself against a server that sums: what happens where an answer is late, is no number, is refused for a while, or where a
session is gone. It needs the SDK.

    python python/tests/tinker_faults.py
"""
import os, pathlib, sys, tempfile, threading, time, unittest

import numpy

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from flow_tinker.calls import Calls, Refused
from flow_tinker.server import Server
from flow_tinker.trainer import Trainer
from tinker_fake import Server as Fake
from tinker_machine import VOCABULARY
from tinker_messages import logprobs, opening, step

ROWS = [([5, 6, 7], [8, 9, 10]), ([20, 21], [22, 23, 24, 25]), ([5, 6, 7], [8, 11])]
BY = numpy.random.default_rng(1).normal(size=9).astype("f4")


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.fake = Fake(self.folder)
        threading.Thread(target=self.fake.serve_forever, daemon=True).start()
        (self.folder / "config.json").write_text('{"hidden_size": 8}')
        self.trainer = self.opened()

    def opened(self, seconds=30):
        trainer = Trainer(Server(f"http://127.0.0.1:{self.fake.server_port}", Calls(seconds)))
        about, _ = trainer.answer(opening(str(self.folder), VOCABULARY, named="llama-tied"), b"")
        self.assertEqual((about["reduction"], about["clips"]), ("sum", True))
        return trainer

    def fault(self, what, seconds=30):
        (self.folder / "fault").write_text(what)
        self.fake.counts.clear()
        self.trainer.server.calls.seconds = seconds
        self.trainer.server.calls.begin()

    def saved(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        self.trainer.answer(dict(request="save", folder=folder, version=1), b"")
        return folder

    def test_a_step_is_the_machines(self):
        answer, _ = step(self.trainer, ROWS, BY)
        self.assertTrue(answer["finite"] and answer["grad_norm"] > 0)

    def test_a_late_answer(self):
        for what, call in (("forward 1 late", "forward"), ("backward 1 late", "forward_backward and optim_step")):
            self.trainer = self.opened()
            self.fault(what, 2)
            begun = time.monotonic()
            with self.assertRaisesRegex(Refused, f"had not answered `{call}` when 2 seconds were over"):
                step(self.trainer, ROWS, BY)
            self.assertLess(time.monotonic() - begun, 5)
            self.fake.lock = threading.Lock()

    def test_too_many_requests_are_waited_for(self):
        expected = logprobs(self.trainer, ROWS)
        self.fault("forward 1 429")
        begun = time.monotonic()
        self.assertTrue((logprobs(self.trainer, ROWS) == expected).all())
        print(f"429: answered after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        self.assertFalse((self.folder / "fault").exists())

    def test_no_numbers(self):
        self.fault("backward 1 nan")
        answer, _ = step(self.trainer, ROWS, BY)
        self.assertEqual((answer["grad_norm"], answer["finite"]), (None, False))
        with self.assertRaisesRegex(Refused, "no number"):
            logprobs(self.trainer, ROWS)

    def test_a_session_that_is_gone_goes_on_from_a_saved_state(self):
        step(self.trainer, ROWS, BY)
        folder = self.saved()
        expected = step(self.trainer, ROWS, BY)[0]["grad_norm"], logprobs(self.trainer, ROWS)
        self.fault("backward 1 expired")
        with self.assertRaisesRegex(Refused, "not loaded"):
            step(self.trainer, ROWS, BY)
        self.trainer = self.opened()
        self.trainer.answer(dict(request="load", folder=folder, steps=1), b"")
        found = step(self.trainer, ROWS, BY)[0]["grad_norm"], logprobs(self.trainer, ROWS)
        self.assertEqual(found[0], expected[0])
        self.assertTrue((found[1] == expected[1]).all())


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.stderr.flush()
    os._exit(0 if result.wasSuccessful() else 1)
