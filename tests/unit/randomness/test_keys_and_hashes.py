"""Keys and hashes: the standard algorithms, separated by purpose, and secret where they must be."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.engines import estimates, local
from dpsu.kernels.hashing import digests, hash_strings, hash_word
from dpsu.plans import counts
from dpsu.privacy.curves import Gaussian
from dpsu.randomness import coins, noise
from dpsu.randomness.keys import Key, prefix, sized
from dpsu.rounds import bits
from dpsu.rounds.ngrams import HOW_MANY, WHICH
from tests.support import flat
from tests.support.cases import every


def packed(strings: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in strings])]).astype(np.int64)
    return np.frombuffer(b"".join(strings) or b"\0", np.uint8), offsets


@pytest.fixture(scope="module")
def strings() -> list[bytes]:
    rng = np.random.default_rng(0)
    lengths = [*range(300), *rng.integers(0, 80, 700).tolist()]
    return [rng.bytes(length) for length in lengths]


def test_hmac_is_the_standard_one(strings: list[bytes]) -> None:
    key = Key.from_os()
    for purpose, round_ in (("coin", 0), ("coin", 7), ("a much longer purpose " * 5, 1)):
        words = digests(key.secret, prefix(purpose, round_, 0), *packed(strings), 4)
        for word, string in zip(words, strings, strict=True):
            message = prefix(purpose, round_, 0) + sized(string)
            expected = hmac.new(key.secret, message, hashlib.sha256).digest()
            assert word.astype(">u8").tobytes() == expected
            assert key.digest(purpose, round_, 0, string) == expected


def test_xxhash_is_the_standard_one(strings: list[bytes]) -> None:
    for seed in (0, 1, 2**64 - 1, Key.from_os().salt("x")):
        hashes = hash_strings(*packed(strings), np.uint64(seed))
        assert hashes.tolist() == [xxhash.xxh64_intdigest(s, seed=seed) for s in strings]
        word = 0x0123456789ABCDEF
        assert int(hash_word(np.uint64(word), np.uint64(seed))) == xxhash.xxh64_intdigest(
            word.to_bytes(8, "little"), seed=seed
        )


def test_integers_are_hashed_by_their_digits() -> None:
    rng = np.random.default_rng(3)
    values = [0, 1, -1, 9, 10, -10, 99, 100, 2**63 - 1, -(2**63), -(2**63) + 1]
    values += (rng.integers(-(2**63), 2**63, 500) >> rng.integers(0, 60, 500)).tolist()
    ids = Ids(pa.array(values, pa.int64()))
    for salt in (0, 12345, 2**64 - 1):
        expected = [xxhash.xxh64_intdigest(str(v).encode(), seed=salt) for v in values]
        assert ids.hashes(salt).tolist() == expected
        assert Ids(ids.text()).hashes(salt).tolist() == expected


def test_messages_of_different_parts_never_coincide() -> None:
    parts = [
        ("a", 1, 0, b"b"), ("a", 2, 0, b"b"), ("a", 1, 1, b"b"), ("ab", 1, 0, b""),
        ("a", 1, 0, b""), ("a", 0, 1, b"b"), ("", 1, 0, b"ab"),
        # These coincide as soon as lengths are left out, of all parts or of the purpose alone.
        ("a", 0, 0, b"\0"), ("a\0", 0, 0, b""), ("a", 0, 0, sized(b"x")),
        ("a" + 8 * "\0", 0, 9, b"x"),
    ]  # fmt: skip
    messages = {prefix(p, r, b) + sized(i) for p, r, b, i in parts}
    assert len(messages) == len(parts)


def test_keys_are_fresh_hidden_and_validated() -> None:
    key = Key.from_os()
    assert key.secret != Key.from_os().secret
    assert len(key.secret) == 32
    assert key.secret.hex() not in repr(key)
    assert str(key.secret) not in repr(key)
    assert Key.from_insecure_seed(5) == Key.from_insecure_seed(5)
    assert Key.from_insecure_seed(5).insecure
    with pytest.raises(dpsu.ParameterError, match="insecure_seed='x'"):
        Key.from_insecure_seed("x")  # type: ignore[arg-type]


def test_salts_differ_by_purpose_and_key() -> None:
    salts = {Key.from_insecure_seed(s).salt(p) for s in range(50) for p in ("a", "b", "user order")}
    assert len(salts) == 150


def test_a_salt_is_nobodys_coin() -> None:
    """A salt may be seen, and must not be the coin or the noise of an item of that name."""
    key = Key.from_insecure_seed(1)
    for purpose in ("user order", "sample by item"):
        for other in (coins.PURPOSE, noise.PURPOSE, counts.PURPOSE, estimates.PURPOSE):
            drawn = key.digest(other, 0, 0, purpose.encode())
            assert key.salt(purpose).to_bytes(8, "big") != drawn[:8]


def test_ids_of_one_text_hash_alike_whatever_their_type_or_slice() -> None:
    numbers = Ids(pa.array([7, -3, 10**18], pa.int64()))
    text = Ids(pa.array(["x", "7", "-3", str(10**18)], pa.large_string()).slice(1))
    assert numbers.hashes(9).tolist() == text.hashes(9).tolist()
    assert text.hashes(9)[0] == xxhash.xxh64_intdigest(b"7", seed=9)


def test_a_release_holds_no_secret() -> None:
    result = dpsu.release({u: ["a"] for u in range(100)}, epsilon=1, delta=1e-3)
    again = pickle.loads(pickle.dumps(result))
    assert again.items == result.items
    assert again.plan == result.plan
    held = {"plan", "values", "counts", "prior_share", "approved", "run", "items", "_lookup"}
    assert set(vars(result)) <= held
    assert set(vars(result.run)) == {"id", "time", "dataset"}


class Drawn:
    """Everything that a release draws under its keys, by the stage that draws it.

    `blocks` are draws for many items at once, `messages` single ones; both with the key.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = "around"
        self.blocks: list[tuple[str, bytes]] = []
        self.messages: set[tuple[str, bytes]] = set()
        single = Key.digest

        def many(secret: bytes, start: bytes, *more: Any) -> Any:
            self.blocks.append((self.stage, secret + start))
            return digests(secret, start, *more)

        def one(key: Key, purpose: str, round_: int, block: int, item: bytes) -> bytes:
            message = key.secret + prefix(purpose, round_, block) + sized(item)
            self.messages.add((self.stage, message))
            return single(key, purpose, round_, block, item)

        monkeypatch.setattr(noise, "digests", many)
        monkeypatch.setattr(coins, "digests", many)
        monkeypatch.setattr(Key, "digest", one)
        for module, name in ((local, "select_items"), (local, "count"), (local, "estimate")):
            monkeypatch.setattr(module, name, self._staged(name, getattr(module, name)))

    def _staged(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def staged(*given: Any, **more: Any) -> Any:
            before, self.stage = self.stage, name
            try:
                return function(*given, **more)
            finally:
                self.stage = before

        return staged


WORDS = "the cat sat on the mat and the dog sat on the cat"
HELD = {u: [f"i{k}" for k in range(1 + u % 6)] for u in range(80)}
COUNTED: dict[str, Any] = {"epsilon": 8, "delta": 0.1, "insecure_seed": 3, "counts": True}
RELEASES: dict[str, tuple[set[str], Callable[[], dpsu.Release]]] = {
    "sieve": ({"select_items", "count"}, lambda: flat.release(HELD, **COUNTED)),
    "sips": ({"select_items", "count"}, lambda: flat.release(HELD, mechanism="sips", **COUNTED)),
    "bits": ({"select_items", "count"}, lambda: flat.release(HELD, mechanism="bits", **COUNTED)),
    "policy": (
        {"select_items", "count"},
        lambda: flat.release(HELD, mechanism="policy-gaussian", max_items=3, **COUNTED),
    ),
    "listed users": (
        {"select_items", "count", "around"},
        lambda: flat.release(list(HELD.values()), user="one per entry", **COUNTED),
    ),
    "auto": (
        {"select_items", "count", "estimate"},
        lambda: flat.release(HELD, mechanism="auto", auto_budget=0.3, **COUNTED),
    ),
    "grams": (
        {"around"},
        lambda: dpsu.release(dict.fromkeys(range(80), WORDS), epsilon=8, delta=0.1, item=dpsu.Tokens("post"), insecure_seed=3, mechanism=dpsu.NGrams()),
    ),
    "select": (
        {"select_items", "around"},
        lambda: flat.select(
            HELD, [{"mechanism": "sieve"}, {"mechanism": "sips"}], epsilon=8, delta=0.1,
            tune_fraction=0.3, insecure_seed=4,
        ),
    ),
}  # fmt: skip


@every("kind", RELEASES)
def test_no_two_draws_of_a_release_share_their_randomness(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round, the counts, the estimates and every single draw has a purpose of its own."""
    stages, release = RELEASES[kind]
    drawn = Drawn(monkeypatch)
    assert len(release())
    assert stages <= {stage for stage, _ in drawn.messages} | {stage for stage, _ in drawn.blocks}
    assert len(drawn.blocks) > 1
    starts = [start for _, start in drawn.blocks]
    assert len(set(starts)) == len(starts)
    assert not any(message.startswith(start) for _, message in drawn.messages for start in starts)
    # Salts are asked for again within a stage, and never in another one.
    assert len({message for _, message in drawn.messages}) == len(drawn.messages)


def test_purposes_differ() -> None:
    drawn_by_item = [noise.PURPOSE, counts.PURPOSE, estimates.PURPOSE, bits.PURPOSE]
    purposes = [
        *drawn_by_item, *(noise.MORE + purpose for purpose in drawn_by_item), coins.PURPOSE,
        coins.TABLE_PURPOSE, HOW_MANY, WHICH, "salt", "repetitions", "candidate", "key of run", "key of final",
        "listed user",
    ]  # fmt: skip
    assert len(set(purposes)) == len(purposes)


def test_noise_of_counts_is_independent_of_what_chose_the_items() -> None:
    """Of 20,000 items under one key; a correlation beyond 0.06 has a chance below 1e-16."""
    items = Ids(pa.array([f"item {k}" for k in range(20_000)], pa.large_string()))
    key = Key.from_insecure_seed(8)
    ones = np.full(len(items), 1 << 10, np.int64)
    evidence = noise.Noise(key, items)
    drawn: dict[str, np.ndarray] = {
        "counts": counts.design_counts(1.0, 1e-5, 30).noisy(np.zeros_like(ones), items, key),
        "estimates": noise.Noise(key, items, estimates.PURPOSE).rounded(0, 20.0),
        "coins": coins.flip_coins(Gaussian(1.0, 1.0), ones, 10, items, key),
        "coins of a table": coins.flip_words((0, 2**63, 2**64), ones >> 10, items, key, 0),
        "coins of the next round": coins.flip_coins(Gaussian(1.0, 1.0), ones, 10, items, key, 1),
    } | {f"evidence of round {k}": evidence.rounded(k, 20.0) for k in range(6)}
    correlated = np.corrcoef([values.astype(np.float64) for values in drawn.values()])
    assert (np.abs(correlated - np.eye(len(drawn))) < 0.06).all()
    # The same words in another scale would show.
    wider = evidence.rounded(2, 35.0)
    assert np.corrcoef(wider, drawn["evidence of round 2"])[0, 1] > 0.9


def test_a_key_takes_all_of_32_bytes_of_the_operating_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many are asked for, and whichever of them changes, the key is another."""
    tape, asked = bytearray(range(32)), [0]

    def source(size: int | None = None) -> bytes:
        size = 32 if size is None else size
        first = asked[0]
        asked[0] += size
        return bytes(tape[first : first + size])

    for where in ("os.urandom", "random._urandom", "secrets.token_bytes"):
        monkeypatch.setattr(where, source, raising=False)

    def drawn() -> bytes:
        asked[0] = 0
        secret = Key.from_os().secret
        assert asked[0] == 32
        return secret

    keys = {drawn()}
    for place in range(32):
        tape[place] ^= 1
        keys.add(drawn())
        tape[place] ^= 1
    assert drawn() in keys
    assert len(keys) == 33
    assert {len(secret) for secret in keys} == {32}
