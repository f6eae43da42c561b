"""The page of memory.py: what memories and notes are worth, from its results and its plan."""

import statistics

# Student's t for 95% and two degrees of freedom.
T = 4.303
WAYS = [("without", "an entry"), ("another", "its content"), ("emptied", "the whole memory")]


def shown(worth, digits=2):
    if worth is None:
        return "nothing to compare"
    return f"{worth['value']:+.{digits}f} ({worth['low']:+.{digits}f} to {worth['high']:+.{digits}f})"


def counted(worth):
    return f"{worth['helped']} / {worth['harmed']} of {worth['episodes']}" if worth["episodes"] else "-"


def over_seeds(worths):
    """The mean over three seeds, with its interval by Student's t."""
    values = [worth["value"] for worth in worths]
    mean, half = statistics.mean(values), T * statistics.stdev(values) / len(values) ** 0.5
    return {"value": mean, "low": mean - half, "high": mean + half}


def verdict(audits, way):
    """Of one method: in how many seeds the interval is above 0 and below, and on which side that of their mean is."""
    worths = [worth for worth in (audit["worth"][way]["worth"] for audit in audits) if worth is not None]
    if not worths:
        return "-"
    text = f"{sum(worth['low'] > 0 for worth in worths)} / {sum(worth['high'] < 0 for worth in worths)} of {len(worths)}"
    if len(worths) < 3:
        return text
    mean = over_seeds(worths)
    return text + (", mean above" if mean["low"] > 0 else ", mean below" if mean["high"] < 0 else ", mean not shown to differ")


def declaration(plan):
    rows = []
    for method, short in plan.METHODS.items():
        start = short.get("start")
        warm = f"{start['iterations']} iterations" + "".join(f", `{one}`" for one in start["set"]) if start else "none"
        settings = ", ".join(f"`{one}`" for one in short["set"])
        rows.append(f"| [{method}](../../{short['pipeline']}) | {short['entry']} | {warm} | {short['iterations']} iterations, {settings} |")
    return "\n".join(
        [
            "| method | an entry is | warm start | run |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            "Question: do the contents of an agent's memory, or of its notes, raise the return of the episode that reads them?",
            "",
            f"`flow audit --memory` draws {plan.EPISODES} episodes of a run whose first prompt held entries or notes. It plays each",
            f"{plan.PLAYS} times in each way: the logged memory, without one entry, with another text in its place, and with nothing.",
            "For notes in a loop there is no single entry to leave out.",
            "",
            f"Seeds: {', '.join(map(str, plan.SEEDS))}, the third only if time allows. A seed has its own training run. All seeds of a",
            "method begin with the same warm start; without a warm start each seed has its own initial weights.",
            "",
            "\"The content helps\" is refuted for a seed if the interval of its content contains 0. The control is the text of",
            "another task, under the same key. All seeds count, and no comparison is chosen afterwards.",
        ]
    )


def page(results, plan):
    """The page with these results, and with the declaration of the plan."""
    out = ["# What is an entry of a memory worth?", "", "Made by `python3 papers/audit/memory.py` from [memory.json](memory.json).", ""]
    audited = {}
    for one in results:
        if "audit" in one:
            audited.setdefault(one["method"], []).append(one)
    out += ["## Return gained from a memory", ""]
    if not audited:
        out += ["Not measured yet: this page is the declaration, written before the runs.", ""]
    else:
        out += [
            "Return lost when a part of the memory is taken away, so a positive number is a gain from that part. Brackets:",
            "95% intervals, by a bootstrap over tasks for a seed, by Student's t over three seeds for a mean. Intervals aren't",
            "adjusted for the number of comparisons.",
            "",
            "| method | seed | episodes | tasks | " + " | ".join(name for _, name in WAYS) + " |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for method in plan.METHODS:
            ones = audited.get(method, [])
            for one in ones:
                audit = one["audit"]
                cells = [shown(audit["worth"][way]["worth"]) for way, _ in WAYS]
                out.append(f"| {method} | {one['seed']} | {audit['episodes']} | {one['restored']['tasks']} | " + " | ".join(cells) + " |")
            if len(ones) == 3:
                each = {way: [one["audit"]["worth"][way]["worth"] for one in ones] for way, _ in WAYS}
                cells = [shown(over_seeds(worths)) if all(worths) else "-" for worths in each.values()]
                out.append(f"| {method} | mean | {sum(one['audit']['episodes'] for one in ones)} | | " + " | ".join(cells) + " |")
        out += ["", "\"Nothing to compare\": notes in a loop have no single entry.", ""]
        out += [
            "## Verdicts",
            "",
            "Seeds whose interval is above 0 / below 0, and the interval of the mean.",
            "",
            "| method | " + " | ".join(name for _, name in WAYS) + " |",
            "| --- | ---: | ---: | ---: |",
        ]
        for method, ones in audited.items():
            out.append(f"| {method} | " + " | ".join(verdict([one["audit"] for one in ones], way) for way, _ in WAYS) + " |")
        content = [one["audit"]["worth"]["another"]["worth"] for ones in audited.values() for one in ones]
        content = [worth for worth in content if worth is not None]
        above, below = sum(worth["low"] > 0 for worth in content), sum(worth["high"] < 0 for worth in content)
        out += [
            "",
            f"Of all {len(content)} intervals of the content {above} are above 0 and {below} below it. If no content had an effect,",
            f"{0.025 * len(content):.1f} each way would be expected by chance, and some more because intervals are too narrow with few",
            "tasks. An interval that contains 0 doesn't prove that there is no effect.",
        ]
        out += ["", "## Single episodes", ""]
        out += [
            "Episodes with a significant gain / with a significant loss, at the level of 5%. By chance 2.5% of the episodes each way",
            "are expected, and [more where few plays end otherwise than the rest](../../docs/audit.md#what-it-cant-do).",
            "",
            "| method | seed | " + " | ".join(name for _, name in WAYS) + " | by chance |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for method, ones in audited.items():
            for one in ones:
                worth = one["audit"]["worth"]
                cells = [counted(worth[way]) for way, _ in WAYS]
                chance = 0.025 * one["audit"]["episodes"]
                out.append(f"| {method} | {one['seed']} | " + " | ".join(cells) + f" | {chance:.1f} / {chance:.1f} |")
        out += [
            "",
            "## Is the memory restored?",
            "",
            "Mean return of the audited episodes, as logged and played again with the logged memory. In brackets: the standard",
            "error of the difference, over episodes. This check was added after the runs.",
            "",
            "| method | seed | logged | played again | difference |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for method, ones in audited.items():
            for one in ones:
                again = one["restored"]
                less = f"{again['played'] - again['logged']:+.2f} ({again['error']:.2f})"
                out.append(f"| {method} | {one['seed']} | {again['logged']:.2f} | {again['played']:.2f} | {less} |")
        out.append("")
    left = [f"- {one['method']}, seed {one['seed']}: `{' '.join(one['failed'].split())}`" for one in results if "failed" in one]
    left += [
        f"- {one['method']}, seed {one['seed']}: {count} episodes were not restored: {why}"
        for one in results
        for why, count in one.get("audit", {}).get("refused", {}).items()
    ]
    done = {(one["method"], one["seed"]) for one in results}
    late = [f"{method}, seed {seed}" for seed in plan.SEEDS for method in plan.METHODS if (method, seed) not in done] if results else []
    if left or late:
        out += ["## Left out", "", *left, *([f"- Not run, for want of time: {'; '.join(late)}."] if late else []), ""]
    out += ["## Declaration", "", declaration(plan), ""]
    out += [
        "## What it doesn't measure",
        "",
        "- What an entry is worth to later training: weights are those of the iteration that played the episode.",
        "- Success alone: the return is the environment's own reward, in which opened cells count beside the 10 of a win.",
        "- Entries that only later turns retrieve. An episode is drawn by its first prompt.",
        "- Policies at the papers' scale: these have 0.1 to 0.6 million weights.",
        "- Runs of the papers' length, and starts trained to the end: the declaration says how both were shortened.",
        "- Other warm starts. Intervals of a seed cover its tasks alone.",
        "- Tasks beyond those in the table. A bootstrap's intervals are too narrow with sixteen tasks, and more so with fewer.",
        "- The content alone, in SLEA-RL: a strategy may get the text of a warning, and a warning that of a strategy.",
        "",
        "```sh",
        "python3 papers/audit/memory.py",
        "```",
        "",
    ]
    if results:
        out += [f"It took {sum(one['seconds'] for one in results) / 60:.0f} minutes of one thread on a busy machine.", ""]
    return "\n".join(out)
