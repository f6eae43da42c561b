"""Functions that print, exit, fork, raise or take all memory; malformed requests."""

import json
import os
import struct
import time
import unittest

from .op_client import LENGTHS, NEEDS_ARROW, Asking, ipc, table

GOOD = "@flow_op.columns(needs=['reward'], adds={'derived_x': pa.float32()})\ndef f(rows):\n    return {'derived_x': rows['reward']}\n"


def column(before):
    return "@flow_op.columns(needs=['reward'], adds={'derived_x': pa.float32()})\ndef f(rows):\n" + "".join(f"    {line}\n" for line in before.splitlines()) + "    return {'derived_x': rows['reward']}\n"


@NEEDS_ARROW
class Hostile(Asking):
    def goes_on(self):
        self.assertEqual(self.values(GOOD), [0, 1, 0, 0, 1, 1, 0, 2])

    def test_prints_go_to_standard_error(self):
        self.values(column("""print('from print')
os.write(1, b'from os.write\\n')
sys.__stdout__.write('from the first stdout\\n')
sys.__stdout__.flush()
os.system('echo from a child')
__import__('ctypes').CDLL(None).puts(b'from C')
__import__('ctypes').CDLL(None).fflush(None)
print('x' * 2000000)"""))
        self.goes_on()
        said = self.op.stderr()
        for words in ("from print", "from os.write", "from the first stdout", "from a child", "from C"):
            self.assertIn(words, said)

    def test_a_function_that_reads_the_input(self):
        self.values(column("assert sys.stdin.read() == '' and os.read(0, 10) == b''\nos.system('cat')"))
        self.goes_on()

    def test_a_function_that_closes_or_breaks_its_output(self):
        self.values(column("sys.stdout.close()\nsys.stderr.close()"))
        self.goes_on()

    def test_exceptions(self):
        for before, words, line in [
            ("1 / 0", "the function raises ZeroDivisionError: division by zero in group 0", 6),
            ("sys.exit(3)", "the function raises SystemExit: 3 in group 0", 6),
            ("raise KeyboardInterrupt", "the function raises KeyboardInterrupt in group 0", 6),
            ("raise ValueError('\\udc80 no text')", "the function raises ValueError: ? no text", 6),
            ("class Odd(BaseException):\n    def __str__(self): raise 1\nraise Odd", "the function raises Odd: (its text can't be made: TypeError)", 8),
            ("def deep(): deep()\ndeep()", "RecursionError: maximum recursion depth exceeded", 6),
            ("raise ValueError('x' * 1000000)", "characters are left out", 6),
            ("rows['won']", "in group 0: list it in `needs`", 6),
            ("import no_such_module", "the function raises ModuleNotFoundError: No module named 'no_such_module'", 6),
        ]:
            with self.subTest(words):
                error = self.error(column(before))
                self.assertIn(words, error["message"])
                self.assertEqual((error["kind"], error["file"], error["line"]), ("exception", os.path.join(self.folder, "m.py"), line))
                self.assertIn(f'File "{self.folder}/m.py", line', error["traceback"])
                self.assertNotIn("flow_op/", error["traceback"])
                self.assertLess(len(json.dumps(error)), 20_000)
        self.goes_on()

    def test_the_group_of_an_exception(self):
        self.assertIn("in group 1", self.error(column("assert rows['task'][0].as_py() == 'a'"), ends=[4, 8])["message"])

    def test_a_traceback_of_a_neighbour(self):
        self.write("neighbour.py", "def fall():\n    raise ValueError('here')\n", head="")
        error = self.error("import neighbour\n" + column("neighbour.fall()"))
        self.assertEqual((os.path.basename(error["file"]), error["line"]), ("neighbour.py", 2))

    def test_a_process_that_ends(self):
        self.assertIn("ok", self.declare(column("os._exit(3)")))
        self.assertEqual(self.run_rows(), (None, None))
        self.assertEqual(self.op.process.wait(20), 3)

    def test_a_child_that_returns_never_speaks(self):
        for before in ("os.fork()", "if os.fork() == 0: raise ValueError('child')", "if os.fork() == 0: sys.exit(0)",
                       "if os.fork() == 0:\n    time.sleep(0.3)\n    print('late')", "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]"):
            with self.subTest(before):
                self.assertEqual(self.values(column(before)), [0, 1, 0, 0, 1, 1, 0, 2])
                self.goes_on()
        self.assertIn("late", self.op.stderr())

    def test_a_child_that_lives_on_does_not_hold_the_conversation(self):
        self.values(column("if os.fork() == 0:\n    for at in (0, 1, 2): os.close(at)\n    time.sleep(5)\n    os._exit(0)"))
        began = time.monotonic()
        self.assertEqual(self.op.close(), 0)
        self.assertLess(time.monotonic() - began, 4)

    def test_a_thread_that_lives_on_does_not_hold_the_process(self):
        self.values(column("__import__('threading').Thread(target=time.sleep, args=(60,)).start()"))
        self.assertEqual(self.op.close(), 0)

    def test_memory(self):
        self.start(env={"FLOW_OP_MEMORY": str(1 << 30)})
        for before in ("[1.0] * (1 << 40)", "x = []\nwhile True: x.append(bytes(1 << 24))", "pa.nulls(1 << 40, pa.float32())"):
            error = self.error(column(before))
            self.assertEqual(error["kind"], "memory", error)
            self.assertIn("1073741824 bytes", error["message"])
            self.assertEqual(os.path.basename(error["file"]), "m.py")
            self.goes_on()
        self.op.process.stdin.write(LENGTHS.pack(2, 1 << 31) + b"{}")
        for _ in range(32):
            self.op.process.stdin.write(bytes(1 << 26))
        self.op.process.stdin.flush()
        self.assertEqual(self.op.read()[0]["error"]["kind"], "memory")
        self.goes_on()

    def test_requests_that_are_none(self):
        op = self.start()
        for request in (b"", b"{", b"[]", b"\xff", {"do": "fly"}, {}, {"do": "run"}, {"do": "describe", "protocol": 1}):
            self.assertEqual(op.ask(request)[0]["error"]["kind"], "protocol", request)
        self.assertIn("ok", self.declare(GOOD))
        for body, groups in [(b"", [{"end": 8}]), (b"no arrow", []), (ipc(table())[:200], [{"end": 8}]), (ipc(table()), [{"end": 9}]), (ipc(table()), [{"end": 4}]),
                             (ipc(table()), [{"end": 8}, {"end": 4}]), (ipc(table()), [{}]), (ipc(table().drop_columns(["turn"])), [{"end": 8}])]:
            self.assertEqual(op.ask({"do": "run", "groups": groups}, body)[0]["error"]["kind"], "protocol", (body[:20], groups))
        self.goes_on()

    def test_an_input_that_ends_within_a_message(self):
        op = self.start()
        op.process.stdin.write(struct.pack("<IQ", 100, 0) + b"{")
        self.assertEqual(op.close(), 0)

    def test_functions_change_nothing_of_the_next_call(self):
        text = "@flow_op.columns(adds={'derived_x': pa.float32()})\ndef f(rows, *, seen: list = [], more: list = []):\n    seen.append(1)\n    more.append(1)\n    return {'derived_x': [len(seen) + len(more)] * rows.num_rows}\n"
        self.assertEqual(self.values(text, ends=[4, 8], check=True, settings={"more": [5]}), [3] * 8)


if __name__ == "__main__":
    unittest.main()
