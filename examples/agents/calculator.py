"""An agent that has a calculator. It drives its own loop and knows an OpenAI endpoint alone; nothing here knows of training."""

import json
import os
import re
import urllib.request

SHOWN = [{"role": role, "content": text} for role, text in (
    ("system", "You have a calculator: write calc(A + B) to use it, then write the result alone."),
    ("user", "What is 512 + 77?"), ("assistant", "calc(512 + 77)"), ("user", "589"), ("assistant", "589"))]
CALL = re.compile(r"calc\(\s*(\d{1,6})\s*([+*-])\s*(\d{1,6})\s*\)")


def ask(messages):
    body = json.dumps({"model": "any", "messages": messages, "max_tokens": 24, "stop": ["\n"]}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]


def work_out(a, sign, b):
    a, b = int(a), int(b)
    return a + b if sign == "+" else a - b if sign == "-" else a * b


task = json.loads(os.environ["FLOW_TASK"])
messages = [*SHOWN, {"role": "user", "content": f"What is {task['a']} {task['sign']} {task['b']}?"}]
right = str(work_out(task["a"], task["sign"], task["b"]))
used = 0
for turn in range(3):
    said = ask(messages)
    call = CALL.search(said)
    if call is None:
        break
    used += 1
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": str(work_out(*call.groups()))}]
print(json.dumps({"reward": float(said.strip() == right), "info": {"used": used}}))
