"""Keys and hashes: the standard algorithms, separated by purpose, and secret where they must be."""

from __future__ import annotations

import hashlib
import hmac
import pickle

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from scipy import stats

import dpsu
from dpsu.ids import Ids
from dpsu.kernels.hashing import digests, hash_strings, hash_word
from dpsu.keys import Key, prefix, sized


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
        ("a", 1, 0, b"b"),
        ("ab", 1, 0, b""),
        ("a", 1, 0, b""),
        ("a", 0, 1, b"b"),
        ("", 1, 0, b"ab"),
        # These coincide as soon as lengths are left out, of all parts or of the purpose alone.
        ("a", 0, 0, b"\0"),
        ("a\0", 0, 0, b""),
        ("a", 0, 0, sized(b"x")),
        ("a" + 8 * "\0", 0, 9, b"x"),
    ]
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


def test_purposes_are_apart() -> None:
    """A salt may be seen, and must not be the coin or the noise of an item of that name."""
    from dpsu import auto, coins, counts, noise
    from dpsu.rounds.ngrams import HOW_MANY, WHICH

    key = Key.from_insecure_seed(1)
    purposes = (
        coins.PURPOSE, noise.PURPOSE, noise.MORE + noise.PURPOSE, counts.PURPOSE, auto.PURPOSE,
        noise.MORE + counts.PURPOSE, noise.MORE + auto.PURPOSE, HOW_MANY, WHICH, "salt",
    )  # fmt: skip
    assert len(set(purposes)) == len(purposes)
    for purpose in ("user order", "sample by item"):
        drawn = [key.digest(other, 0, 0, purpose.encode())[:8] for other in purposes[:-1]]
        assert key.salt(purpose).to_bytes(8, "big") not in drawn


def test_ids_of_one_text_hash_alike_whatever_their_type_or_slice() -> None:
    numbers = Ids(pa.array([7, -3, 10**18], pa.int64()))
    text = Ids(pa.array(["x", "7", "-3", str(10**18)], pa.large_string()).slice(1))
    assert numbers.hashes(9).tolist() == text.hashes(9).tolist()
    assert text.hashes(9)[0] == xxhash.xxh64_intdigest(b"7", seed=9)


@pytest.mark.parametrize("kind", ["user order", "sample"])
def test_salted_hashes_are_uniform_and_the_test_would_notice(kind: str) -> None:
    """Kolmogorov-Smirnov at p = 1e-20: accept [0, 1), reject it scaled by 1.3 and 0.7."""
    ids = Ids(pa.array([f"user {k}" for k in range(20_000)], pa.large_string()))
    hashes = ids.hashes(Key.from_os().salt(kind))
    if kind == "sample":
        hashes = np.array([int(hash_word(np.uint64(17), h)) for h in hashes], np.uint64)
    uniform = hashes.astype(np.float64) / 2.0**64
    assert stats.kstest(uniform, "uniform").pvalue > 1e-20
    assert stats.kstest(uniform * 1.3, "uniform").pvalue < 1e-20
    assert stats.kstest(uniform * 0.7, "uniform").pvalue < 1e-20


def test_a_release_holds_no_secret() -> None:
    result = dpsu.release({u: ["a"] for u in range(100)}, epsilon=1, delta=1e-3)
    again = pickle.loads(pickle.dumps(result))
    assert again.items == result.items
    assert again.plan == result.plan
    assert set(vars(result)) <= {"plan", "values", "counts", "prior_share", "items", "_lookup"}
