"""N-grams length by length: a second reading, exact privacy, and the two readings that leak."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.engines.local_texts import LocalTexts
from dpsu.inputs.reading import Source
from dpsu.policies.weighted import Weighted
from dpsu.privacy.binomial import lower_bound
from dpsu.privacy.calibration import gaussian_scale, novel_at_most
from dpsu.privacy.curves import Gaussian
from dpsu.privacy.normal import upper_tail
from dpsu.randomness import coins
from dpsu.randomness.keys import Key
from dpsu.rounds.ngrams import HOW_MANY, NGramRounds, binomial, design_ngrams
from dpsu.text.corpus import read_corpus
from dpsu.text.domain import Domain
from dpsu.text.spec import TextSpec
from tests.support import flat
from tests.support.cases import every
from tests.support.sieve_probes import divergence

BITS = 30
SOURCE = TextSpec("text", "words", 1, 3)
Texts = dict[str, list[str]]
Gram = tuple[str, ...]


def random_texts(rng: np.random.Generator, n_words: int = 4, users: int = 6) -> Texts:
    popularity = 1.0 / np.arange(1, n_words + 1)
    popularity /= popularity.sum()
    words = [chr(ord("a") + k) for k in range(n_words)]
    return {
        f"user {u}": [
            " ".join(rng.choice(words, size=rng.integers(0, 7), p=popularity))
            for _ in range(rng.integers(1, 3))
        ]
        for u in range(rng.integers(1, users + 1))
    }


def engine_of(texts: Texts) -> LocalTexts:
    source = Source(texts, dpsu.Users(), dpsu.Tokens("text"))
    rows = source.untokenized(Key.from_insecure_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)  # some of these have no tokens at all
        return LocalTexts(read_corpus(rows, SOURCE, None))


def weights_read_plainly(
    texts: Texts, length: int, shorter: set[Gram] | None, max_items: int, key: Key
) -> dict[Gram, int]:
    """The definition, gram by gram: allowed first, capped second, most frequent first."""
    salt = key.salt(f"gram order, length {length}")
    total: Counter[Gram] = Counter()
    for posts in texts.values():
        own: Counter[Gram] = Counter()
        for post in posts:
            tokens = post.split()
            for k in range(len(tokens) - length + 1):
                gram = tuple(tokens[k : k + length])
                if shorter is None or (gram[:-1] in shorter and gram[1:] in shorter):
                    own[gram] += 1
        names = sorted(own, key=lambda g: (-own[g], _hash(" ".join(g), salt)))[:max_items]
        for gram in names:
            total[gram] += Weighted(2, BITS).share(len(names))
    return {gram: weight for gram, weight in total.items() if weight}


def _hash(text: str, salt: int) -> int:
    return int(Ids(pa.array([text], pa.large_string())).hashes(salt)[0])


def run_plainly(design: NGramRounds, texts: Texts, key: Key) -> list[set[Gram]]:
    """A second reading of the whole mechanism; only coins and draws of the key are shared."""
    released: list[set[Gram]] = []
    shorter: set[Gram] | None = None
    for length in range(1, len(design.shares) + 1):
        weights = weights_read_plainly(texts, length, shorter, design.max_items, key)
        if shorter is None:
            curve = Gaussian(design.scales[0], design.threshold)
            domain: list[Gram] = []
        else:
            domain = [
                (*left, right[-1])
                for left in sorted(shorter, key=" ".join)
                for right in sorted(shorter, key=" ".join)
                if left[1:] == right[:-1]
            ]
            chance = design.spurious * min(1.0, len(shorter) / len(domain)) if domain else 0.1
            scale = design.scales[length - 1]
            curve = Gaussian(scale, scale * float(stats.norm.isf(chance)))
        found = {
            gram
            for gram, weight in weights.items()
            if coins.decide(
                curve, Fraction(weight, 1 << BITS), " ".join(gram).encode(), key, length
            )
        }
        if shorter is not None:
            others = set(domain) - set(weights)
            wanted, attempt = binomial(len(others), curve, key, length), 0
            drawn: set[Gram] = set()
            while len(drawn) < wanted:
                digest = key.digest("spurious gram", length, 0, b"%d" % attempt)
                attempt += 1
                gram = domain[int.from_bytes(digest, "big") % len(domain)]
                if gram in others:
                    drawn.add(gram)
            found |= drawn
        released.append(found)
        shorter = found
    return released


@every("seed", range(60))
def test_the_shipped_mechanism_is_the_one_that_is_written_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts, key = random_texts(rng), Key.from_insecure_seed(seed)
    design = NGramRounds(int(rng.integers(1, 5)), BITS, (0.3, 0.3, 0.4), (0.3, 0.4, 0.5), 0.7, 0.3)
    shipped = design.run(engine_of(texts), key)
    plainly = run_plainly(design, texts, key)
    assert [set(domain.texts.to_pylist()) for domain in shipped] == [
        {" ".join(gram) for gram in found} for found in plainly
    ]
    for domain in shipped:
        assert domain.texts.to_pylist() == sorted(domain.texts.to_pylist())


# ---- exact privacy -------------------------------------------------------------------------------


def law(
    design: NGramRounds, texts: Texts, words: list[str], trap: str | None = None
) -> dict[tuple[Any, Any], float]:
    """Exact probabilities of all releases of lengths 1 and 2; weights by the shipped engine."""
    key = Key.from_insecure_seed(3)
    policy = Weighted(2, design.fraction_bits)
    unit = 1 << design.fraction_bits

    def chance(curve: Gaussian, weight: float) -> float:
        return upper_tail((curve.threshold - weight) / curve.scale)

    engine = engine_of(texts)
    held, weights = engine.weigh(1, design.max_items, policy, key)
    assert isinstance(held, pa.Array)
    by_token = dict(zip(held.to_pylist(), weights / unit, strict=True))
    first = Gaussian(design.scales[0], design.threshold)
    token_chances = [
        chance(first, by_token[w]) if by_token.get(w, 0.0) > 0.0 else 0.0 for w in words
    ]
    outcomes: dict[tuple[Any, Any], float] = {}
    for picked in itertools.product((False, True), repeat=len(words)):
        p_tokens = math.prod(
            p if yes else 1 - p for p, yes in zip(token_chances, picked, strict=True)
        )
        tokens = [w for w, yes in zip(words, picked, strict=True) if yes]
        known = Domain.of_tokens(pa.array(tokens, pa.large_string()))
        again = engine_of(texts)
        again.allow_extensions(known)
        pairs, pair_weights = again.weigh(2, design.max_items, policy, key)
        by_pair = dict(zip(known.spelled(pairs).to_pylist(), pair_weights / unit, strict=True))
        curve = design.curve(2, known)
        grams = [f"{a} {b}" for a in tokens for b in tokens]
        chances = []
        for gram in grams:
            weight = by_pair.get(gram, 0.0)
            never = weight == 0.0 and (
                trap == "what nobody weighs is never released"
                or (trap == "what is held but not weighed is not in the pool" and gram in by_pair)
            )
            chances.append(0.0 if never else chance(curve, weight))
        for chosen in itertools.product((False, True), repeat=len(grams)):
            p = math.prod(c if yes else 1 - c for c, yes in zip(chances, chosen, strict=True))
            found = tuple(g for g, yes in zip(grams, chosen, strict=True) if yes)
            outcomes[tuple(tokens), found] = p_tokens * p
    return outcomes


def neighbors(rng: np.random.Generator) -> tuple[Texts, Texts]:
    more = random_texts(rng, n_words=3, users=4)
    out = rng.choice(list(more))
    return more, {user: posts for user, posts in more.items() if user != out}


@pytest.mark.slow
def test_exact_privacy_of_tokens_and_pairs() -> None:
    rng = np.random.default_rng(8)
    worst = 0.0
    for case in range(60):
        epsilon, delta = float(rng.choice([0.5, 1.0, 2.0])), float(rng.choice([0.02, 0.1, 0.3]))
        design, _ = design_ngrams(
            epsilon, delta, shares=(1.0, float(rng.choice([0.5, 2.0]))),
            max_items=int(rng.integers(1, 4)), spurious=float(rng.choice([0.05, 0.5])),
            fraction_bits=BITS,
        )  # fmt: skip
        more, less = neighbors(rng)
        p, q = (law(design, texts, ["a", "b", "c"]) for texts in (more, less))
        assert sum(p.values()) == pytest.approx(1.0)
        cost = divergence(p, q, epsilon)
        assert cost <= delta * (1 + 1e-9), case
        worst = max(worst, cost / delta)
    # The account is not idle: what is spent is a fair part of what is allowed.
    assert worst > 0.2


@every(
    "trap",
    ["what nobody weighs is never released", "what is held but not weighed is not in the pool"],
)
def test_exact_privacy_fails_for_readings_that_leak(trap: str) -> None:
    delta = 0.01
    design, _ = design_ngrams(
        1.0, delta, shares=(1.0, 1.0), max_items=1, spurious=0.5, fraction_bits=BITS
    )
    others = {f"user {u}": ["a", "a", "b"] for u in range(40)}
    others |= {f"other {u}": ["b", "b", "a"] for u in range(40)}
    # x holds two pairs and weighs the one it has twice.
    more = others | {"x": ["a b", "a b", "b a"]}
    costs = {}
    for reading in (None, trap):
        p, q = (law(design, texts, ["a", "b"], reading) for texts in (more, others))
        costs[reading] = divergence(p, q, 1.0)
    assert costs[None] <= delta
    assert costs[trap] > 3 * delta


@pytest.mark.thorough
def test_a_canary_comes_out_as_rarely_as_promised() -> None:
    epsilon, delta, runs = 1.0, 0.2, 500
    design, split = design_ngrams(
        epsilon, delta, shares=(1.0, 1.0), max_items=9, spurious=0.1, fraction_bits=BITS
    )
    others: Texts = {f"user {u}": ["common words"] for u in range(3)}
    canary = [" ".join(f"secret{k}" for k in range(9))]
    seen, pairs_with, pairs_without = 0, 0, 0
    with_canary, without = others | {"x": canary}, others | {"y": ["common"]}
    for seed in range(runs):
        tokens, pairs = design.run(engine_of(with_canary), Key.from_insecure_seed(seed))
        seen += any("secret" in token for token in tokens.texts.to_pylist())
        pairs_with += any("secret" in pair for pair in pairs.texts.to_pylist())
        _, pairs = design.run(engine_of(without), Key.from_insecure_seed(runs + seed))
        pairs_without += any("secret" in pair for pair in pairs.texts.to_pylist())
    # What the account allows is not refuted, and a good part of it is really used.
    assert lower_bound(seen, runs, 1e-9) <= split["novel tokens"]
    assert seen / runs > 0.3 * split["novel tokens"]
    # Longer grams have no other way out than through their tokens.
    assert pairs_with <= seen
    assert pairs_without == 0


# ---- parts ---------------------------------------------------------------------------------------


@every("trials", [0, 1, 2, 7, 1000, 10**9])
@every("threshold", [0.0, 0.5, 6.0])
def test_the_binomial_number_is_that_of_its_distribution(trials: int, threshold: float) -> None:
    curve = Gaussian(1.0, threshold if trials < 10**6 else 6.0)
    chance = upper_tail(curve.threshold)
    for seed in range(20):
        key = Key.from_insecure_seed(seed)
        uniform = int.from_bytes(key.digest(HOW_MANY, 2, 0, b""), "big") / 2**256
        assert binomial(trials, curve, key, 2) == int(stats.binom.ppf(uniform, trials, chance))


def test_the_domain_counts_and_numbers_its_continuations() -> None:
    tokens = Domain.of_tokens(pa.array(["c", "a", "b"], pa.large_string()))
    assert tokens.n_pairs == 9
    every = np.array([tokens.pair(place) for place in range(9)])
    assert sorted(tokens.spelled(every).to_pylist()) == sorted(
        f"{x} {y}" for x in "abc" for y in "abc"
    )
    pairs = tokens.extended(
        every[np.isin(tokens.spelled(every).to_pylist(), ["a b", "b c", "b a"])]
    )
    assert pairs.texts.to_pylist() == ["a b", "b a", "b c"]
    longer = {
        pairs.spelled(np.array([pairs.pair(place)]))[0].as_py() for place in range(pairs.n_pairs)
    }
    assert longer == {"a b c", "a b a", "b a b"}
    assert pairs.n_pairs == len(longer)
    nothing = Domain.of_tokens(pa.array([], pa.large_string()))
    assert nothing.n_pairs == 0
    assert len(nothing.extended(np.empty(0, np.int64))) == 0


def test_budgets_of_lengths_add_up() -> None:
    design, split = design_ngrams(
        1.0, 1e-6, shares=(1, 2, 2), max_items=100, spurious=0.01, fraction_bits=BITS
    )
    together = math.fsum(1 / scale**2 for scale in design.scales)
    assert together <= 1 / gaussian_scale(1.0, split["noise"]) ** 2
    assert math.fsum(split.values()) == pytest.approx(1e-6)
    for t in range(1, 101):
        novel = novel_at_most(design.scales[0], design.threshold, t, 1 / math.sqrt(t))
        assert novel <= split["novel tokens"]


# ---- the public face -----------------------------------------------------------------------------


def posts(n: int = 600) -> Texts:
    return {f"p{u}": [f"so long and thanks for all the fish secret{u} said"] for u in range(n)}


def test_common_grams_come_out_and_secrets_do_not() -> None:
    result = flat.ngrams(posts(), text="post", longest=4, epsilon=3, delta=1e-5)
    assert {"so", "thanks for", "thanks for all", "and thanks for all"} <= set(result.items)
    assert not any("secret" in str(item) for item in result.items)
    assert "the fish" in result
    assert "fish said" not in result or len(result) < 100  # spurious ones are few
    assert result.private
    assert dpsu.Plan.from_json(result.plan.to_json()) == result.plan
    assert "length 4" in result.report()


def test_nothing_in_is_nothing_out() -> None:
    for data in ({}, {"u": ""}, {"u": "x" * 5000}):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert flat.ngrams(data, text="t", epsilon=1, delta=1e-5).items == ()
        assert "nothing can be released" in str(told[-1].message)
    with pytest.raises(dpsu.DataError, match="no text of a 'user' has a token"):
        flat.ngrams({"u": ""}, text="t", epsilon=1, delta=1e-5, strict=True)


@every(
    ("options", "told"),
    [
        ({"longest": 0}, "longest=0 is out of range"),
        ({"longest": 2, "shares": (1,)}, "needs one for each length up to 2"),
        ({"shares": (1, 0, 1)}, "shares=0 is out of range"),
        ({"shares": 1.0}, "is not a list of numbers"),
        ({"spurious": 0.9}, "spurious=0.9 is out of range"),
        ({"tokenizer": "lines"}, "makes no n-grams"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], told: str) -> None:
    everything: dict[str, Any] = {"text": "t", "epsilon": 1, "delta": 1e-5, **options}
    with pytest.raises(dpsu.ParameterError, match=told):
        flat.ngrams(posts(3), **everything)


def test_tokens_with_spaces_make_no_grams() -> None:
    texts = {f"u{u}": ["one|two words|three"] for u in range(500)}
    with pytest.warns(dpsu.DataWarning, match="contain white space"):
        result = flat.ngrams(
            texts, text="t", tokenizer=lambda t: t.split("|"), longest=2, epsilon=3, delta=1e-4
        )
    assert {"one", "three"} <= set(result.items)
    assert "two words" not in result
