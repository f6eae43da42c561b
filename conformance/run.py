#!/usr/bin/env python3
"""Holds a library against the cases, and writes the table of README.md.

Usage: python3 conformance/run.py --library flow|verl|trl|openrlhf|skyrl|prime-rl [--program FLOW] [--losses FILE]
       python3 conformance/run.py --table | --check

Results go to conformance/results. `--losses` has the results of crates/policy/src/tests/conformance.rs, which writes them to the
file in FLOW_CONFORMANCE. `--check` fails where results or table are out of date.
"""

import argparse
import hashlib
import importlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("losses", "credit", "divergences")
PEERS = {
    "verl": "verl_library",
    "trl": "trl_library",
    "openrlhf": "openrlhf_library",
    "skyrl": "skyrl_library",
    "prime-rl": "prime_rl_library",
}
LIBRARIES = ["flow", *PEERS]
BEGIN, END = "<!-- table: run.py --table -->", "<!-- end -->"
HEADS = {"losses": "Losses", "credit": "Advantages", "divergences": "Divergences from a teacher"}


def cases():
    return {kind: json.loads((HERE / "cases" / f"{kind}.json").read_text()) for kind in KINDS}


def made_from():
    """What results depend on: the cases."""
    digest = hashlib.sha256()
    for kind in KINDS:
        digest.update((HERE / "cases" / f"{kind}.json").read_bytes())
    return digest.hexdigest()[:16]


def rounded(result):
    """Differences by rounding vary between machines: they are 0 here."""
    if "difference" in result:
        worst = result["difference"]
        finite = worst == worst and abs(worst) != float("inf")
        result = {**result, "difference": (0.0 if worst < 1e-6 else float(f"{worst:.1e}")) if finite else None}
    return result


def flow(options):
    from flow_program import hold

    found = {f"credit/{name}": result for name, result in hold(cases(), options.program).items()}
    if options.losses:
        for name, worst in json.loads(pathlib.Path(options.losses).read_text()).items():
            found[name] = {"result": "equal" if worst <= 1e-5 else "differs", "difference": worst}
    return "flow", found


def peer(library):
    from common import split

    module = importlib.import_module(PEERS[library])
    found = {f"{kind}/{case['name']}": module.HOLD[kind](case) for kind in KINDS for case in cases()[kind]}
    for case in cases()["losses"]:
        had = found[f"losses/{case['name']}"]["result"] != "not had" and not case["settings"].get("aggregation", "").startswith(
            "trajectory"
        )
        if had and hasattr(module, "micro"):
            result = split(case, module.micro)
            found.update({f"splits/{case['name']}": result} if result else {})
    return module.NAME, found


def hold(options):
    name, found = flow(options) if options.library == "flow" else peer(options.library)
    path = HERE / "results" / f"{options.library}.json"
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(rounded(result))}" for case, result in found.items())
    path.write_text(f'{{"library": {json.dumps(name)}, "cases": "{made_from()}", "results": {{\n{lines}\n}}}}\n')
    counts = {}
    for result in found.values():
        counts[result["result"]] = counts.get(result["result"], 0) + 1
    print(f"{name}: " + ", ".join(f"{count} {result}" for result, count in counts.items()))
    for case, result in found.items():
        if result["result"] == "differs":
            print(f"  {case}: {result.get('difference')} {result.get('note', '')}")


def results():
    found = {}
    for library in LIBRARIES:
        path = HERE / "results" / f"{library}.json"
        if path.exists():
            found[library] = json.loads(path.read_text())
    return found


RANK = ["not had", "equal", "convention", "differs"]


def table():
    """The table, a method a row, and the notes below it."""
    held, notes, text = results(), [], []
    for kind in KINDS:
        methods = {}
        for case in cases()[kind]:
            methods.setdefault(case["method"], []).append(f"{kind}/{case['name']}")
        text += [
            f"### {HEADS[kind]}",
            "",
            "| method | cases | " + " | ".join(held[name]["library"] for name in held) + " |",
            "| --- " * (len(held) + 2) + "|",
        ]
        for method, names in methods.items():
            cells = []
            for library, one in held.items():
                some = [one["results"][name] for name in names if name in one["results"]]
                worst = max((RANK.index(result["result"]) for result in some), default=None)
                if worst is None:
                    cells.append("not run")
                    continue
                marks = []
                for result in some:
                    note = (one["library"].split(" ")[0], result.get("note"))
                    if result["result"] in ("convention", "differs") and note[1]:
                        notes.extend([note] if note not in notes else [])
                        marks.append(notes.index(note) + 1)
                mark = " " + ", ".join(f"[{m}]" for m in dict.fromkeys(marks)) if marks else ""
                lacks = [result for result in some if result["result"] == "not had"]
                part = f" ({len(some) - len(lacks)} of {len(some)})" if lacks and worst else ""
                cells.append(
                    {"not had": "-", "equal": "equal", "convention": "equal by", "differs": "**differs**"}[RANK[worst]] + mark + part
                )
            text.append(f"| {method} | {len(names)} | " + " | ".join(cells) + " |")
        text.append("")
    text += ["### The same step in two micro-batches", "", "| library | cases | that give something else |", "| --- | --- | --- |"]
    for one in held.values():
        some = {name.split("/")[1]: result for name, result in one["results"].items() if name.startswith("splits/")}
        other = [f"{name} (times {result['times']})" for name, result in some.items() if result["result"] == "differs"]
        text += [f"| {one['library']} | {len(some)} | {', '.join(other) or 'none'} |"] if some else []
    text += ["", "Notes:", ""] + [f"{i}. {library}: {note}." for i, (library, note) in enumerate(notes, 1)]
    return "\n".join(text) + "\n"


def page():
    """README.md with the table as it should be."""
    text = (HERE / "README.md").read_text()
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES)
    parser.add_argument("--program", help="flow's program; target/release/flow, else the one in PATH")
    parser.add_argument("--losses", help="results of flow's own test")
    parser.add_argument("--table", action="store_true", help="write the table of README.md")
    parser.add_argument("--check", action="store_true", help="fail where results or table are out of date")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE / "peers")]
    if options.library:
        hold(options)
    if options.table:
        (HERE / "README.md").write_text(page())
    if options.check:
        stale = [name for name, one in results().items() if one["cases"] != made_from()]
        if stale or page() != (HERE / "README.md").read_text():
            sys.exit(f"out of date: {', '.join(stale) or 'the table'}; run --library for these, then --table")


if __name__ == "__main__":
    main()
