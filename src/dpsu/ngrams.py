"""Private n-grams of texts, length after length, by what was released one shorter."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import DataWarning, ParameterError
from dpsu.inputs.columns import check_names
from dpsu.ledger.spending import Spending
from dpsu.options import function, number, whole_number
from dpsu.plans.mechanisms import LARGEST_MAX_ITEMS, MAX_USERS, UNBOUNDED_FRACTION_BITS
from dpsu.plans.plan import Plan
from dpsu.plans.planning import DEFAULT_ITEM, DEFAULT_USER, check_types
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.releases import Progress, Release
from dpsu.rounds.ngrams import design_ngrams
from dpsu.text.source import LINES, LONGEST_GRAM, SENTENCES, Split, TextSource, tokenizer_name

if TYPE_CHECKING:
    from dpsu.ledger.ledger import Ledger

DEFAULT_MAX_ITEMS = 300
DEFAULT_SPURIOUS = 0.01


def plan_ngrams(
    *,
    text: str,
    epsilon: float,
    delta: float,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    longest: int = 3,
    tokenizer: str | Split | None = None,
    max_items: int = DEFAULT_MAX_ITEMS,
    shares: tuple[float, ...] | list[float] | None = None,
    spurious: float = DEFAULT_SPURIOUS,
    insecure_seed: int | None = None,
) -> Plan:
    """Plan :func:`dpsu.ngrams` without touching any data: its arguments less `data`.

    Privacy
    -------
    Touches no private data and spends nothing.

    Cost
    ----
    Milliseconds.

    Examples
    --------
    >>> from dpsu.ngrams import plan_ngrams
    >>> plan = plan_ngrams(text="body", epsilon=1, delta=1e-6, longest=2)
    >>> plan.theorem
    'ngrams'
    """
    privacy = Privacy(epsilon, delta)
    check_names(user=user, item=item, text=text)
    check_types(user_type=user_type)
    if isinstance(tokenizer, str) and tokenizer in (SENTENCES, LINES):
        raise ParameterError(f"tokenizer={tokenizer!r} makes no n-grams; use dpsu release --text")
    longest = whole_number("longest", longest, 1, LONGEST_GRAM)
    if shares is not None and not isinstance(shares, (tuple, list)):
        raise ParameterError(f"shares={shares!r} is not a list of numbers such as (1, 2, 2)")
    given = (1.0, *(2.0 for _ in range(1, longest))) if shares is None else tuple(shares)
    if len(given) != longest:
        raise ParameterError(
            f"shares has {len(given)} numbers; it needs one for each length up to {longest}"
        )
    design, split = design_ngrams(
        privacy.epsilon,
        privacy.delta,
        shares=tuple(number("shares", share, 1e-6, 1e6) for share in given),
        max_items=whole_number("max_items", max_items, 1, LARGEST_MAX_ITEMS),
        spurious=number("spurious", spurious, 1e-6, 0.5),
        fraction_bits=UNBOUNDED_FRACTION_BITS,
    )
    if insecure_seed is not None:
        insecure_seed = whole_number("insecure_seed", insecure_seed, -(2**63), 2**63 - 1)
    return Plan(
        mechanism="ngrams",
        privacy=privacy,
        calibration="tight",
        user=str(user),
        item=str(item),
        count=None,
        max_items=design.max_items,
        bounded_by="order",
        order="count",
        expected_users=None,
        min_users=None,
        counts=None,
        hints=None,
        prior=None,
        public_items=None,
        selection=design,
        cutoff=None,
        delta_split=tuple(split.items()),
        theorem="ngrams",
        proven=True,
        max_users=MAX_USERS,
        insecure_seed=insecure_seed,
        text=TextSource(text, tokenizer_name(tokenizer), 1, longest),
        user_type=user_type,
    )


def ngrams(
    data: Any,
    *,
    text: str,
    epsilon: float,
    delta: float,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    longest: int = 3,
    tokenizer: str | Split | None = None,
    max_items: int = DEFAULT_MAX_ITEMS,
    shares: tuple[float, ...] | list[float] | None = None,
    spurious: float = DEFAULT_SPURIOUS,
    insecure_seed: int | None = None,
    strict: bool = False,
    format: str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
    ledger: str | Path | Ledger | Spending | None = None,
    dataset: str | None = None,
    budget: tuple[float, float] | None = None,
) -> Release:
    """Release n-grams of all lengths up to `longest`, longer ones only of released shorter ones.

    Parameters
    ----------
    data, text, user, item, user_type, tokenizer, strict, format, memory_limit, progress, \
insecure_seed
        As for :func:`dpsu.release`.
    ledger, dataset, budget
        As for :func:`dpsu.release`.
    epsilon, delta : float
        The guarantee of the whole, for adding or removing one user with all rows.
    longest : int
        Length of the longest n-grams.
    max_items : int
        How many n-grams of each length a user weighs at most, its own most frequent ones first.
    shares : sequence of float, optional
        How the budget is shared between lengths 1, 2, ...: in proportion to these numbers, by
        default 1, 2, 2, ...
    spurious : float
        About how many n-grams come out that nobody weighed, for each n-gram released one shorter.
        More of them lower the threshold.

    Returns
    -------
    Release
        N-grams of all lengths, joined by spaces. Of length 2 and more, a few may be held by nobody:
        that is what makes their domain free of charge.

    Privacy
    -------
    (epsilon, delta)-differentially private for adding or removing one user, by
    ``dpsu proofs ngrams``.

    Cost
    ----
    Linear in the tokens for each length. Tokens stay in memory, whatever `memory_limit` says: about
    50 bytes each at the peak.

    Examples
    --------
    >>> import dpsu
    >>> posts = {f"person {n}": "so long and thanks for all the fish" for n in range(1000)}
    >>> result = dpsu.ngrams(posts, text="post", longest=2, epsilon=2, delta=1e-6)
    >>> "thanks for" in result
    True

    References
    ----------
    Kim, Gopi, Kulkarni, Yekhanin: Differentially Private n-gram Extraction, NeurIPS 2021.
    """
    import pyarrow as pa

    from dpsu.engines.local_texts import LocalSequences
    from dpsu.inputs.reading import read_texts, refuse_by_names, wanted
    from dpsu.rounds.ngrams import NGramRounds
    from dpsu.runtime.compiling import when_compiling
    from dpsu.runtime.memory import Memory, parse_size
    from dpsu.text.corpus import read_corpus

    spending = Spending.of(ledger, dataset, budget)
    plan = plan_ngrams(
        text=text, epsilon=epsilon, delta=delta, user=user, item=item, longest=longest,
        tokenizer=tokenizer, max_items=max_items, shares=shares, spurious=spurious,
        insecure_seed=insecure_seed, user_type=user_type,
    )  # fmt: skip
    assert plan.text is not None
    assert isinstance(plan.selection, NGramRounds)
    key = Key.from_os() if insecure_seed is None else Key.from_insecure_seed(insecure_seed)
    if insecure_seed is not None:
        warnings.warn("insecure_seed: this release is not private", DataWarning, stacklevel=2)
    memory = Memory(parse_size(memory_limit))
    tell = function("progress", progress)
    texts_read = 0

    def tick(texts: int) -> None:
        nonlocal texts_read
        texts_read += texts
        tell("reading", texts_read)

    if spending.path is not None:
        columns = wanted(user, text, None, texts=True, types=(user_type, None))
        refuse_by_names(data, columns, format, tokenizer)
    with spending.charged(plan):
        tell("reading", 0)
    with when_compiling(lambda: tell("compiling", 0)):
        rows = read_texts(data, user, plan.text, key=key, format=format, user_type=user_type)
        corpus = read_corpus(rows, plan.text, tokenizer, strict=strict, tick=tick)
        tell("weighing n-grams", 0)
        sequences = LocalSequences(corpus, memory, lambda users: tell("weighing n-grams", users))
        released = plan.selection.run(sequences, key)
    found = pa.concat_arrays([domain.texts for domain in released])
    spending.returned()
    return Release(plan, found.take(pa.compute.sort_indices(found)))
