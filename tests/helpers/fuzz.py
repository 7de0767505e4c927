"""Lines of every kind that users and files produce, for the tools that must survive them."""

import random
from typing import List, Sequence

SPECIAL = [
    "<mask>", "<s>", "</s>", "<pad>", "<unk>", "<<unk>>", "@@", "aa@@", "madeupword0000",
    "madeupword0001", "<gmlm mask>", "<gmlm", "mask>", "<gmlm mask 0>", "<Lua heritage>",
]  # fmt: skip


def random_line(rng: random.Random, words: Sequence[str]) -> bytes:
    """One line of some kind that users and files produce."""
    plain = " ".join(rng.choices(words, k=rng.randint(1, 12)))
    kind = rng.randrange(16)
    if kind == 0:
        return b""
    if kind == 1:
        return rng.choice([" ", "   ", "\t", " \t ", "\u00a0", "\u3000", "\u2003 "]).encode()
    if kind == 2:
        return " ".join(rng.choices(words, k=rng.randint(15, 300))).encode()
    if kind == 3:
        return " ".join(rng.choices([*SPECIAL, *words], k=rng.randint(1, 9))).encode()
    if kind == 4:
        control = [chr(c) for c in range(32) if c not in (10, 13)]
        return "".join(rng.choices([*control, *plain], k=20)).encode()
    if kind == 5:
        return b"\x00" * rng.randint(1, 4) + plain.encode()
    if kind == 6:
        return b"\xef\xbb\xbf" + plain.encode()
    if kind == 7:
        return plain.encode() + b"\r"
    if kind == 8:
        return "".join(rng.choices("😀👩‍👩‍👧🇩🇪é́ aa bb", k=12)).encode()
    if kind == 9:
        return "".join(rng.choices("שלום مرحبا \u202e\u200f aa", k=15)).encode()
    if kind == 10:
        return bytes(b for b in rng.choices(range(1, 256), k=15) if b not in (10, 13))
    if kind == 11:
        return plain.encode() + b"\xed\xa0\x80 \xff\xfe"
    if kind == 12:
        return "\t".join(plain.split()).encode()
    if kind == 13:
        return " ".join(f"w{rng.randrange(10**9)}" for _ in range(rng.randint(1, 8))).encode()
    if kind == 14:
        return rng.choice(words).encode()
    return plain.encode()


def lines(words: Sequence[str], count: int, seed: int) -> List[bytes]:
    """``count`` lines without their newlines, two of them enormous.

    Args:
        words: what plain text is made of.
        count: at least 10.
        seed: of the choice.
    """
    rng = random.Random(seed)
    found = [random_line(rng, words) for _ in range(count - 2)]
    found.insert(count // 3, b" ".join([words[0].encode()] * 10000))
    found.insert(2 * count // 3, b"x" * 100000)
    return found


def text(words: Sequence[str], count: int, seed: int) -> List[str]:
    """The same as text, what is no UTF-8 replaced."""
    return [line.decode("utf-8", "replace") for line in lines(words, count, seed)]
