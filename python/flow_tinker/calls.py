"""Calls of the SDK within a time limit of our own, since some of its waits have no end."""
import os, queue, threading, time

from . import KEY


class Refused(Exception):
    """What can't be done, in words for whoever runs flow."""


class Calls:
    """Makes calls on threads of their own. One that is late leaves its thread behind: nothing else can be asked of that client, and this
    process is to end."""

    # How often a wait looks whether the server can be reached, and how many times in a row it may not be: the SDK repeats a call for ever.
    PAUSE, MISSES = 5.0, 6

    def __init__(self, seconds):
        self.seconds, self.reachable, self.url = seconds, lambda: True, None
        self.begin()

    def begin(self):
        """A request of flow begins, whose answer has so many seconds."""
        self.end = time.monotonic() + 0.95 * self.seconds

    def __call__(self, what, call):
        """What `call` gives; of a future its result."""
        answer = queue.SimpleQueue()

        def run():
            try:
                result = call()
                answer.put((settled(result), None))
            except BaseException as error:
                answer.put((None, error))

        threading.Thread(target=run, daemon=True).start()
        misses, found = 0, None
        while found is None:
            left = max(0.1, self.end - time.monotonic())
            try:
                found = answer.get(timeout=min(left, self.PAUSE))
            except queue.Empty:
                misses = 0 if self.reachable() else misses + 1
                if misses == self.MISSES:
                    raise Refused(f"{self.url or 'the server'} can't be reached, and had not answered `{what}`") from None
                if time.monotonic() >= self.end:
                    raise Refused(f"the server had not answered `{what}` when {self.seconds:g} seconds were over") from None
        result, error = found
        if error is not None:
            raise Refused(f"the server failed at `{what}`: {said(error)}") from None
        return result


def settled(result):
    """The result of a future, and of what a future gives as one."""
    while hasattr(result, "result"):
        result = result.result()
    return result


def said(error):
    """The words of an error, without the key."""
    text = f"{type(error).__name__}: {error}"
    key = os.environ.get(KEY)
    return text.replace(key, f"({KEY})") if key else text
