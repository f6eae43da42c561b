"""The seconds of each part of an update. On a GPU they are the GPU's own, so that nothing waits to be measured."""
import contextlib, time
import torch


class Clock:
    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.forget()

    def forget(self):
        self.seconds, self.events = {}, []

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

    def add(self, name, seconds):
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def read(self):
        """The seconds by part since the last reading. All work that was measured is done."""
        if self.cuda:
            torch.cuda.synchronize()
        for name, begun, end in self.events:
            self.add(name, begun.elapsed_time(end) / 1000 if self.cuda else end - begun)
        seconds = self.seconds
        self.forget()
        return seconds
