"""The door for agent programs: what it adds to a call, what programs that think cost one another, and the memory of open episodes. The policy answers at
once here, so what is measured is the door's. Run by `.flow/env/program/bin/python benches/door.py` (`flow env install program`)."""
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python/tests"), str(ROOT / "python")]
from aiohttp import web  # noqa: E402
from door_driver import Flow  # noqa: E402

# Calls over one kept connection, as SDKs do; says when its calls began and ended.
AGENT = """
import http.client, json, os, sys, time
calls, think = CALLS, THINK
host = os.environ["OPENAI_BASE_URL"].split("//")[1]
place, path = host.split("/", 1)
connection = http.client.HTTPConnection(place)
messages, began = [{"role": "system", "content": "Answer in a word."}], time.time()
for turn in range(calls):
    messages.append({"role": "user", "content": f"What comes after {turn}?"})
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    connection.request("POST", "/" + path + "/chat/completions", json.dumps({"model": "m", "messages": messages}), headers)
    messages.append(json.loads(connection.getresponse().read())["choices"][0]["message"])
    time.sleep(think)
print(json.dumps({"reward": 1.0, "info": {"began": began, "ended": time.time()}}))
"""


def agent(calls, think):
    return AGENT.replace("CALLS", str(calls)).replace("THINK", str(think))


def behind_the_door(programs, calls, think):
    """The seconds from the first call to the last, of all programs; and from their start."""
    flow = Flow(agent(calls, think), tasks=[{"id": f"t{i}"} for i in range(programs)], seconds=120, live=programs)
    start = time.time()
    ends = [end for _, end in flow.play(lambda call: "next", tasks=[f"t{i}" for i in range(programs)])]
    flow.end()
    wrong = [end for end in ends if end.get("reward") != 1.0]
    assert not wrong, wrong[0]
    return max(end["info"]["ended"] for end in ends) - min(end["info"]["began"] for end in ends), time.time() - start


def behind_an_echo(programs, calls):
    """The same of a server of the same library that reads a body and writes an answer: what no door can be without."""
    answer = {"id": "x", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "next"}}]}

    async def echo(request):
        await request.json()
        return web.json_response(answer)

    loop, ready = asyncio.new_event_loop(), threading.Event()
    port = []

    def serve():
        async def begin():
            app = web.Application()
            app.router.add_post("/v1/chat/completions", echo)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port.append(site._server.sockets[0].getsockname()[1])
            ready.set()

        loop.run_until_complete(begin())
        loop.run_forever()

    threading.Thread(target=serve, daemon=True).start()
    ready.wait()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "agent.py").write_text(agent(calls, 0.0))
        env = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port[0]}/v1", "OPENAI_API_KEY": "k", "PATH": "/usr/bin:/bin"}
        children = [subprocess.Popen([sys.executable, "agent.py"], cwd=folder, env=env, stdout=subprocess.PIPE) for _ in range(programs)]
        infos = [json.loads(child.communicate()[0])["info"] for child in children]
    loop.call_soon_threadsafe(loop.stop)
    return max(info["ended"] for info in infos) - min(info["began"] for info in infos)


def resident(pid):
    return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def main():
    programs, calls = 64, 30
    pairs = [(behind_the_door(programs, calls, 0.0)[0], behind_an_echo(programs, calls)) for _ in range(3)]
    each = [(door / (programs * calls) * 1000, echo / (programs * calls) * 1000) for door, echo in pairs]
    added = statistics.median(door - echo for door, echo in each)
    print(f"a call, {programs} programs at once: {statistics.median(door for door, _ in each):.2f} ms, behind an echo {statistics.median(echo for _, echo in each):.2f} ms, "
          f"so the door adds {added:.2f} ms")
    turns = 12
    spans = [behind_the_door(programs, turns, 0.5) for _ in range(2)]
    ideal = turns * 0.5
    print(f"{programs} programs that think 0.5 s in each of {turns} turns: {min(s for s, _ in spans):.2f} s from the first call, {min(w for _, w in spans):.2f} s with their starts, "
          f"ideal {ideal:.1f} s: {min(s for s, _ in spans) / ideal:.2f} and {min(w for _, w in spans) / ideal:.2f}")
    body = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    waiting = ["sh", "-c", f"exec curl -s $OPENAI_BASE_URL/chat/completions -H \"authorization: Bearer $OPENAI_API_KEY\" -d '{body}'"]
    many = 1000
    flow = Flow(waiting, tasks=[{"id": f"t{i}"} for i in range(many)], seconds=300, live=many)
    before = resident(flow.child.pid)
    flow.send(*[{"request": "reset", "episode": i, "split": "train", "task": f"t{i}", "seed": 1} for i in range(many)])
    views = [flow.next() for _ in range(many)]
    assert all("call" in view for view in views), views[0]
    print(f"{many} open episodes, each with a call that waits: {resident(flow.child.pid):.0f} MB resident, {before:.0f} MB before")
    flow.send(*[{"request": "close", "episode": i} for i in range(many)])
    [flow.next() for _ in range(many)]
    flow.end()


main()
