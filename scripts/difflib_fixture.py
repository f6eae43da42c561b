"""Pairs of texts and how many of their characters match according to Python's difflib: crates/credit/src/difflib/recorded.json.

    python3 scripts/difflib_fixture.py

The texts are drawn from a fixed seed. Each pair is asked about in both orders, with autojunk and without: `matched` holds
(a, b) and (b, a) with it, then both without. The ratio is 2 * matched / characters.
"""

import difflib
import json
import random
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "src" / "difflib" / "recorded.json"
draw = random.Random(7)


def word(letters, least, most):
    return "".join(draw.choice(letters) for _ in range(draw.randint(least, most)))


def edited(text, letters, edits):
    """The text after some insertions, deletions, replacements and moves of parts."""
    text = list(text)
    for _ in range(edits):
        at = draw.randint(0, len(text))
        kind = draw.randrange(4)
        if kind == 0:
            text.insert(at, draw.choice(letters))
        elif kind == 1:
            del text[at : at + draw.randint(1, 3)]
        elif kind == 2 and at < len(text):
            text[at] = draw.choice(letters)
        else:
            end = min(len(text), at + draw.randint(1, 12))
            part = text[at:end]
            del text[at:end]
            to = draw.randint(0, len(text))
            text[to:to] = part
    return "".join(text)


def board():
    """Sokoban as it is shown: two boards that differ by a few cells."""
    cells = [[draw.choice("###__OX") for _ in range(6)] for _ in range(6)]
    show = lambda c: "\n".join(f"Row {i + 1}: " + " ".join(row) for i, row in enumerate(c))
    first = show(cells)
    for _ in range(draw.randint(1, 4)):
        cells[draw.randrange(6)][draw.randrange(6)] = draw.choice("#_OXPS√")
    return first, show(cells)


THINGS = "apple bread knife fork plate mug lamp book pencil remote vase towel soap candle laptop kettle".split()
PLACES = "drawer shelf table cabinet fridge sink desk sofa bed microwave dresser safe".split()


def room(sentences):
    """What a household game says, as ALFWorld does."""
    said = []
    for _ in range(sentences):
        seen = ", ".join(f"a {draw.choice(THINGS)} {draw.randint(1, 4)}" for _ in range(draw.randint(1, 4)))
        said.append(f"On the {draw.choice(PLACES)} {draw.randint(1, 9)}, you see {seen}.")
    return " ".join(said)


def pairs():
    yield from [("", ""), ("", "a"), ("a", "a"), ("a", "b"), ("ab", "acab"), ("abxcd", "abcd"), (" abcd", "abcd abcd"), ("tide", "diet")]
    # Few letters: many blocks of one length, so the choice among them shows.
    for letters in ["ab", "abc", "abcdef"]:
        for most in [6, 15, 40]:
            for _ in range(10):
                yield word(letters, 0, most), word(letters, 0, most)
    # Beyond ASCII, and characters of two code points.
    for _ in range(15):
        letters = "aé√漢字語😀\u0301\U0010ffff\x00\n"
        text = word(letters, 5, 60)
        yield text, edited(text, letters, draw.randint(1, 6))
    for _ in range(30):
        yield board()
    for _ in range(30):
        text = room(draw.randint(1, 2))
        yield text, edited(text, "abc ,.", draw.randint(1, 8))
    # Around the length from which autojunk has an effect, and around its limits.
    for length in [198, 199, 200, 201, 299, 300, 301, 400]:
        rare = "".join(chr(0x4E00 + i) for i in range(length))
        for often in [length // 100, length // 100 + 1, length // 100 + 2]:
            # One character stands exactly `often` times.
            places = set(draw.sample(range(length), often))
            text = "".join("x" if i in places else c for i, c in enumerate(rare))
            cut = draw.randint(1, length - 1)
            yield text[cut:] + text[:cut], text
            yield "x" * 3 + text[: length // 2], text
        text = word("abcdefghijklmnopqrstuvwxyz ", length, length)
        yield edited(text, "abc ", 10), text
        yield "a" * length, "a" * (length - 1)
    # Long texts.
    for _ in range(25):
        text = room(draw.randint(5, 8))
        yield text, edited(text, "abcdefgh ,.", draw.randint(1, 20))
    for _ in range(15):
        yield room(draw.randint(4, 7)), room(draw.randint(4, 7))
    for _ in range(4):
        text = word("abcdefghijklmnopqrstuvwxyz0123456789", 800, 1500)
        yield text, edited(text, "abc", 40)


def matched(a, b, autojunk):
    matcher = difflib.SequenceMatcher(None, a, b, autojunk)
    found = sum(block.size for block in matcher.get_matching_blocks())
    characters = len(a) + len(b)
    assert matcher.ratio() == (2.0 * found / characters if characters else 1.0)
    return found


def main():
    said = []
    for a, b in pairs():
        found = [matched(first, second, autojunk) for autojunk in [True, False] for first, second in [(a, b), (b, a)]]
        said.append({"a": a, "b": b, "characters": len(a) + len(b), "matched": found})
    lines = ",\n".join(json.dumps(s, ensure_ascii=False) for s in said)
    OUT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{OUT.name}: {len(said)} pairs, {OUT.stat().st_size} bytes")


main()
