"""Results of a function: types that become others, names in any order, and what is refused."""

import importlib.util
import os
import unittest

from .op_client import NEEDS_ARROW, Asking, table

COLUMN = "@flow_op.columns(needs=['reward'], adds={'derived_x': %s})\ndef f(rows):\n    n, r = rows.num_rows, rows['reward']\n    return %s\n"
F32, U32, UTF8, LIST = "pa.float32()", "pa.uint32()", "pa.string()", "pa.list_(pa.float32())"


def column(result, type=F32):
    return COLUMN % (type, result)


@NEEDS_ARROW
class Accepted(Asking):
    def test_forms_and_casts(self):
        ones = [float(at) for at in range(8)]
        for result in [
            "pa.table({'derived_x': range(n)})",
            "pa.record_batch({'derived_x': [float(at) for at in range(n)]})",
            "{'derived_x': list(range(n))}",
            "{'derived_x': tuple(float(at) for at in range(n))}",
            "{'derived_x': pa.array(range(n), pa.uint64())}",
            "{'derived_x': pa.chunked_array([[0, 1, 2], [3, 4, 5, 6, 7]])}",
            "{'derived_x': pa.array([float(at) for at in range(n)]).dictionary_encode()}",
            "{'other': [None] * 3, 'derived_x': list(range(n))}",
            "{'derived_x': __import__('numpy').arange(n)}",
            "{'derived_x': __import__('numpy').arange(n, dtype='f2')[::1]}",
            "{'derived_x': type('Tensor', (), {'__array__': lambda self, *more: __import__('numpy').arange(n)})()}",
            "type('Frame', (), {'__arrow_c_stream__': lambda self, schema=None: pa.table({'derived_x': range(n)}).__arrow_c_stream__(schema)})()",
        ]:
            if "numpy" in result and importlib.util.find_spec("numpy") is None:
                continue
            with self.subTest(result):
                self.assertEqual(self.values(column(result)), ones)

    def test_texts_and_lists(self):
        for result, type, wanted in [
            ("{'derived_x': ['yes', 'no'] * 4}", UTF8, ["yes", "no"] * 4),
            ("{'derived_x': pa.array(['yes', 'no'] * 4, pa.large_string())}", UTF8, ["yes", "no"] * 4),
            ("{'derived_x': pa.array(['yes', 'no'] * 4).dictionary_encode()}", UTF8, ["yes", "no"] * 4),
            ("{'derived_x': [[]] * 8}", LIST, [[]] * 8),
            ("{'derived_x': [[1, 2], []] * 4}", LIST, [[1, 2], []] * 4),
            ("{'derived_x': pa.array([[1.0, 2.0]] * 8, pa.large_list(pa.float64()))}", LIST, [[1, 2]] * 8),
            ("{'derived_x': pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 16), 2)}", LIST, [[0.5, 0.5]] * 8),
            ("{'derived_x': [[1, 2]] * 8}", "pa.list_(pa.uint32())", [[1, 2]] * 8),
            ("{'derived_x': [3] * 8}", U32, [3] * 8),
            ("{'derived_x': __import__('numpy').ones((8, 2))}", LIST, [[1, 1]] * 8),
        ]:
            if "numpy" in result and importlib.util.find_spec("numpy") is None:
                continue
            with self.subTest(result):
                self.assertEqual(self.values(column(result, type)), wanted)

    def test_a_result_with_names_may_have_any_order(self):
        for order in ("rows", "rows.sort_by([('reward', 'descending'), ('task', 'ascending')])", "rows.take(list(range(7, -1, -1)))"):
            self.assertEqual(self.values(column(f"(lambda t: t.append_column('derived_x', pc.multiply(t['reward'], 2)))({order})"), check=True),
                             [0, 2, 0, 0, 2, 2, 0, 4])

    def test_names_may_have_other_types(self):
        text = "(lambda t: pa.table({**{name: t[name].cast(pa.int64()) if pa.types.is_integer(t[name].type) else t[name].dictionary_encode() for name in t.column_names}, 'derived_x': t['reward']}))(rows.sort_by('reward'))"
        self.assertEqual(self.values(column(text)), [0, 1, 0, 0, 1, 1, 0, 2])

    def test_data_frames(self):
        for package, text in [("pandas", "rows.to_pandas().sort_values('reward', ascending=False).assign(derived_x=lambda t: t.reward * 2)"),
                              ("polars", "__import__('polars').from_arrow(rows).sort('reward').with_columns(derived_x=__import__('polars').col('reward') * 2)")]:
            if importlib.util.find_spec(package):
                self.assertEqual(self.values(column(text), check=True), [0, 2, 0, 0, 2, 2, 0, 4])


@NEEDS_ARROW
class Refused(Asking):
    def test_columns_that_are_refused(self):
        for result, type, words in [
            ("None", F32, "the function returns None: does a `return` lack?"),
            ("(at for at in range(n))", F32, "the function returns a generator"),
            ("[1.0] * n", F32, "the function returns a list"),
            ("{'derived_x': (at for at in range(n))}", F32, "column `derived_x` is a generator"),
            ("{'derived_x': 1.0}", F32, "column `derived_x` is a float"),
            ("{'derived_x': [1.0, 'a'] * 4}", F32, "column `derived_x` can't become an Arrow array"),
            ("{'derived_y': [1.0] * n}", F32, "the result lacks the column `derived_x`, which the function adds: it has derived_y"),
            ("rows", F32, "the result lacks the column `derived_x`"),
            ("{}", F32, "it has no columns"),
            ("{'derived_x': [1.0] * (n - 1)}", F32, "column `derived_x` has 7 values for 8 rows"),
            ("{'derived_x': ['a'] * n}", F32, "column `derived_x` must be f32 (float), and the function gave utf8 (string)"),
            ("{'derived_x': [True] * n}", F32, "the function gave bool: cast it"),
            ("{'derived_x': [1.0] * n}", U32, "must be u32 (uint32), and the function gave double: round it and cast it"),
            ("{'derived_x': [-1] * n}", U32, "a value of the int64 given isn't one: Integer value -1 not in range"),
            ("{'derived_x': [1.0] * n}", UTF8, "must be utf8 (string), and the function gave double"),
            ("{'derived_x': [1.0] * n}", LIST, "give one list a row"),
            ("{'derived_x': [[1.0]] * n}", F32, "give one value a row"),
            ("pa.Table.from_arrays([r, r], names=['derived_x', 'derived_x'])", F32, "two columns of one name"),
            ("{'derived_x': [1.0] * 5 + [float('nan')] * 3}", F32, "column `derived_x` is nan in row (task 'b', sample 0, attempt 0, turn 1)"),
            ("{'derived_x': [1.0] * 5 + [None] * 3}", F32, "column `derived_x` is null in row (task 'b', sample 0, attempt 0, turn 1)"),
            ("{'derived_x': [None] * n}", F32, "column `derived_x` is null in row (task 'a', sample 0, attempt 0, turn 0)"),
            ("{'derived_x': [1.0, 1e300] * 4}", F32, "column `derived_x` is inf in row (task 'a', sample 0, attempt 0, turn 1)"),
            ("{'derived_x': pc.divide(r, 0.0)}", F32, "column `derived_x` is nan in row"),
            ("{'derived_x': [[], [1.0, 2.0], [0.0, float('inf')], [], [], [], [], []]}", LIST, "is a list with inf at place 1 in row (task 'a', sample 1, attempt 0, turn 0)"),
            ("{'derived_x': [[], [1.0, None], [], [], [], [], [], []]}", LIST, "is a list with null at place 1 in row (task 'a', sample 0, attempt 0, turn 1)"),
            ("{'derived_x': ['a', None] * 4}", UTF8, "is null in row (task 'a', sample 0, attempt 0, turn 1)"),
        ]:
            with self.subTest(words):
                error = self.error(column(result, type))
                self.assertIn(words, error["message"])
                self.assertEqual((error["kind"], error["traceback"], os.path.basename(error["file"]), error["line"]), ("result", "", "m.py", 4))

    def test_names_that_do_not_match(self):
        add = "(lambda t: t.append_column('derived_x', pa.array([1.0] * len(t))))(%s)"
        for rows, words in [
            ("rows.slice(1)", "the result lacks row (task 'a', sample 0, attempt 0, turn 0) (1 of 8 rows are missing)"),
            ("pa.concat_tables([rows, rows.slice(0, 1)])", "the result has row (task 'a', sample 0, attempt 0, turn 0) twice"),
            ("pa.concat_tables([rows.slice(1), rows.slice(1, 1)])", "the result has row (task 'a', sample 0, attempt 0, turn 1) twice"),
            ("rows.set_column(2, 'sample', pa.array([5] * n))", "the result has row (task 'a', sample 5, attempt 0, turn 0), which isn't among the rows that came"),
            ("rows.select(['turn', 'reward']).take(list(range(7, -1, -1)))", "the result's column `turn` isn't in the order of the rows that came"),
            ("rows.set_column(2, 'sample', pa.array([None] * n, pa.uint32()))", "column `sample` of the result has nulls"),
        ]:
            with self.subTest(words):
                self.assertIn(words, self.error(column(add % rows))["message"])

    def test_rows_that_are_refused(self):
        text = "@flow_op.rows(needs=['reward'], adds={%s})\ndef f(rows):\n    n = rows.num_rows\n    return %s\n"
        for adds, result, words in [
            ("", "rows.drop_columns(['turn'])", "the result lacks the column `turn` (each row of a result has a name)"),
            ("'derived_x': pa.float32()", "rows", "the result lacks the column `derived_x` (which the function adds)"),
            ("", "pa.concat_tables([rows, rows.slice(0, 1)])", "the result has row (task 'a', sample 0, attempt 0, turn 0) twice"),
            ("", "{name: rows[name].slice(0, 3) if name == 'turn' else rows[name] for name in rows.column_names}", "the result's columns have different lengths"),
            ("", "rows.set_column(6, 'reward', pa.array(['a'] * n))", "column `reward` must be f32 (float), and the function gave utf8"),
            ("", "rows.set_column(6, 'reward', pa.array([None] * n))", "column `reward` is null in row (task 'a', sample 0, attempt 0, turn 0)"),
        ]:
            with self.subTest(words):
                self.assertIn(words, self.error(text % (adds, result))["message"])
        said = self.declare(text % ("", "rows.filter(pc.equal(rows['task'], 'none'))"))
        self.assertIn("ok", said)
        self.assertEqual(self.run_rows(check=True)[0]["ok"]["rows"], 0)

    def test_a_row_of_another_group_is_no_new_one(self):
        text = "@flow_op.rows()\ndef f(rows):\n    return rows.set_column(1, 'task', pa.array(['a'] * rows.num_rows))\n"
        self.assertIn("twice", self.error(text, ends=[4, 8])["message"])


@NEEDS_ARROW
class CalledAgain(Asking):
    def differs(self, text, words, **more):
        error = self.error(text, check=True, **more)
        self.assertEqual(error["kind"], "differs", error)
        self.assertIn(words, error["message"])
        return error["message"]

    def test_values_that_differ(self):
        self.differs(column("{'derived_x': [time.perf_counter_ns() % 9973] * n}"), "column `derived_x` of row (task 'a', sample 0, attempt 0, turn 0) as ")
        self.differs(column("{'derived_x': [__import__('random').random() for at in range(n)]}"), "chance that isn't from flow_op.rng()")
        self.differs(column("{'derived_x': list(range(n))}").replace("list(range(n))", "pc.cumulative_sum(r)"), "returns the six columns that name a row, or says ordered=True")
        self.differs("count = 0\n" + column("{'derived_x': [count] * n}").replace("    n,", "    global count\n    count += 1\n    n,"), "a global that the function changes")
        self.differs(column("{'derived_x': [str(time.perf_counter_ns())] * n}", UTF8), "column `derived_x`")
        self.differs(column("{'derived_x': [[1.0, time.perf_counter_ns() % 9973]] * n}", LIST), "column `derived_x` of row")
        self.differs(column("{'derived_x': [[0.0] * at for at in range(n)]}", LIST), "the order of the rows")

    def test_a_sorted_result_without_names(self):
        self.differs(column("{'derived_x': rows.sort_by('reward')['reward']}"), "the order of the rows")

    def test_rows_and_states_that_differ(self):
        self.differs("@flow_op.rows()\ndef f(rows):\n    return rows.slice(0, 3)\n", "two calls with the same rows give different rows")
        self.differs("@flow_op.columns(adds={'derived_x': pa.float32()}, state=0)\ndef f(rows, *, state):\n    return {'derived_x': [0] * rows.num_rows}, time.perf_counter_ns()\n", "give the states")
        self.differs("@flow_op.columns(adds={'derived_x': pa.float32()}, ordered=True)\ndef f(rows):\n    return {'derived_x': [time.perf_counter_ns() % 9973] * rows.num_rows}\n", "the order of the groups")

    def test_an_error_in_the_second_call_only(self):
        text = "@flow_op.columns(adds={'derived_x': pa.float32()})\ndef f(rows):\n    return {'derived_x': [1.0 if rows['turn'][0].as_py() == 0 and rows['task'][0].as_py() == 'a' and rows['turn'][1].as_py() == 1 else 'a'] * rows.num_rows}\n"
        message = self.error(text, check=True, rows=table().slice(0, 2))["message"]
        self.assertIn("only in the second call", message)
        self.assertIn("ZeroDivisionError", self.error(text.replace("else 'a'", "else 1 / 0"), check=True, rows=table().slice(0, 2))["message"])

    def test_values_that_are_equal(self):
        import pyarrow as pa

        rows = table(reward=pa.array([0.1, 0.7, 1e4, -3.3, 0.2, 1e-5, 2.5, -1e4], pa.float32()))
        self.values(column("{'derived_x': pc.subtract(r, pc.mean(r))}"), rows=rows, check=True)
        self.values(column("{'derived_x': [flow_op.rng().random()] * n}") if importlib.util.find_spec("numpy") else column("{'derived_x': [flow_op.seed() % 7] * n}"), check=True)
        ordered = "@flow_op.columns(needs=['reward'], adds={'derived_x': pa.float32()}, ordered=True)\ndef f(rows):\n    return {'derived_x': pc.cumulative_sum(rows['reward'])}\n"
        self.assertEqual(self.values(ordered, check=True), [0, 1, 1, 1, 2, 3, 3, 5])


if __name__ == "__main__":
    unittest.main()
