"""mini-swe-agent with its one tool, a shell. Its client is LiteLLM: chat completions."""

import json
import logging
import os

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no list of prices is fetched
os.environ.setdefault("MSWEA_GLOBAL_CONFIG_DIR", os.environ["FLOW_FOLDER"])

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402
from minisweagent.models.litellm_model import LitellmModel  # noqa: E402

logging.disable(logging.WARNING)
task = json.loads(os.environ["FLOW_TASK"])
agent = DefaultAgent(
    LitellmModel(model_name="openai/policy", cost_tracking="ignore_errors"),
    LocalEnvironment(cwd=os.environ["FLOW_FOLDER"]),
    system_template="Use the shell. When done, print COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT and then the answer on a line of its own.",
    instance_template="{{task}}",
    step_limit=6,
)
result = agent.run(f"What is {task['a']} + {task['b']}?")
print(json.dumps({"reward": float(str(result.get("submission", "")).strip() == str(task["a"] + task["b"]))}))
