"""LangGraph's agent with tools, over LangChain's OpenAI client: chat completions."""

import json
import os
import warnings

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

warnings.simplefilter("ignore")
from langgraph.prebuilt import create_react_agent  # noqa: E402

task = json.loads(os.environ["FLOW_TASK"])


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


agent = create_react_agent(ChatOpenAI(model="policy"), [add], prompt="Use the tool. Then answer with the sum alone.")
state = agent.invoke({"messages": [("user", f"What is {task['a']} + {task['b']}?")]}, {"recursion_limit": 8})
print(json.dumps({"reward": float(state["messages"][-1].content.strip() == str(task["a"] + task["b"]))}))
