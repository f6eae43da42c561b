"""The seconds of each part of an update. On a GPU they are the GPU's own, so that nothing waits to be measured."""
import contextlib, time
import torch


class Clock:
    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.forget()

    def forget(self):
        self.begun, self.events = time.perf_counter(), []

    @contextlib.contextmanager
    def part(self, name):
        begun = self.now()
        yield
        self.events.append((name, begun, self.now()))

    def now(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self):
        """The seconds by part since `forget`, and `idle`, in which none of them was under way. All work that was measured is done."""
        if self.cuda:
            torch.cuda.synchronize()
        seconds = {}
        for name, begun, end in self.events:
            took = begun.elapsed_time(end) / 1000 if self.cuda else end - begun
            seconds[name] = seconds.get(name, 0.0) + took
        idle = time.perf_counter() - self.begun - sum(seconds.values())
        self.forget()
        return {**seconds, "idle": max(0.0, idle)}
