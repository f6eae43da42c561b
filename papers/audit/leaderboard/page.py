"""The page of the leaderboard: `README.md` and `results.json`, from the kept figures of each environment and seed alone."""

import json
import pathlib
import statistics

import measure

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = ("right", "rank", "sign_regret", "choice_regret", "credited", "shuffled_right", "shuffled_rank", "microseconds")
FEW = 10  # signs of a seed, below which their share isn't printed
SEEING = ("step", "rtmc", "gagpo", "cast")


def headers(file):
    """What an estimator's file says of itself: its comments `# key: value`, and `about`."""
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines() if line.startswith(("# ", "about:"))]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def gather(home, worlds, seeds, files):
    """Per environment the facts of each audited seed, and each estimator's figures there, by seed."""
    found = {}
    for world, settings in worlds.items():
        here = {file.stem: headers(file).get("rows", "rows") for file in files if file.stem not in settings.get("without", [])}
        found[world] = {"facts": {}, "figures": {name: {} for name in here}}
        for seed in seeds:
            folder = home / f"{world}-{seed}"
            told = {rows: folder / ("audit.json" if rows == "rows" else f"audit-{rows}.json") for rows in ("rows", *here.values())}
            audits = {rows: measure.Audit(json.loads(path.read_text())) for rows, path in told.items() if path.exists()}
            if "rows" not in audits:
                continue
            found[world]["facts"][seed] = audits["rows"].facts | {"refused": audits["rows"].refused}
            for name, rows in here.items():
                path = folder / "credits" / f"{name}.json"
                if path.exists() and rows in audits:
                    found[world]["figures"][name][seed] = audits[rows].figures(json.loads(path.read_text()))
        # A file that nothing was replayed for yet has no row, and a seed whose first file isn't done has no part.
        found[world]["figures"] = {name: figures for name, figures in found[world]["figures"].items() if figures}
        found[world]["facts"] = {seed: facts for seed, facts in found[world]["facts"].items() if seed in found[world]["figures"].get("grpo", {})}
    return {world: made for world, made in found.items() if made["facts"]}


def over(values):
    values = [value for value in values if value is not None]
    return measure.interval(values) if values else None


def compare(found, less):
    """Differences in rank correlation, paired by seed, with their p, and Holm's over all of them."""
    made = {}
    for world, here in found.items():
        for name, figures in here["figures"].items():
            differences = less(here["figures"], name, figures)
            if len(differences) > 1:
                made[world, name] = measure.interval(differences)
    adjusted = measure.holm({key: made[key]["p"] for key in made})
    nested = {world: {} for world in found}
    for (world, name), value in made.items():
        nested[world][name] = value | {"adjusted": adjusted[world, name]}
    return nested


def results(found, files):
    # Rows of their own have other turns, so there are no pairs.
    own = {"grpo"} | {file.stem for file in files if "rows" in headers(file)}
    pairs = lambda figures, other: [figures[seed]["rank"] - other[seed]["rank"] for seed in figures if seed in other]
    mean = {}
    for file in files:
        each = [here["figures"][file.stem] for here in found.values() if file.stem in here["figures"]]
        common = [seed for seed in (each[0] if each else []) if all(seed in figures for figures in each)]
        if common:
            values = [statistics.fmean(figures[seed]["rank"] for figures in each) for seed in common]
            mean[file.stem] = measure.interval(values) | {"environments": len(each)}
    return {
        "seeds": {world: list(here["facts"]) for world, here in found.items()},
        "facts": {
            world: {key: over([facts[key] for facts in here["facts"].values()]) for key in next(iter(here["facts"].values()))} for world, here in found.items()
        },
        "figures": {
            world: {name: {key: over([seed[key] for seed in figures.values()]) for key in FIGURES} for name, figures in here["figures"].items()}
            for world, here in found.items()
        },
        "mean_rank": mean,
        "less_grpo": compare(found, lambda all, name, figures: [] if name in own else pairs(figures, all["grpo"])),
        "less_shuffled": compare(found, lambda all, name, figures: [seed["rank"] - seed["shuffled_rank"] for seed in figures.values()]),
    }


def cell(value, scale=1.0, digits=2, note="", most=None):
    if value is None:
        return "-"
    # A share's interval is cut where no share can be.
    number = lambda key: f"{scale * value[key] if most is None else max(0.0, min(scale * value[key], most)):.{digits}f}"
    return number("mean") + (f" ({number('low')} to {number('high')})" if "low" in value else "") + note


def table(first, columns, rows, side=" ---: |"):
    lines = ["| " + " | ".join([first, *columns]) + " |", "| --- |" + side * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def pick(made, world, name, figure):
    """An estimator's figure, if it has one there. A share of fewer than `FEW` signs is none."""
    seen = made["figures"][world].get(name)
    signs = figure in ("right", "shuffled_right")
    few = seen and signs and seen["credited"]["mean"] * made["facts"][world]["decided"]["mean"] < FEW
    return None if few or not seen else seen[figure]


def estimators(made, names, order, scale, digits, figure):
    worlds = list(made["figures"])
    most = 100 if figure == "right" else None
    rows = [[names[name], *(cell(pick(made, world, name, figure), scale, digits, most=most) for world in worlds)] for name in order]
    return table("", [names[world] for world in worlds], rows)


def means(made, names, order, scale, digits, figure):
    """A table without intervals."""
    worlds = list(made["figures"])
    number = lambda value: "-" if value is None else f"{scale * value['mean']:.{digits}f}"
    rows = [[names[name], *(number(pick(made, world, name, figure)) for world in worlds)] for name in order]
    return table("", [names[world] for world in worlds], rows)


def shuffled(made, names, order):
    """The least and the greatest mean over the environments, of credits shuffled among the turns."""
    def spread(name, figure, scale, digits):
        seen = [value["mean"] for world in made["figures"] if (value := pick(made, world, name, figure))]
        return f"{scale * min(seen):.{digits}f} to {scale * max(seen):.{digits}f}" if seen else "-"

    rows = [[names[name], spread(name, "shuffled_rank", 1, 2), spread(name, "shuffled_right", 100, 0)] for name in order]
    return table("", ["rank correlation", "right sign, %"], rows)


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
        few = f", {mean['environments']} of {len(worlds)}" if mean["environments"] < len(worlds) else ""
        rows.append([row[0], cell(mean, 1, 2, few), *row[1:]])
    ceiling = [cell(made["facts"][world]["ceiling"]) for world in worlds]
    return table("", ["mean of environments", *(names[world] for world in worlds)], [*rows, ["*ceiling*", "-", *ceiling]])


def choices(made, names, order):
    worlds = list(made["figures"])
    text = estimators(made, names, order, 1, 3, "choice_regret")
    for label, key in (("*a random pick of the logged answers*", "random"), ("*the best of the logged answers*", "best")):
        text += "| " + " | ".join([label, *(cell(made["facts"][world][key], 1, 3) for world in worlds)]) + " |\n"
    return text


def verdicts(made, names, order):
    """What is shown, by the rules that were declared: made from the comparisons."""
    worlds = list(made["figures"])

    def shown(family, name, way):
        seen = {world: made[family][world].get(name) for world in worlds}
        return [world for world in worlds if seen[world] and seen[world]["adjusted"] <= 0.05 and way * seen[world]["mean"] > 0]

    def listed(of, family=""):
        size = lambda world, name: f" {made[family][world][name]['mean']:+.2f}" if family else ""
        parts = [f"{names[name]} ({', '.join(names[world] + size(world, name) for world in where)})" for name in order if (where := of(name))]
        return "; ".join(parts) or "none"

    def unshown(name):
        return [world for world in worlds if name in made["figures"][world] and world not in shown("less_shuffled", name, 1)]

    def behind(name):
        mean = lambda world, name: made["figures"][world][name]["rank"]["mean"]
        return [world for world in worlds if name in SEEING and name in made["figures"][world] and mean(world, "grpo") > mean(world, name)]

    against = listed(behind)
    whole = [name for name in order if made["mean_rank"][name]["environments"] == len(worlds)]
    mean = lambda name: f"{names[name]} {cell(made['mean_rank'][name])}"
    return "\n".join([
        f"- **First by the mean of all environments**: {'; '.join(mean(name) for name in whole[:3])}. {mean('grpo')}.",
        f"- **Ranks above GRPO's, shown**: {listed(lambda name: shown('less_grpo', name, 1), 'less_grpo')}.",
        f"- **Ranks below GRPO's, shown**: {listed(lambda name: shown('less_grpo', name, -1), 'less_grpo')}.",
        f"- **Not shown to rank better than their own credits shuffled**: {listed(unshown)}.",
        f"- **Each credit that sees the state ranks above GRPO's everywhere**: {'not refuted' if against == 'none' else 'refuted. Below GRPO on average are ' + against}.",
    ]) + "\n"


def text(made, files):
    """The page, from `results.json` and what the files say of themselves."""
    told = json.loads((HERE / "worlds.json").read_text())
    about = {file.stem: headers(file) for file in files if file.stem in made["mean_rank"]}
    names = {name: said["name"] for name, said in about.items()} | {world: told[world]["name"] for world in told}
    worlds = list(made["figures"])
    # A mean over fewer environments is another mean: such rows come last.
    order = sorted(about, key=lambda name: (made["mean_rank"][name]["environments"] < len(worlds), -made["mean_rank"][name]["mean"]))
    count = sorted({len(made["seeds"][world]) for world in worlds})
    counted = lambda seen: str(round(seen["mean"] * seen["seeds"]))
    facts = [
        [f"{names[world]}: {told[world]['about']}", str(len(made["seeds"][world])), cell(seen["success"], 100, 0), cell(seen["turns"], 1, 0), cell(seen["decided"], 1, 0),
         cell(seen["positive"], 100, 0), cell(seen["choices"], 1, 0), cell(seen["seconds"], 1000, 0), counted(seen["refused"])]
        for world, seen in made["facts"].items()
    ]
    parts = {
        "SEEDS": " to ".join(map(str, dict.fromkeys([count[0], count[-1]]))),
        "RANK": ranks(made, names, order),
        "RIGHT": estimators(made, names, order, 100, 0, "right"),
        "CREDITED": means(made, names, order, 100, 0, "credited"),
        "SIGN_REGRET": estimators(made, names, order, 100, 0, "sign_regret"),
        "CHOICE_REGRET": choices(made, names, order),
        "SHUFFLED": shuffled(made, names, order),
        "COST": means(made, names, order, 1, 1, "microseconds"),
        "FACTS": table("environment", ["seeds", "won, %", "audited turns", "that made a difference", "of these worth more, %", "choices", "audit, ms a turn", "refused"], facts),
        "FORMULAS": table("credit", ["formula", "source", "read"], [[f"[{names[name]}](estimators/{name}.yaml)", about[name]["about"], about[name]["source"], about[name]["read"]] for name in order], " --- |"),
        "LEFT": "".join(f"Not replayed yet: {headers(file)['name']}. " for file in files if file.stem not in about),
        "FOUND": verdicts(made, names, order),
    }
    page = (HERE / "page.md").read_text()
    for key, value in parts.items():
        page = page.replace("{" + key + "}", value)
    return page


def short(value):
    """Numbers to seven digits: a CPU of another type may differ in later ones."""
    if isinstance(value, dict):
        return {str(key): short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [short(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def write(home, worlds, seeds, files, out):
    told = json.loads((HERE / "worlds.json").read_text())
    found = gather(home, {world: told[world] for world in worlds}, seeds, files)
    if not found:
        return print("no environment has a complete seed yet")
    made = short(results(found, files))
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(made, indent=1) + "\n")
    (out / "README.md").write_text(text(made, files))
    print(f"{out / 'README.md'} is written: {', '.join(f'{world} {len(here)} seeds' for world, here in made['seeds'].items())}")
