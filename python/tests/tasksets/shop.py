"""A tool, served by the package's own tool server: prices must be asked for before they can be added."""

import itertools

import verifiers.v1 as vf

__all__ = ["ShopTaskset"]

PRICES = {"pear": 2, "lamp": 7, "hat": 5, "kite": 4, "drum": 9, "cup": 3, "rope": 1, "bell": 6, "coat": 8, "fig": 1, "pen": 2, "fan": 4}


class ShopData(vf.TaskData):
    things: list[str]


class ShopTask(vf.Task[ShopData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == str(sum(PRICES[thing] for thing in self.data.things)))

    @vf.metric
    async def asked(self, trace: vf.Trace) -> float:
        return float(sum(message.role == "tool" for message in trace.messages))


class PriceTools(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    @vf.tool
    def price(self, thing: str) -> str:
        """What a thing costs."""
        return str(PRICES[thing]) if thing in PRICES else f"There is no {thing}."


class ShopTaskset(vf.Taskset[ShopTask, vf.TasksetConfig]):
    def load(self):
        for one, two in itertools.permutations(PRICES, 2):
            yield ShopTask(ShopData(prompt=f"What do the {one} and the {two} cost together?", things=[one, two]), self.config.task)

    @classmethod
    def toolsets(cls, config):
        return [PriceTools(vf.SharedToolsetConfig())]


if __name__ == "__main__":
    PriceTools.run()
