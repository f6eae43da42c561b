"""The games in Python: their parts against what the published programs answer, and their episodes."""

import hashlib
import json
import unittest
from pathlib import Path

from flow_env.games import answers, bm25, search, seeds, webshop
from flow_env.games.analyzer import terms
from flow_env.games.corpus import corpus
from flow_env.games.porter import stem
from flow_env.games.webshop import catalogue, clicks, goal, reward
from flow_env.games.webshop.shop import shop

ROOT = Path(__file__).resolve().parents[2]
ANY = seeds.Deal(None)


def golden(name):
    return [json.loads(line) for line in (ROOT / "tests/golden/webshop" / name).read_text().splitlines()]


def digest(items):
    return hashlib.sha256(repr([tuple(item) for item in items]).encode()).hexdigest()[:16]


def visit(seed=5, products=1000, pages="text", pays="score"):
    return webshop.made({"products": products, "pages": pages, "pays": pays}, seed, ANY)


def question(seed, documents=2000, found=3):
    return search.made({"documents": documents, "found": found}, seed, ANY)


def led(game):
    """The expert's actions from here, with what they lead to."""
    seen = game.reset()
    way = []
    while (action := game.expert()) is not None:
        assert action in seen.actions, (action, seen.actions)
        seen = game.step(action)
        way.append((action, seen))
    return way


class Parts(unittest.TestCase):
    def test_numbers_are_those_of_flow(self):
        self.assertEqual(seeds.Random(0).next(), 0xE220A8397B1DCDAF, "the reference sequence of SplitMix64 from seed 0")
        self.assertNotEqual(seeds.mix(1, 2), seeds.mix(2, 1))
        self.assertNotEqual(seeds.text("a"), seeds.text("a\0"))

    def test_words_have_the_stems_of_the_paper(self):
        known = """caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre, plastered plaster, bled bled,
            motoring motor, sing sing, conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, falling fall, hissing hiss,
            fizzed fizz, failing fail, filing file, happy happi, sky sky, relational relat, conditional condit, rational ration,
            digitizer digit, radically radic, vietnamization vietnam, operator oper, feudalism feudal, decisiveness decis,
            hopefulness hope, formality formal, sensibility sensibl, triplicate triplic, formative form, electrical electr, goodness good,
            revival reviv, allowance allow, airliner airlin, adjustable adjust, replacement replac, adoption adopt, communism commun,
            effective effect, probate probat, rate rate, cease ceas, controlling control, roll roll, moisturizing moistur, yoga yoga,
            of of, 6.76 6.76"""
        for pair in known.split(","):
            word, expected = pair.split()
            self.assertEqual(stem(word), expected, word)

    def test_words_are_cut_where_lucene_cuts_them(self):
        expected = ["women", "run", "shoe", "6.76", "fl", "oz", "pack", "2"]
        self.assertEqual(terms("Women's Running-Shoes, 6.76 fl oz (pack of 2)"), expected)
        self.assertEqual(terms("1,000 a.m. don't x-large. The"), ["1,000", "a.m", "don't", "x", "larg"])
        self.assertEqual((len(terms("y" * 600)), terms(" ,. the ' \0")), (3, []))

    def test_scores_order_documents_as_bm25_says(self):
        index = bm25.Index(["red shoe", "red red wool hat", "blue hat"])
        self.assertEqual(index.search("red", 10), [1, 0], "twice in a longer text beats once")
        self.assertEqual(index.search("shoes for a hat", 10), [0, 2, 1], "the rarer word, then the shorter text")
        self.assertEqual((index.search("hats", 1), index.search("the", 10), index.search("green", 10)), ([2], [], []))
        self.assertEqual(bm25.Index(["same", "same"]).search("same", 2), [0, 1], "ties in the order of the documents")
        self.assertAlmostEqual(bm25.rarity(3, 1), 0.98083, 5)
        lengths = {0: 0, 23: 23, 24: 24, 39: 39, 40: 40, 41: 40, 42: 42, 56: 56, 59: 56, 60: 60, 100: 96, 1000: 984}
        self.assertEqual({length: bm25.rounded(length) for length in lengths}, lengths)

    def test_answers_are_scored_as_published(self):
        for answer, truth, right, share in [
            ("The River Sol.", "river sol", True, 1.0), ("a town of Brani", "Brani", False, 0.5), ("Tor Venfel", "Tor  Mize", False, 0.5),
            ("1987", "in 1987", False, 2 / 3), ("no", "no way", False, 0.0), ("", "x", False, 0.0), ("a-b", "ab", True, 1.0),
            ("ab ab c", "ab c c", False, 2 / 3),
        ]:
            self.assertEqual(answers.normal(answer) == answers.normal(truth), right, answer)
            self.assertAlmostEqual(answers.f1(answer, truth), share, 12, answer)
        self.assertEqual(answers.normal("An apple, the 'Theatre' — a_b a"), "apple theatre — ab")

    def test_texts_are_as_alike_as_thefuzz_says(self):
        for a, b, expected in [
            ("essential oil", "essential oils", 96), ("x-large", "('size', 'large')", 83), ("large", "('size', 'x-large')", 100),
            ("blue", "('color', 'light blue')", 100), ("easy carry", "easy care", 84), ("machine washable", "hand washable", 76),
            ("gluten free", "Free, GLUTEN!", 100), ("10 inch", "12 inch", 86), ("", "a", 0), ("é", "a", 0),
        ]:
            self.assertEqual(reward.token_set_ratio(a, b), expected, (a, b))

    def test_actions_are_read_by_the_published_pattern(self):
        read = lambda action: (found := clicks.ACTION.match(action)) and found.groups()
        for action, expected in [
            ("search[red shoes]", ("search", "red shoes")), ("click[a] or so", ("click", "a")), ("search[a[b]]", ("search[a", "b]")),
            ("search[a][]", ("search", "a][")), ("", None), ("search", None), ("search[]", None), ("[x]", None), ("search\n[x]", None),
            ("]click[", None), ("click[x", None),
        ]:
            self.assertEqual(read(action), expected, action)


class Worlds(unittest.TestCase):
    def test_catalogue_and_corpus_are_the_same_for_ever(self):
        why = "a change here changes every task's name to another task: the number says that it was meant"
        self.assertEqual((digest(catalogue.catalogue(300)), digest(corpus(2000).documents)), ("8925ac9232d86bcb", "7b46453c737f52fd"), why)

    def test_every_title_finds_its_document(self):
        documents = corpus(2000)
        self.assertTrue(all(at in documents.index.search(document.title, 3) for at, document in enumerate(documents.documents)))

    def test_words_cover_what_is_shown(self):
        words = json.loads((ROOT / "python/flow_env/games/words.json").read_text())
        for name, games in (("search", map(question, range(20))), ("webshop", (visit(seed, pages=pages) for seed in range(10) for pages in ("text", "rich")))):
            known = set(words[name]) | {"\n", " ", ",", ", ", ".", ". ", ":", ": ", *"0123456789"}
            shown, bare = 0, 0
            for game in games:
                for text in (game.reset().observation, game.instruction, *(seen.observation for _, seen in led(game))):
                    shown += len(text)
                    while text:
                        length = next((n for n in range(min(40, len(text)), 0, -1) if text[:n] in known), 0)
                        bare += length == 0
                        text = text[length or 1 :]
            self.assertLess(bare / shown, 0.01, f"{name}: so many characters are no part of a word, as the $ of a price")


class Search(unittest.TestCase):
    def test_the_expert_answers_every_question_from_two_documents(self):
        kinds = set()
        for seed in range(200):
            game = question(seed)
            action, seen = led(game)[-1]
            self.assertTrue(seen.won and seen.done and seen.score == 1.0)
            self.assertEqual(action, f"answer[{game.gold}]")
            kinds.add(game.kind)
        self.assertEqual(len(kinds), 8)

    def test_a_wrong_answer_earns_its_words_but_no_reward(self):
        game = question(4)
        game.reset()
        first = game.expert()
        state = game.step(first).state
        self.assertEqual(game.step(first).state, state, "the same search finds nothing new")
        for nothing in ("", "search[]", "answer[ ]", "answer", "look[x]"):
            self.assertFalse(game.step(nothing).valid, nothing)
        self.assertTrue(game.step("search[zzz]").valid)
        seen = game.step("answer[I don't know]")
        self.assertEqual((seen.done, seen.won, seen.reward, seen.score), (True, False, 0.0, 0.0))
        self.assertEqual((game.step(first).valid, game.actions(), game.expert()), (False, [], None))


class Webshop(unittest.TestCase):
    def test_purchases_earn_what_the_published_code_pays(self):
        products, purchases = shop(10_000).products, golden("purchases.jsonl")
        for bought in purchases:
            # The goals that were recorded were dealt by their products, and none was of a panel.
            wanted = goal.sample_where(bought["seed"], lambda product: ANY.owns(seeds.text(product.asin)), products)
            options = [tuple(option) for option in bought["options"]]
            self.assertEqual(reward.reward(products[bought["product"]], options, wanted, products[wanted.product]).total, bought["reward"], bought)
        self.assertEqual(len(purchases), 2000)

    def test_searches_find_what_lucene_finds_in_its_order(self):
        searches = golden("searches.jsonl")
        for recorded in searches:
            self.assertEqual(list(shop(10_000).search(recorded["query"])), recorded["found"], recorded["query"])
        self.assertEqual(len(searches), 200)

    def test_the_expert_buys_what_is_wanted(self):
        ways = [led(visit(seed, products=10_000)) for seed in range(100)]
        self.assertTrue(all(way[-1][1].done and len(way) <= 15 for way in ways))
        self.assertGreaterEqual(sum(way[-1][1].won for way in ways), 98)

    def test_a_product_has_what_its_instruction_asks_for(self):
        for product in catalogue.catalogue(500):
            text = " ".join([product.title, *product.bullets])
            self.assertTrue(set(product.instruction_attributes) <= set(product.attributes) and all(word in text for word in product.attributes), product)
            self.assertTrue(product.price >= product.pricing[0] and product.price <= product.pricing[-1] and catalogue.nouns(product.title))
        self.assertEqual(catalogue.nouns("vatra men's tee, slim fit, with 2 pockets"), ("vatra", "men", "tee", "pockets"))

    def test_pages_are_told_as_webshop_tells_them(self):
        game = visit()
        self.assertEqual(game.reset().observation, "Search")
        self.assertFalse(game.step("click[search]").valid, "the button alone does nothing")
        seen = game.step(f"search[{game.instruction}]")
        self.assertTrue(seen.observation.startswith("Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B0"), seen.observation)
        self.assertEqual((len(seen.observation.split(" [SEP] ")), len(seen.actions)), (33, 12))
        self.assertIn("Page 2 (Total results: 50) [SEP] < Prev [SEP] Next > [SEP] B0", game.step("click[Next >]").observation)
        self.assertEqual(game.step("click[< Prev]").state, seen.state, "where one was before")
        item = game.step(seen.actions[2])
        self.assertTrue(item.observation.endswith("[SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"))
        self.assertNotEqual(game.step("click[features]").state, item.state)
        self.assertEqual(game.step("click[< prev]"), item)
        game.step("search[soft cotton shampoo for dry hair]")
        past = [game.step("click[next >]") for _ in range(7)][-1]
        self.assertEqual(past.observation, "Back to Search [SEP] Page 8 (Total results: 50) [SEP] < Prev [SEP] Next >", "nothing stops one")

    def test_rich_pages_mark_what_was_clicked(self):
        game = visit(pages="rich")
        product = game.step(game.reset().actions[-1]).actions[2]
        item = game.step(product)
        value = item.actions[-1][6:-1]
        self.assertIn(f"\n  [button] {value} [button_]\n", item.observation)
        chosen = game.step(f"click[{value}]")
        self.assertTrue(chosen.observation.startswith(f"You have clicked {value}.\n[button] Back to Search [button_]\n[button] < Prev"))
        self.assertIn(f"\n  [clicked button] {value} [clicked button_]\n", chosen.observation)
        back = game.step("click[< prev]")
        self.assertIn(f"\n\n[clicked button] {product[6:16].upper()} [clicked button_]\n", back.observation)
        self.assertEqual(game.step(product).state, item.state, "the choice is forgotten")

    def test_a_purchase_ends_the_visit_with_its_score(self):
        for pays, most in (("score", 1.0), ("win", 10.0)):
            game = visit(3, pays=pays)
            seen = led(game)[-1][1]
            self.assertEqual((seen.reward, seen.score, seen.info["r_type"], seen.info["r_price"]), (most, 1.0, 1.0, 1.0))
            again = game.step("search[more]")
            self.assertEqual((again.valid, again.reward, again.actions), (False, 0.0, []), "no score twice")


if __name__ == "__main__":
    unittest.main()
