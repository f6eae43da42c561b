"""One answer each, graded by the package's own reading of boxed mathematics."""

import itertools

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumsData(vf.TaskData):
    gold: str


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return vf.verify_boxed_math_answer(trace.last_reply, self.data.gold)

    @vf.metric
    async def letters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SumsTaskset(vf.Taskset[SumsTask, vf.TasksetConfig]):
    def load(self):
        for one, two in itertools.product(range(20), range(10)):
            question = f"What is {one} + {two}? Put the answer into \\boxed{{}}."
            yield SumsTask(SumsData(prompt=question, gold=f"\\boxed{{{one + two}}}"), self.config.task)
