"""flow's credit: the cases' rows through its own operators, by `flow test`, which feeds rows to nodes and shows other nodes' rows.
Where rewards are enough, also as another trainer's rollouts: `flow import`, `flow replay`, `flow query`.

Losses have no command of their own: crates/policy/src/tests/conformance.rs holds them.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = ("iteration", "task", "sample", "attempt", "turn", "phase")
PLAIN = {"baseline": "none", "scale": "none"}


def program(given=None):
    """The program: given, built here, or in PATH."""
    built = ROOT / "target" / "release" / "flow"
    found = given or (str(built) if built.exists() else shutil.which("flow"))
    if not found:
        raise SystemExit("flow isn't built: name it with --program")
    return found


def group(of, by, **more):
    return {"op": "group", "inputs": of, "with": {"by": by, **more}}


def advantage(rows, **settings):
    return {"op": "advantage", "inputs": rows, "with": settings}


def derive(of, **columns):
    return {"op": "derive", "inputs": of, "with": {"columns": columns}}


def simple(case, **settings):
    """One comparison within one group."""
    return {"group": group("rollout", case["group_by"]), "advantage": advantage("group", **{**settings, **case["settings"]})}


def gigpo(case):
    s = case["settings"]
    scale = {"scale": s["scale"]} if "scale" in s else {}
    return {
        "episodes": group("rollout", ["task"]),
        "episode": advantage("episodes", of="episode_return", unit=s.get("unit", "trajectory"), **scale),
        "states": group("rollout", ["task", "state"]),
        "step": advantage("states", of="step_return", gamma=s["gamma"], **scale),
        "advantage": {"op": "combine", "inputs": {"e": "episode", "s": "step"}, "with": {"weights": {"e": 1, "s": s.get("weight", 1.0)}}},
    }


def hgpo(case):
    s, nodes = case["settings"], {}
    for k in range(s["depth"]):
        more = {"history": k, "early_turns": "alone"} if k else {}
        nodes[f"group_{k}"] = group("rollout", ["task", "state"], **more)
        nodes[f"of_{k}"] = advantage(f"group_{k}", of="step_return", gamma=s["gamma"], ddof=0, singleton="drop", equal="drop")
    weights = {f"k{k}": (k + 1) ** s["alpha"] for k in range(s["depth"])}
    return {
        **nodes,
        "advantage": {
            "op": "combine",
            "inputs": {f"k{k}": f"of_{k}" for k in range(s["depth"])},
            "with": {"weights": weights, "over": "used"},
        },
    }


def baseline_pp(case):
    return {
        "group": group("rollout", ["task"]),
        "centred": advantage("group", of="episode_return", scale="none"),
        "batch": group("centred", []),
        "advantage": advantage("batch", of="advantage", preset="code"),
    }


def gdpo(case):
    """A reward a node: the cases' rows are fed twice."""
    nodes = {"first_group": group("rollout", ["task"]), "second_group": group("other", ["task"])}
    for name in ("first", "second"):
        nodes[name] = advantage(f"{name}_group", of="episode_return")
    return {
        **nodes,
        "sum": {"op": "combine", "inputs": {"a": "first", "b": "second"}, "with": {}},
        "batch": group("sum", []),
        "advantage": advantage("batch", of="advantage", preset="code"),
    }


def at2po(case):
    gamma = case["settings"].get("gamma", 1.0)
    ends = "filter (where done) over (partition by task)"
    return {
        "group": group("rollout", ["task"]),
        "tree": advantage("group", of="tree_return", gamma=gamma, **PLAIN),
        "advantage": derive("tree", advantage=f'("return" - avg(reward) {ends}) / (stddev_pop(reward) {ends} + 1e-6)'),
    }


def gagpo(case):
    s = case["settings"]
    return {
        "states": group("rollout", ["task", "state"]),
        "returns": advantage("states", of="step_return", gamma=s["gamma"], **PLAIN),
        "value": derive("returns", value='avg("return") over "group"'),
        "batch": group("value", []),
        "advantage": advantage("batch", of="gae", gamma=s["gamma"], **{"lambda": s["lam"]}, **PLAIN),
    }


def critic(case, of):
    s = case["settings"]
    how = {"unit": "token", "eps": 1e-8, "eps_in": "variance"} if s.get("white") else PLAIN
    return {"group": group("rollout", []), "advantage": advantage("group", of=of, gamma=s["gamma"], **{"lambda": s["lam"]}, **how)}


def running_mean(case):
    s = {k: v for k, v in case["settings"].items() if k != "each"}
    return (
        None
        if case["settings"]["each"] == "episode"
        else {
            "group": group("rollout", case["group_by"]),
            "advantage": advantage("group", of="episode_return", baseline="ema", scale="none", **s),
        }
    )


def penalised(case):
    s = case["settings"]
    how = {"gamma": s["gamma"], "invalid_penalty": s["penalty"], "penalty": s["when"], "scale": "none"}
    return {"group": group("rollout", case["group_by"]), "advantage": advantage("group", of="step_return", **how)}


def whitened(case):
    s = {"eps": 1e-8, "eps_in": "variance", **case["settings"]}
    return {"group": group("rollout", []), "advantage": advantage("group", of="token_return", unit="token", **s)}


def remax(case):
    returns = "sum(reward) over episode - sum(reward) filter (where other) over (partition by task)"
    return {"advantage": derive({"rows": "rollout", "other": "other"}, advantage=returns)}


def overlong(case):
    s = case["settings"]
    return {
        "advantage": {
            "op": "reward",
            "inputs": "rollout",
            "with": {"overlong": {"max": s["longest"], "buffer": s["buffer"], "weight": s.get("weight", 1.0)}},
        }
    }


NODES = {
    "grpo": simple,
    "dr_grpo": lambda case: simple(case, scale="none"),
    "rloo": lambda case: simple(case, baseline="leave_one_out", scale="none"),
    "maxrl": lambda case: simple(case, scale="mean"),
    "pass_at_k": lambda case: simple(case, baseline="second_best", scale="none"),
    "dapo": lambda case: simple(case, equal="drop"),
    "overlong": overlong,
    "reinforce_pp": whitened,
    "reinforce_pp_baseline": baseline_pp,
    "remax": remax,
    "running_mean": running_mean,
    "gigpo": gigpo,
    "grouped_step": lambda case: simple(case, of="step_return"),
    "hgpo": hgpo,
    "lamer": lambda case: simple(case, of="cross_episode_return"),
    "at2po": at2po,
    "gdpo": gdpo,
    "gagpo": gagpo,
    "ppo_turns": lambda case: critic(case, "gae"),
    "ppo_tokens": lambda case: critic(case, "token_gae"),
    "returns": lambda case: simple(case, **PLAIN),
    "penalised": penalised,
    "iql": lambda case: {
        "group": group("rollout", []),
        "advantage": advantage("group", of="iql", gamma=case["settings"]["gamma"], **PLAIN),
    },
}
# The case's results, and flow's columns for them.
COLUMNS = {
    "advantage": "advantage",
    "token_advantages": "token_advantages",
    "token_targets": "token_targets",
    "target": "value_target",
    "reward": "reward",
    "return": "return",
    "used": "used",
}
# Columns that a rollout hasn't, and the operators that make them. Their rows are fed, so nothing is computed.
MADE = {
    "value": {"op": "value", "inputs": "played", "with": {"model": "critic"}},
    "token_values": {"op": "value", "inputs": "played", "with": {"model": "critic", "per": "token"}},
    "token_rewards": {"op": "reward", "inputs": "played", "with": {"kl": 0.01, "kl_per": "token", "model": "actor"}},
}
TINY = {"new": "tiny", "layers": 1, "width": 8, "heads": 1, "kv_heads": 1}


def fed(case):
    """The rows of each node that is fed."""

    def row(r, **more):
        columns = {k: v for k, v in r.items() if k not in ("tokens", "greedy", "right", "short")}
        if "tokens" in r:
            columns["response_tokens"] = [7] * r["tokens"]
        if r.get("phase") == "reflect" or case["function"] == "lamer":
            columns.setdefault("attempt", 0)
        if any("truncated" in other for other in case["rows"]):
            columns.setdefault("truncated", "")
        if "token_values" in r:
            columns["value"] = r["token_values"][0]
        return {"state": 0, "action": "up", "valid": True, **columns, **more}

    rows = case["rows"]
    if case["function"] == "gdpo":
        first, second = case["settings"]["rewards"]
        return {"rollout": [row(r, reward=r[first]) for r in rows], "other": [row(r, reward=r[second]) for r in rows]}
    if case["function"] == "remax":
        return {"rollout": [row(r) for r in rows if not r.get("greedy")], "other": [row(r) for r in rows if r.get("greedy")]}
    return {"rollout": [row(r) for r in rows]}


def expected(case):
    """The rows that the node `advantage` should make."""
    found = []
    for i, r in enumerate(case["rows"]):
        if r.get("greedy"):
            continue
        columns = {COLUMNS[k]: case[k][i] for k in COLUMNS if k in case}
        if "used" in columns:
            columns["used"] = "yes" if columns["used"] else "dropped_equal_rewards"
        found.append({**{k: r[k] for k in NAMES if k in r}, **columns})
    return found


def write(case, folder):
    """A pipeline with the case as its test; none where flow has no such method."""
    nodes = NODES[case["function"]](case)
    if nodes is None:
        return None
    files = fed(case)
    for name, rows in [*files.items(), ("expected", expected(case))]:
        (folder / f"{case['name']}-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    test = {
        "name": case["name"],
        "tolerance": 1e-5,
        "feed": {name: f"{case['name']}-{name}.jsonl" for name in files},
        "expect": {"advantage": f"{case['name']}-expected.jsonl"},
    }
    # Nothing is played: the rows of the fed nodes take the place of rollouts.
    branch = {"branch": {"every": 4}} if "branch_of" in case["rows"][0] else {}
    played = {"op": "rollout", "inputs": {"tasks": "tasks"}, "with": {"agent": "player", "samples": 1, **branch}}
    sources = {"tasks": {"op": "tasks", "with": {"env": "sokoban", "size": 6, "batch": 1}}, **{name: played for name in files}}
    models = {"actor": TINY}
    for column, node in MADE.items():
        if column in case["rows"][0]:
            sources["played"], sources["rollout"] = played, node
            models |= {"critic": {**TINY, "head": "value"}} if node["op"] == "value" else {}
    pipeline = {
        "flow": case["name"],
        "iterations": 1,
        "models": models,
        "agents": {"player": {"model": "actor", "max_turns": 9}},
        "nodes": {**sources, **nodes},
        "log": ["advantage"],
        "tests": [test],
    }
    path = folder / f"{case['name']}.yaml"
    path.write_text(json.dumps(pipeline))
    return path


def difference(expected_value, got):
    """The largest difference of two values, lists with them."""
    if isinstance(expected_value, str) or got is None:
        return 0.0 if expected_value == got else float("inf")
    pairs = zip(expected_value, got, strict=True) if isinstance(expected_value, list) else [(expected_value, got)]
    return max((abs(a - b) for a, b in pairs), default=0.0)


# Methods that read nothing but rewards: their cases also go the way of another trainer's rollouts.
BY_REWARDS = {"grpo", "dr_grpo", "rloo", "maxrl", "pass_at_k", "dapo", "returns"}


def imported(case, flow, folder):
    """The largest difference by `flow import`, `flow replay` and `flow query`; 0 for a case that needs other columns than rewards."""
    if case["function"] not in BY_REWARDS or any(row["turn"] for row in case["rows"]):
        return 0.0
    name, nodes = folder / case["name"], NODES[case["function"]](case)
    talk = lambda row: [{"role": "user", "content": row["task"]}, {"role": "assistant", "content": "x"}]
    name.with_suffix(".rows.jsonl").write_text(
        "".join(json.dumps({"messages": talk(row), "reward": row["reward"]}) + "\n" for row in case["rows"])
    )
    rollout = {"op": "import", "with": {"from": "messages", "files": []}}
    name.with_suffix(".replay.yaml").write_text(
        json.dumps({"flow": case["name"], "iterations": 1, "nodes": {"rollout": rollout, **nodes}, "log": ["advantage"]})
    )

    def run(*command):
        done = subprocess.run([flow, *map(str, command)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise SystemExit(f"{case['name']}: {done.stderr}")
        return done.stdout

    run("import", name.with_suffix(".rows.jsonl"), "--out", f"{name}-run")
    run("replay", f"{name}-run", "--with", name.with_suffix(".replay.yaml"), "--out", f"{name}-again")
    sql = "select r.observation as task, a.sample, a.advantage from advantage a join rollout r using (task, sample, attempt, turn)"
    got = {(row["task"], row["sample"]): row["advantage"] for row in json.loads(run("query", f"{name}-again", sql, "--format", "json"))}
    return max(difference(advantage, got[row["task"], row["sample"]]) for row, advantage in zip(case["rows"], case["advantage"]))


def hold(cases, given=None):
    """The result of each credit case: a map from its name to the largest difference, None, or an error's text."""
    flow, results = program(given), {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases["credit"]:
            path = write(case, pathlib.Path(folder))
            if path is None:
                results[case["name"]] = {"result": "not had", "note": "flow moves the running mean once an iteration"}
                continue
            done = subprocess.run(
                [flow, "test", "--format", "json", path], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            lines = map(json.loads, done.stdout.splitlines())
            got = {tuple(line["row"].get(k) for k in NAMES): line["got"] or {} for line in lines if "row" in line}
            if not got:
                raise SystemExit(f"{case['name']}: {done.stderr or done.stdout}")
            worst = 0.0
            for row in expected(case):
                name = tuple(row.get(k, "play" if k == "phase" else 0) for k in NAMES)
                worst = max(worst, *(difference(v, got[name].get(k)) for k, v in row.items() if k not in NAMES))
            worst = max(worst, imported(case, flow, pathlib.Path(folder)))
            results[case["name"]] = {"result": "equal" if worst < 2e-5 else "differs", "difference": worst}
    return results
