"""An agent program with two sub-agents that work at the same time, each in its own time: which call comes first is chance."""
import json
import os
import random
import threading
import time
import urllib.request

CLOCK = random.SystemRandom()


def ask(messages, **more):
    time.sleep(CLOCK.random() * float(os.environ.get("TEAM_DELAY", "0.02")))
    body = json.dumps({"model": "any", "messages": messages, "max_tokens": 4, **more}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def talk(name, turns, said):
    messages = [{"role": "system", "content": name}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{task['word']} {turn}?"})
        answer = ask(messages)
        messages.append({"role": "assistant", "content": answer})
        said[f"{name} {turn}"] = answer


task = json.loads(os.environ["FLOW_TASK"])
said = {}
talk("lead", 1, said)
workers = [threading.Thread(target=talk, args=(name, 2, said)) for name in ("left", "right")]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
messages = [{"role": "system", "content": "lead"}, {"role": "user", "content": f"{task['word']} 0?"}, {"role": "assistant", "content": said["lead 0"]},
            {"role": "user", "content": f"left says {said['left 1']}, right says {said['right 1']}"}]
said["end"] = ask(messages)
print(json.dumps({"reward": sum(text.count(task["word"][0]) for text in said.values())}))
