"""The data that the papers' experiments run on here: made up, shared, or the original files.

- synthetic: always there. Shaped like the papers' Reddit set, and stands for it.
- airbnb_reviews, acl_first_author, steam_200k, fimi_retail: Parquet files of a given folder. They
  stand for nothing that was published.
- reddit, twitter, finance: the papers' own data, where a given folder holds their files, read by
  `paper_texts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import paper_numbers, yields
from benchmarks.paper_priors import made_up_prior
from benchmarks.paper_texts import LOADERS, Loader, count_holders
from dpsu.contributions.grouped import Contributions, arrange
from dpsu.contributions.pairs import Pairs
from dpsu.inputs.public import Prior, read_prior
from dpsu.yields.made_up import REDDIT_USERS, reddit_like

SHARED = ("airbnb_reviews", "acl_first_author", "steam_200k", "fimi_retail")
SHARED_PRIORS = {
    "reddit posts": "public_reddit_posts.parquet",
    "imdb reviews": "public_imdb_reviews.parquet",
    "wordfreq": "public_wordfreq_en.parquet",
}
TITLES = {
    "synthetic": "Reddit, made up",
    **{name: yields.NAMES[name] for name in SHARED},
    "reddit": "Reddit, the papers' file",
    "twitter": "Twitter, the papers' file",
    "finance": "Finance, the papers' file",
}

# The default of `reddit_like` is fitted to what the papers say of their data: Gopi's Tables 1 and 3
# and the vocabulary. Those leave the words of more than 25 users open, but Gopi's results do not:
# what count-laplace and count-gaussian release depends on nothing but numbers of holders. So these
# segments are fitted to the published sizes of those two as well, by least squares on the logarithm
# of what independent draws would give. Nothing else of the papers' results was used.
SEGMENTS = (
    (100, 1.0),
    (650, 1.169),
    (2_200, 1.157),
    (5_000, 1.255),
    (11_000, 1.681),
    (25_000, 1.748),
    (69_100, 2.131),
    (216_200, 0.0),
)
SEED = 1
# Words that a user of the made-up corpus draws on average, with repetitions: it turns the
# probability of a word into the share of users who hold it.
DRAWS = 50

Words = Callable[[str], Iterable[str]]


@dataclass(repr=False)
class Corpus:
    """Who holds what, and the public knowledge there is for it. Private; for benchmarks only.

    Parameters
    ----------
    name
        A key of `TITLES`.
    pairs
        Interned rows with local counts.
    stands_for
        The set of the papers whose published numbers belong beside these, or "".
    observations
        Number of texts, where there are any.
    priors
        Public counts by name.
    """

    name: str
    pairs: Pairs
    stands_for: str = ""
    observations: int | None = None
    priors: dict[str, Prior] = field(default_factory=dict)

    @cached_property
    def _held(self) -> Contributions:
        orders = np.arange(len(self.pairs.users)), np.arange(len(self.pairs.items))
        return arrange(self.pairs, *orders, with_repeats=True)

    @cached_property
    def set_sizes(self) -> NDArray[np.int64]:
        """Items of every user."""
        return self._held.sizes

    @cached_property
    def holders(self) -> NDArray[np.int64]:
        """Users of every item."""
        held, n = self._held, len(self.pairs.items)
        ends = np.zeros(len(held.items) + 1, np.int64)
        np.add.at(ends, held.start, 1)
        np.add.at(ends, held.stop, -1)
        kept = np.cumsum(ends[:-1]) > 0
        return np.bincount(held.items[kept], minlength=n).astype(np.int64)


def corpora(
    folder: Path | None, *, users: int = REDDIT_USERS, only: Iterable[str] = ()
) -> Iterator[Corpus]:
    """Everything that can be had, one after the other, so that one is held at a time."""
    wanted = set(only) or set(TITLES)
    if "synthetic" in wanted:
        yield synthetic(users)
    if folder is None:
        return
    for name in SHARED:
        if name in wanted and (folder / f"{name}.parquet").exists():
            texts = name in yields.TEXTS
            yield Corpus(
                name, yields.interned(yields.rows_of(name, folder)),
                priors=shared_priors(folder) if texts else {},
            )  # fmt: skip
    for name in paper_numbers.PRIVATE:
        paths = files_of(LOADERS[name], folder)
        if name in wanted and paths:
            yield original(LOADERS[name], paths, folder)


def synthetic(users: int = REDDIT_USERS) -> Corpus:
    """The made-up corpus with one made-up prior for each public set of Carvalho et al."""
    corpus = Corpus(
        "synthetic", yields.interned(reddit_like(users, seed=SEED, segments=SEGMENTS)), "reddit"
    )
    rates = expected_shares(corpus.pairs.items.values)
    for seed, (name, (_, beside)) in enumerate(paper_numbers.CARVALHO_TABLE_3.items()):
        percent, correlation = beside["reddit"]
        corpus.priors[name] = made_up_prior(
            corpus.pairs.items.values, rates,
            overlap=percent / 100, correlation=correlation, seed=seed,
        )  # fmt: skip
    return corpus


def expected_shares(items: pa.Array) -> NDArray[np.float64]:
    """Share of users expected to hold each made-up word, by the rank in its name.

    A public corpus knows the language, not the private users: priors are made of this, never of
    who turned out to hold what.
    """
    ends, exponents = np.array(SEGMENTS, np.float64).T
    knots = np.log(np.concatenate(([1.0], ends)))
    falls = np.concatenate(([0.0], np.cumsum(-exponents * np.diff(knots))))
    total = np.exp(np.interp(np.log(np.arange(1, int(ends[-1]) + 1)), knots, falls)).sum()
    ranks = np.array([int(word[1:]) for word in items.to_pylist()], np.float64)
    chances: NDArray[np.float64] = np.exp(np.interp(np.log(ranks), knots, falls)) / total
    shares: NDArray[np.float64] = -np.expm1(-DRAWS * chances)
    return shares


def shared_priors(folder: Path) -> dict[str, Prior]:
    """Public counts that are shared beside the sets."""
    found = {name: folder / file for name, file in SHARED_PRIORS.items()}
    return {name: read_prior(str(path)) for name, path in found.items() if path.exists()}


def original(loader: Loader, paths: list[Path], folder: Path) -> Corpus:
    """One of the papers' private sets, with all public ones whose files are given."""
    words = words_of(loader)
    held: dict[str, Counter[str]] = {}
    observations = 0
    for table in loader.tables(paths):
        observations += len(table)
        for user, text in zip(table["user"].to_pylist(), table["text"].to_pylist(), strict=True):
            held.setdefault(user, Counter()).update(words(text))
    rows = pa.table(
        {
            "user": [user for user, counts in held.items() for _ in counts],
            "item": [word for counts in held.values() for word in counts],
            "count": [number for counts in held.values() for number in counts.values()],
        }
    )
    priors = {}
    for name in paper_numbers.PUBLIC:
        public = LOADERS[name]
        if given := files_of(public, folder):
            counted = count_holders(public, public.tables(given), words_of(public))
            priors[name] = read_prior(counted)
    return Corpus(loader.name, yields.interned(rows), loader.name, observations, priors)


def words_of(loader: Loader) -> Words:
    """Texts to words as the papers do it; the Reddit file is tokenized already."""
    if loader.name == "reddit":
        return str.split
    from dpsu.text.paper_preprocessing import splitter

    return splitter()


def files_of(loader: Loader, folder: Path) -> list[Path]:
    """The first of a loader's files that the folder holds."""
    return [folder / name for name in loader.files if (folder / name).exists()][:1]
