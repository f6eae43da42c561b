"""The page of the leaderboard: `README.md` and `results.json`, from the kept figures of each environment and seed alone."""

import json
import pathlib
import statistics

import measure

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = ("right", "rank", "sign_regret", "choice_regret", "credited", "shuffled_right", "shuffled_rank", "microseconds")
SEEING = ("step", "rtmc", "gagpo", "cast")


def headers(file):
    """What an estimator's file says of itself: its comments `# key: value`, and `about`."""
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines() if line.startswith(("# ", "about:"))]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def gather(home, worlds, seeds, files):
    """Per environment the facts of each complete seed, and the figures of each estimator there."""
    found = {}
    rows = {file.stem: headers(file).get("rows", "rows") for file in files}
    for world, settings in worlds.items():
        here = [file.stem for file in files if file.stem not in settings.get("without", [])]
        found[world] = {"facts": [], "figures": {name: [] for name in here}}
        for seed in seeds:
            folder = home / f"{world}-{seed}"
            kept = [folder / "credits" / f"{name}.json" for name in here]
            if not all(path.exists() for path in kept):
                continue
            files_of = {kind: folder / ("audit.json" if kind == "rows" else f"audit-{kind}.json") for kind in set(rows.values())}
            audits = {kind: measure.Audit(json.loads(path.read_text())) for kind, path in files_of.items() if path.exists()}
            found[world]["facts"].append(audits["rows"].facts | {"seed": seed, "refused": audits["rows"].refused})
            for name, path in zip(here, kept):
                found[world]["figures"][name].append(audits[rows[name]].figures(json.loads(path.read_text())))
    return {world: made for world, made in found.items() if made["facts"]}


def over(values):
    values = [value for value in values if value is not None]
    return measure.interval(values) if values else None


def compare(found, less):
    """Paired differences in rank correlation with their p, and Holm's over all of them."""
    made = {}
    for world, here in found.items():
        for name, seeds in here["figures"].items():
            differences = less(here["figures"], name, seeds)
            if differences and len(differences) > 1:
                made[world, name] = measure.interval(differences)
    adjusted = measure.holm({key: made[key]["p"] for key in made})
    return {key: value | {"adjusted": adjusted[key]} for key, value in made.items()}


def results(found, files):
    intervals = {
        world: {name: {figure: over([seed[figure] for seed in seeds]) for figure in FIGURES} for name, seeds in here["figures"].items()}
        for world, here in found.items()
    }
    facts = {world: {key: over([seed[key] for seed in here["facts"]]) for key in here["facts"][0] if key != "seed"} for world, here in found.items()}
    # Rows of their own have other turns, so there are no pairs.
    own = {"grpo"} | {file.stem for file in files if "rows" in headers(file)}
    grpo = compare(found, lambda all, name, seeds: name not in own and [a["rank"] - b["rank"] for a, b in zip(seeds, all["grpo"])])
    control = compare(found, lambda all, name, seeds: [seed["rank"] - seed["shuffled_rank"] for seed in seeds])
    nested = lambda flat: {world: {name: flat[world, name] for where, name in flat if where == world} for world in found}
    mean = {}
    for file in files:
        here = [world for world in found if file.stem in intervals[world]]
        seeds = min((len(found[world]["facts"]) for world in here), default=0)
        each = [statistics.fmean(found[world]["figures"][file.stem][at]["rank"] for world in here) for at in range(seeds)]
        if each:
            mean[file.stem] = measure.interval(each) | {"environments": len(here)}
    seeds = {world: [seed["seed"] for seed in here["facts"]] for world, here in found.items()}
    return {"seeds": seeds, "facts": facts, "figures": intervals, "mean_rank": mean, "less_grpo": nested(grpo), "less_shuffled": nested(control)}


def cell(value, scale=1.0, digits=2, note=""):
    if value is None:
        return "-"
    number = lambda key: f"{scale * value[key]:.{digits}f}"
    return number("mean") + (f" ({number('low')} to {number('high')})" if "low" in value else "") + note


def table(first, columns, rows):
    lines = ["| " + " | ".join([first, *columns]) + " |", "| --- |" + " ---: |" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def estimators(made, names, order, scale, digits, figure):
    worlds = list(made["figures"])
    pick = lambda world, name: made["figures"][world].get(name, {}).get(figure)
    return table("", [names[world] for world in worlds], [[names[name], *(cell(pick(world, name), scale, digits) for world in worlds)] for name in order])


def ranks(made, names, order):
    worlds = list(made["figures"])
    rows = []
    for name in order:
        row = [names[name]]
        for world in worlds:
            verdict = made["less_grpo"][world].get(name)
            sure = verdict and verdict["adjusted"] <= 0.05
            mark = " " + ("▲" if verdict["mean"] > 0 else "▼") if sure else ""
            row.append(cell(made["figures"][world].get(name, {}).get("rank"), 1, 2, mark))
        mean = made["mean_rank"][name]
        few = f", {mean['environments']} environments" if mean["environments"] < len(worlds) else ""
        rows.append([row[0], cell(mean, 1, 2, few), *row[1:]])
    ceiling = [cell(made["facts"][world]["ceiling"]) for world in worlds]
    return table("", ["mean of environments", *(names[world] for world in worlds)], [*rows, ["*ceiling*", "-", *ceiling]])


def choices(made, names, order):
    worlds = list(made["figures"])
    text = estimators(made, names, order, 1, 3, "choice_regret")
    for label, key in (("*a random pick of the logged answers*", "random"), ("*the best of the logged answers*", "best")):
        text += "| " + " | ".join([label, *(cell(made["facts"][world][key], 1, 3) for world in worlds)]) + " |\n"
    return text


def sides(made, names, files):
    """What is shown, by the rules that were declared: made from the comparisons."""
    worlds = list(made["figures"])
    sure = lambda family, name, way: [world for world in worlds if (seen := made[family][world].get(name)) and seen["adjusted"] <= 0.05 and way * seen["mean"] > 0]
    lines = []
    for label, way in (("above", 1), ("below", -1)):
        parts = [f"{names[file.stem]} ({', '.join(names[world] for world in where)})" for file in files if (where := sure("less_grpo", file.stem, way))]
        lines.append(f"- **Ranks {label} GRPO's, shown**: {'; '.join(parts) if parts else 'none'}.")
    none = [f"{names[file.stem]} ({', '.join(names[world] for world in where)})" for file in files
            if (where := [world for world in worlds if file.stem in made["figures"][world] and world not in sure("less_shuffled", file.stem, 1)])]
    lines.append(f"- **Not shown to rank better than their own credits shuffled**: {'; '.join(none) if none else 'none'}.")
    against = [f"{names[name]} in {names[world]}" for world in worlds for name in SEEING if name in made["figures"][world]
               and made["figures"][world]["grpo"]["rank"]["mean"] > made["figures"][world][name]["rank"]["mean"]]
    verdict = f"refuted; GRPO's mean is above {', '.join(against)}" if against else "not refuted"
    lines.append(f"- **Credits that see the state rank above GRPO's everywhere**: {verdict}.")
    return "\n".join(lines) + "\n"


def write(home, worlds, seeds, files, out):
    told = json.loads((HERE / "worlds.json").read_text())
    found = gather(home, {world: told[world] for world in worlds}, seeds, files)
    if not found:
        return print("no environment has a complete seed yet")
    made = results(found, files)
    about = {file.stem: headers(file) for file in files}
    names = {name: said["name"] for name, said in about.items()} | {world: told[world]["name"] for world in told}
    order = sorted(made["mean_rank"], key=lambda name: -made["mean_rank"][name]["mean"])
    count = sorted({len(made["seeds"][world]) for world in found})
    facts = [
        [f"{names[world]}: {told[world]['about']}", str(len(made["seeds"][world])), cell(seen["success"], 100, 0), cell(seen["turns"], 1, 0), cell(seen["decided"], 1, 0),
         cell(seen["positive"], 100, 0), cell(seen["choices"], 1, 0), cell(seen["seconds"], 1000, 0), str(round(seen["refused"]["mean"] * seen["refused"]["seeds"]))]
        for world, seen in made["facts"].items()
    ]
    parts = {
        "SEEDS": " to ".join(map(str, dict.fromkeys([count[0], count[-1]]))),
        "RANK": ranks(made, names, order),
        "RIGHT": estimators(made, names, order, 100, 0, "right"),
        "CREDITED": estimators(made, names, order, 100, 0, "credited"),
        "SIGN_REGRET": estimators(made, names, order, 100, 0, "sign_regret"),
        "CHOICE_REGRET": choices(made, names, order),
        "SHUFFLED_RANK": estimators(made, names, order, 1, 2, "shuffled_rank"),
        "SHUFFLED_RIGHT": estimators(made, names, order, 100, 0, "shuffled_right"),
        "COST": estimators(made, names, order, 1, 1, "microseconds"),
        "FACTS": table("environment", ["seeds", "won, %", "audited turns", "that made a difference", "of these worth more, %", "choices", "audit, ms a turn", "refused"], facts),
        "FORMULAS": table("credit", ["formula", "source", "read"], [[f"[{names[name]}](estimators/{name}.yaml)", about[name]["about"], about[name]["source"], about[name]["read"]] for name in order]),
        "FOUND": sides(made, names, [file for file in files if file.stem in made["mean_rank"]]),
    }
    text = (HERE / "page.md").read_text()
    for key, value in parts.items():
        text = text.replace("{" + key + "}", value)
    (out / "README.md").write_text(text)
    (out / "results.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    print(f"{out / 'README.md'} is written: {', '.join(f'{world} {len(here)} seeds' for world, here in made['seeds'].items())}")
