"""Holds flow's WebShop against the published code and against Lucene, and writes what they said to tests/golden/webshop.

2,000 purchases are judged by `get_reward` of github.com/princeton-nlp/WebShop with thefuzz 0.19.0; in place of spaCy's tagger, whose
model is a download of its own, stands the catalogue's list of nouns. 200 searches are ranked by the Lucene that pyserini 0.17.0 brings
along (Anserini 0.14.3; Java 17 or newer is needed), in the configuration of WebShop's search engine.

Usage: python3 scripts/parity_webshop.py [--webshop CHECKOUT]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-webshop"
REPOSITORY, COMMIT = "https://github.com/princeton-nlp/WebShop", "64fa2a5c15c7daa698b9ac93f5bb5437b634c9bd"
GOLDEN = ROOT / "tests" / "golden" / "webshop"
sys.path.insert(0, str(ROOT / "python"))
from flow_env.games import seeds
from flow_env.games.webshop.catalogue import tokens
from flow_env.games.webshop.goal import sample_where
from flow_env.games.webshop.reward import reward
from flow_env.games.webshop.shop import shop

# pyserini is wanted for its jar alone, so without what it depends on.
PACKAGES = ["thefuzz==0.19.0", "pyserini==0.17.0"]


def inside_the_venv():
    """Goes on in the environment of the comparison, made on first use."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    done = VENV / "installed"
    if not done.exists() or done.read_text() != "\n".join(PACKAGES):
        print("parity: installing " + " and ".join(PACKAGES) + " into " + VENV.name, flush=True)
        venv.create(VENV, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *PACKAGES], check=True)
        done.write_text("\n".join(PACKAGES))
    os.execv(python, [str(python), "-W", "ignore", __file__, *sys.argv[1:]])


def goal(shop, seed):
    """A goal outside of panels, as goals were dealt when the first of these were recorded: by products."""
    return sample_where(seed, lambda product: seeds.Deal(None).owns(seeds.text(product.asin)), shop.products)


def purchase(shop, seed):
    """Somebody buys something: what was wanted, something that was found, or anything; with options chosen well or by chance."""
    wanted, random = goal(shop, seed), seeds.Random(seed ^ 0x5EED)
    results = shop.search(wanted.instruction)
    kind = random.below(4)
    product = wanted.product if kind == 0 else random.below(len(shop.products)) if kind == 1 else results[random.below(min(len(results), 20))]
    options = []
    for name, values in shop.products[product].options:
        requested = next((pair for pair in wanted.options if pair[0] == name and pair[1] in values), None)
        chance = random.below(5)
        if chance in (1, 2) and requested:
            options.append(requested)
        elif chance:
            options.append((name, values[random.below(len(values))]))
    earned = reward(shop.products[product], options, wanted, shop.products[wanted.product])
    return {
        "seed": seed, "wanted": wanted.product, "goal_options": wanted.options, "price_upper": wanted.price_upper,
        "product": product, "options": options, "reward": earned.total, "r_type": earned.kind,
    }


def search(shop, seed):
    """Instructions, what baselines search for, and words at random."""
    wanted, random = goal(shop, seed), seeds.Random(seed ^ 0xFEED)
    product = shop.products[wanted.product]
    if seed % 4 < 2:
        query = wanted.instruction.lower()
    elif seed % 4 == 2:
        query = f"{product.instruction_attributes[random.below(len(product.instruction_attributes))]} {product.query}"
    else:
        texts = [shop.products[random.below(len(shop.products))].searchable() for _ in range(3)]
        words = [word for text in texts for word in text.split(" ")]
        query = " ".join(words[random.below(len(words))] for _ in range(1 + random.below(6)))
    return {"query": query, "found": list(shop.search(query))}


def published_form(product):
    return {
        "asin": product.asin, "query": product.query, "product_category": product.path, "name": product.title, "Title": product.title,
        "Description": product.description, "BulletPoints": product.bullets, "Attributes": product.attributes, "price": product.price,
        "options": product.options, "wanted": product.instruction_attributes, "instruction": product.instruction, "words": tokens(product.title),
    }


def published(checkout, products):
    """The published `get_reward`, with the nouns that the catalogue knows."""
    words = {product["name"]: product["words"] for product in products}

    def tagger(text):
        return [types.SimpleNamespace(text=word, pos_="NOUN" if noun else "X") for word, noun in words[text]]

    def stub(name, **members):
        sys.modules[name] = module = types.ModuleType(name)
        vars(module).update(members)

    stub("spacy", load=lambda _: tagger)
    stub("rich", print=print)
    sys.path.insert(0, str(checkout))
    from web_agent_site.engine.goal import get_reward

    return get_reward


def rewards(purchases, checkout, products):
    get_reward = published(checkout, products)
    lines, kinds = [], {}
    for bought in purchases:
        product, wanted = products[bought["product"]], products[bought["wanted"]]
        goal = {
            "query": wanted["query"],
            "product_category": wanted["product_category"],
            "name": wanted["name"],
            "attributes": wanted["wanted"],
            "price_upper": bought["price_upper"],
            "goal_options": dict(bought["goal_options"]),
        }
        theirs, info = get_reward(product, goal, product["price"], dict(bought["options"]), verbose=True)
        if theirs != bought["reward"] or info["r_type"] != bought["r_type"]:
            sys.exit(f"parity: {bought}\nearns {theirs} by the published code: {info}\n{product}\n{wanted}")
        kinds[info["r_type"]] = kinds.get(info["r_type"], 0) + 1
        lines.append({"seed": bought["seed"], "product": bought["product"], "options": bought["options"], "reward": theirs})
    write("purchases.jsonl", lines)
    full = sum(line["reward"] == 1.0 for line in lines)
    print(f"parity: {len(lines)} purchases, r_type {dict(sorted(kinds.items()))}, {full} earn 1: no difference")


def ranking(folder, shop, searches):
    jar = next(VENV.glob("lib/python*/site-packages/pyserini/resources/jars/*.jar"))
    documents, index, run = folder / "documents", folder / "index", folder / "run.txt"
    documents.mkdir()
    lines = (json.dumps({"id": product.asin, "contents": product.searchable()}) + "\n" for product in shop.products)
    (documents / "documents.jsonl").write_text("".join(lines))
    java = lambda *arguments: subprocess.run(["java", "-cp", jar, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    java("io.anserini.index.IndexCollection", "-collection", "JsonCollection", "-input", documents, "-index", index,
         "-generator", "DefaultLuceneDocumentGenerator", "-threads", 1, "-storePositions", "-storeDocvectors", "-storeRaw")
    topics = folder / "topics.tsv"
    topics.write_text("".join(f"{i}\t{search['query']}\n" for i, search in enumerate(searches)))
    java("io.anserini.search.SearchCollection", "-index", index, "-topics", topics, "-topicreader", "TsvInt", "-output", run,
         "-bm25", "-bm25.k1", 0.9, "-bm25.b", 0.4, "-hits", 50)
    places = {product.asin: i for i, product in enumerate(shop.products)}
    found = [[] for _ in searches]
    for line in run.read_text().splitlines():
        query, _, asin, *_ = line.split()
        found[int(query)].append(places[asin])
    for search, theirs in zip(searches, found, strict=True):
        if theirs != search["found"]:
            sys.exit(f"parity: {search['query']}\nLucene {theirs}\nflow   {search['found']}")
    write("searches.jsonl", [{"query": search["query"], "found": theirs} for search, theirs in zip(searches, found, strict=True)])
    print(f"parity: {len(searches)} searches, {sum(map(len, found))} products found, by Lucene in the same order")


def write(name, lines):
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--webshop", type=pathlib.Path, help="a checkout of the published code; it is cloned unless given")
    checkout = parser.parse_args().webshop
    if checkout is None:
        checkout = VENV / "WebShop"
        if not checkout.exists():
            subprocess.run(["git", "clone", "--quiet", REPOSITORY, checkout], check=True)
        subprocess.run(["git", "-C", checkout, "checkout", "--quiet", COMMIT], check=True)
    opened = shop(10_000)
    rewards([purchase(opened, seed) for seed in range(2_000)], checkout, [published_form(product) for product in opened.products])
    with tempfile.TemporaryDirectory() as folder:
        ranking(pathlib.Path(folder), opened, [search(opened, seed) for seed in range(200)])


if __name__ == "__main__":
    inside_the_venv()
    main()
