"""flow_tinker over a stand-in for the SDK: what is measured, what is refused, what is kept where something fails. With the SDK itself and a server:
tinker_parity.py.
"""
import json, os, pathlib, shutil, struct, subprocess, sys, tempfile, unittest, urllib.error, urllib.request

HERE = pathlib.Path(__file__).parent
STATES = tempfile.mkdtemp(prefix="flow-tinker-test-")
os.environ["TINKER_STAND_IN"] = STATES
sys.path[:0] = [str(HERE / "tinker_stand_in"), str(HERE), str(HERE.parent)]

import numpy
import tinker
from flow_tinker import files
from flow_tinker.calls import Calls, Refused
from flow_tinker.reduction import Measured
from flow_tinker.rows import Rows
from flow_tinker.server import Server
from flow_tinker.trainer import Trainer
from tinker_machine import VOCABULARY, Machine
from tinker_messages import LORA, STEP, logprobs, opening, step, trace

ROWS = [([5, 6, 7], [8, 9, 10]), ([20, 21], [22, 23, 24, 25]), ([5, 6, 7], [8, 11])]


def tearDownModule():
    shutil.rmtree(STATES)


def machine(reduction, **options):
    tinker.MACHINE = Machine(STATES, reduction, **options)
    return tinker.MACHINE


def server(seconds=60):
    return Server("http://127.0.0.1:1", Calls(seconds))


def base():
    folder = tempfile.mkdtemp(dir=STATES)
    config = dict(max_position_embeddings=256, hidden_size=32)
    pathlib.Path(folder, "config.json").write_text(json.dumps(config))
    return folder


def opened(seconds=60, **options):
    trainer = Trainer(server(seconds))
    trainer.answer(opening(base(), VOCABULARY, **{"named": "tiny", **options}), b"")
    return trainer


def message(rows=ROWS, **options):
    return trace(rows, **options)


def traced(trainer, rows=ROWS, **options):
    return logprobs(trainer, rows, **options)


def stepped(trainer, seed=1):
    """One step whose gradient is random."""
    by = numpy.random.default_rng(seed).normal(size=sum(len(response) for _, response in ROWS)).astype("<f4")
    return by, step(trainer, ROWS, by)[0]


class Fault:
    """Something that goes wrong with a call from now on."""

    def __init__(self, what):
        self.path = pathlib.Path(STATES, "fault")
        self.what = what

    def __enter__(self):
        self.path.write_text(self.what)
        tinker.COUNTS.clear()
        os.environ["TINKER_STAND_IN_FAULT"] = str(self.path)

    def __exit__(self, *_):
        self.path.unlink(missing_ok=True)


class Reductions(unittest.TestCase):
    def measured(self, reduction, **options):
        machine(reduction, **options)
        own = server()
        return Measured(own, own.create("tiny", 8, 7), VOCABULARY)

    def test_what_a_server_makes_of_a_gradient_is_measured(self):
        for reduction in ("sum", "mean"):
            found = self.measured(reduction)
            self.assertEqual(found.encoding, reduction, found.report)
        self.assertIsNone(self.measured("sequences").encoding, "a sum over positions and a mean over sequences fits neither way")

    def test_an_ignored_clip_is_seen(self):
        self.assertTrue(self.measured("sum", clips=True).clips())
        self.assertFalse(self.measured("mean", clips=False).clips())

    def test_a_server_that_fits_none_is_refused(self):
        machine("sequences")
        with self.assertRaisesRegex(Refused, "computes no linear loss that is known here"):
            opened()


class Steps(unittest.TestCase):
    def test_a_step_is_that_of_the_sum(self):
        for reduction in ("sum", "mean"):
            own = machine(reduction)
            trainer = opened()
            client = own.client(trainer.client.model_id)
            before = {key: client[key].copy() for key in "ab"}
            by, answer = stepped(trainer)
            # By hand: the gradient of sum(by ln p), and AdamW's first step.
            grads = {key: numpy.zeros_like(before[key]) for key in "ab"}
            at = 0
            for prompt, response in ROWS:
                tokens = numpy.array([*prompt, *response[:-1]])[len(prompt) - 1 :]
                back = -numpy.exp(own.logs(before, tokens)) * by[at : at + len(response), None]
                back[numpy.arange(len(tokens)), response] += by[at : at + len(response)]
                grads["b"] += 4.0 * back.T @ before["a"][:, tokens].T
                numpy.add.at(grads["a"].T, tokens, 4.0 * back @ before["b"])
                at += len(response)
            norm = numpy.sqrt(sum((grad**2).sum() for grad in grads.values()))
            self.assertLess(abs(answer["grad_norm"] / norm - 1), 1e-5)
            for key in "ab":
                moved = before[key] - 1e-3 * (grads[key] / (abs(grads[key]) + 1e-8) + 0.01 * before[key])
                self.assertLess(abs(client[key] - moved).max(), 1e-6)

    def test_two_choices_at_a_place_are_two_sequences(self):
        own = machine("mean")
        rows = [([5, 6, 7], [8, 9]), ([5, 6, 7], [11])]
        head, payload = message(rows)
        # Both as choices of the first sequence, as flow sends rows that begin one another.
        numbers = [5, 6, 7, 8] + [0, 0, 0] + [2, 3, 2] + [8, 9, 11]
        head.update(sequences=[4], choices=3)
        found = Rows(head, struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack("<3f", 1, 1, 1), VOCABULARY)
        self.assertEqual([sequence.targets.tolist() for sequence in found.sequences.values()], [[6, 7, 8, 9], [6, 7, 11]])
        trainer = opened()
        logs = own.logs(own.client(trainer.client.model_id), numpy.array([7, 8]))
        answer, data = trainer.answer(head, struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack("<3f", 1, 1, 1))
        self.assertLess(abs(numpy.frombuffer(data, "<f4") - [logs[0, 8], logs[1, 9], logs[0, 11]]).max(), 1e-6)
        self.assertEqual(answer["computed"], 7)

    def test_the_reference_is_what_it_began_with(self):
        machine("mean")
        trainer = opened()
        first = traced(trainer)
        stepped(trainer)
        self.assertGreater(abs(traced(trainer) - first).max(), 1e-4)
        self.assertEqual(abs(traced(trainer, gradient=False, reference=True) - first).max(), 0.0)

    def test_a_saved_state_goes_on_exactly(self):
        own = machine("mean")
        trainer = opened()
        stepped(trainer)
        folder = tempfile.mkdtemp(dir=STATES)
        trainer.answer(dict(request="save", folder=folder, version=1), b"")
        config = json.loads(pathlib.Path(folder, files.CONFIG).read_text())
        self.assertEqual((config["target_modules"], config["flow_tinker"]["base"]), (["q_proj"], "tiny"))
        expected = stepped(trainer, 2)[1], traced(trainer)
        own.clients.clear()
        other = opened()
        other.answer(dict(request="load", folder=folder, steps=1), b"")
        found = stepped(other, 2)[1], traced(other)
        self.assertEqual(found[0]["grad_norm"], expected[0]["grad_norm"])
        self.assertTrue((found[1] == expected[1]).all())
        for path in pathlib.Path(STATES).glob("*.npz"):
            path.unlink()
        with self.assertRaisesRegex(Refused, "the state tinker://.* can't be opened on http://127.0.0.1:1"):
            other.answer(dict(request="load", folder=folder, steps=1), b"")

    def test_names_are_never_used_twice(self):
        machine("mean")
        trainer = opened()
        paths = [trainer.server.save(trainer.client) for _ in range(3)] + [trainer.server.sampler(trainer.client)]
        self.assertEqual(len(set(paths)), 4)


class Failures(unittest.TestCase):
    def test_a_late_answer_ends_after_our_own_limit(self):
        machine("mean")
        trainer = opened()
        trainer.server.calls.seconds = 0.5
        trainer.server.calls.begin()
        with Fault("forward 1 hang"), self.assertRaisesRegex(Refused, "had not answered `forward` when 0.5 seconds were over"):
            traced(trainer)

    def test_a_server_that_is_gone_is_noticed_before_that(self):
        machine("mean")
        trainer = opened()
        trainer.server.calls.PAUSE = 0.05
        with Fault("forward 1 hang"), self.assertRaisesRegex(Refused, "can't be reached, and had not answered `forward`"):
            traced(trainer)

    def test_a_key_is_in_no_error(self):
        machine("mean")
        trainer = opened()
        os.environ["TINKER_API_KEY"] = "tml-secret"
        try:
            with Fault("forward 1 refuse"), self.assertRaisesRegex(Refused, "429.*with the key \\(TINKER_API_KEY\\)"):
                traced(trainer)
        finally:
            del os.environ["TINKER_API_KEY"]

    def test_a_gradient_that_is_no_number_ends_the_version(self):
        for fault in ("step 1 nan", "backward 1 nan"):
            machine("mean")
            trainer = opened()
            with Fault(fault):
                answer = stepped(trainer)[1]
            self.assertEqual((answer["finite"], answer["grad_norm"]), (False, None), "flow ends the run")
            with self.assertRaisesRegex(Refused, "gradient that is no number"):
                traced(trainer)

    def test_a_session_that_is_gone_is_said_and_no_step_made_twice(self):
        machine("mean")
        trainer = opened()
        with Fault("backward 1 expired"), self.assertRaisesRegex(Refused, "not loaded"):
            stepped(trainer)
        with self.assertRaisesRegex(Refused, "nobody knows whether the server made its step"):
            trainer.answer(STEP, b"")

    def test_what_such_a_server_cannot_is_refused_before_anything_is_sent(self):
        machine("mean", clips=False)
        for why, options in {
            "trains adapters alone": dict(lora=None),
            "`dropout: 0.1`": dict(lora={**LORA, "dropout": 0.1}),
            "chooses the layers itself": dict(lora={**LORA, "targets": ["q_proj"]}),
            "`alpha: 32`": dict(lora={**LORA, "alpha": 16.0}),
            "a critic": dict(head="value"),
            "no model `other`": dict(named="other"),
        }.items():
            with self.assertRaisesRegex(Refused, why):
                opened(**options)
        trainer = opened()
        for why, options in {
            "temperature of 0.7": dict(temperature=0.7),
            "an entropy": dict(entropy=True),
            "among some tokens": dict(allowed=[1]),
            "the token 318": dict(rows=[([5, 318], [6])]),
        }.items():
            with Fault("forward 1 refuse"), self.assertRaisesRegex(Refused, why):
                trainer.answer(*message(**options))
        for why, options in {"ignores without a word": dict(max_grad_norm=1.0), "one `weight_decay`": dict(weight_decay_of={"lora_A": 0.0})}.items():
            with self.assertRaisesRegex(Refused, why):
                trainer.answer({**STEP, **options}, b"")
        traced(trainer)
        with self.assertRaisesRegex(Refused, "nothing was sent"):
            trainer.answer(dict(request="back", entropy=False), numpy.full(9, numpy.nan, "<f4").tobytes())

    def test_an_adapter_that_has_learnt_is_refused(self):
        machine("mean")
        trainer = opened()
        folder = tempfile.mkdtemp(dir=STATES)
        trainer.answer(dict(request="export", folder=folder, version=0), b"")
        self.assertTrue(files.untrained(folder))
        opened(adapter=folder)
        stepped(trainer)
        trainer.answer(dict(request="export", folder=folder, version=1), b"")
        with self.assertRaisesRegex(Refused, "has learnt already"):
            opened(adapter=folder)
        # One that the server has itself is no obstacle: it begins with its weights, and without its moments.
        saved = tempfile.mkdtemp(dir=STATES)
        trainer.answer(dict(request="save", folder=saved, version=1), b"")
        other = opened(adapter=saved, lora=None)
        self.assertTrue((traced(other) == traced(trainer)).all())
        self.assertEqual(tinker.MACHINE.client(other.client.model_id)["steps"], 0)
        self.assertTrue((traced(other, gradient=False, reference=True) == traced(trainer)).all())

    def test_a_missing_key_is_said(self):
        with self.assertRaisesRegex(Refused, "TINKER_API_KEY isn't set, and https://a.b isn't on this machine"):
            Server("https://a.b", Calls(5))


class Front(unittest.TestCase):
    def test_it_writes_and_weighs_as_vllm_does(self):
        machine("mean")
        trainer = opened()
        folder = tempfile.mkdtemp(dir=STATES)
        stepped(trainer)
        trainer.answer(dict(request="export", folder=folder, version=1), b"")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE / "tinker_stand_in"), str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-m", "flow_tinker.front", "--url", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        address = process.stdout.readline().split()[1].rstrip(",")

        def ask(path, **body):
            request = urllib.request.Request(address + path, json.dumps(body).encode(), {"content-type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        self.assertEqual(ask("/v1/completions", model="a-1", prompt=[5])[0], 404)
        self.assertEqual(ask("/v1/load_lora_adapter", lora_name="a-1", lora_path=folder)[0], 200)
        asked = dict(model="a-1", prompt=[5, 6, 7], max_tokens=4, temperature=1.0, seed=3, stop_token_ids=[2], min_p=0.0)
        one, two, other = (ask("/v1/completions", **{**asked, "seed": seed})[1]["choices"][0] for seed in (3, 3, 4))
        self.assertEqual(one, two)
        self.assertNotEqual(one["token_ids"], other["token_ids"])
        # What it says of its tokens is what the trainer says of them, and of a prompt the same.
        found = traced(trainer, rows=[([5, 6, 7], one["token_ids"])])
        self.assertLess(abs(found - one["logprobs"]["token_logprobs"]).max(), 1e-6)
        weighed = ask("/v1/completions", model="a-1", prompt=[5, 6, 7, *one["token_ids"]], max_tokens=1, prompt_logprobs=1)[1]["choices"][0]["prompt_logprobs"]
        self.assertLess(max(abs(weighed[3 + i][str(token)]["logprob"] - found[i]) for i, token in enumerate(one["token_ids"])), 1e-6)
        for why, more in {"min_p": dict(min_p=0.1), "stop": dict(stop=["x"]), "list of tokens": dict(prompt="text")}.items():
            status, body = ask("/v1/completions", **{**asked, **more})
            self.assertEqual((status, why in body["error"]), (400, True), body)


if __name__ == "__main__":
    unittest.main()
