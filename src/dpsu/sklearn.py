"""A private vocabulary as scikit-learn knows vocabularies: fit, transform, feature names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError, warn, without_values
from dpsu.inputs.columns import ONE_PER_ENTRY, DefaultName
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.spending import Spending
from dpsu.plans.mechanisms import Mechanism
from dpsu.releases import release
from dpsu.results import Release
from dpsu.runtime.extras import load
from dpsu.text.spec import Split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

load("sklearn")

from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

ROW = "row"
USER, TEXT, WORD = "group", "text", DefaultName("word")
LEARNED = ("release_", "vocabulary_")


class PrivateVocabulary(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a differentially private vocabulary, and count its words in any texts.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for adding or removing one group (a person) with all of its texts.
    mechanism : str or Mechanism, optional
        As for :func:`dpsu.release`; auto by default.
    tokenizer : str or callable, optional
        As for :func:`dpsu.release`; ``"words"`` by default.
    ngram_range : (int, int)
        Shortest and longest n-grams.
    groups : {None, "row"}
        ``"row"`` says that each text is a person of its own, so that `fit` needs no groups.
    binary : bool
        Whether `transform` shows only that a word is there, and not how often.
    insecure_seed : int, optional
        Repeatable randomness for tests; the vocabulary then carries no guarantee.
    ledger : optional
        Where every `fit` is charged, as for :func:`dpsu.release`.

    Attributes
    ----------
    vocabulary_ : dict
        Released words and their columns, as ``CountVectorizer(vocabulary=...)`` takes them. Give
        it ``analyzer=build_analyzer()`` too, so that it splits texts as this does.
    release_ : Release
        Words, plan and report: safe to publish.

    Notes
    -----
    **Privacy.** `vocabulary_`, `release_` and a pickle of the estimator are (epsilon,
    delta)-differentially private. Every `fit` spends epsilon and delta again. Before the charge,
    `fit` looks at the types and lengths of its arguments, and makes lists of iterators; it looks at
    no single text or group. Python objects are read as text, one by one; typed arrays and series
    keep their types. Texts and groups that cannot be read are dropped with a warning. What
    `transform` returns is computed from the texts it is given and reveals as much as they do.

    **Cost.** That of :func:`dpsu.release`; `transform` is linear in the text.

    Examples
    --------
    >>> from dpsu.sklearn import PrivateVocabulary
    >>> texts = ["fresh bread", "fresh milk"] * 500
    >>> people = [number // 2 for number in range(1000)]
    >>> words = PrivateVocabulary(epsilon=3, delta=1e-5).fit(texts, groups=people)
    >>> words.get_feature_names_out().tolist()
    ['bread', 'fresh', 'milk']
    >>> words.transform(["Milk, more milk!"]).toarray().tolist()
    [[0, 0, 2]]
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        mechanism: str | Mechanism | None = None,
        tokenizer: str | Split | None = None,
        ngram_range: tuple[int, int] = (1, 1),
        groups: str | None = None,
        binary: bool = False,
        insecure_seed: int | None = None,
        ledger: Spending | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.tokenizer = tokenizer
        self.ngram_range = ngram_range
        self.groups = groups
        self.binary = binary
        self.insecure_seed = insecure_seed
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> PrivateVocabulary:  # noqa: N803
        """Release a vocabulary of texts; this spends epsilon and delta.

        Parameters
        ----------
        X : iterable of str
            Texts.
        y : ignored
            There for pipelines.
        groups : array-like, or "row"
            The person behind each text; ``"row"`` if each text is a person.

        Returns
        -------
        PrivateVocabulary
            Itself.
        """
        del y
        texts = _cells("texts", X)
        people = self._people(groups)
        if people is not None and len(people) != len(texts):
            raise ParameterError("groups is longer or shorter than the texts; give one for each")
        if hasattr(self, "release_"):
            warn(
                "this vocabulary was fitted before: fitting again spends epsilon="
                f"{self.epsilon:g} and delta={self.delta:g} once more for the same people"
            )
        found = release(
            {TEXT: texts} if people is None else {USER: people, TEXT: texts},
            user=ONE_PER_ENTRY if people is None else USER,
            item=self._tokens(),
            epsilon=self.epsilon,
            delta=self.delta,
            mechanism=self.mechanism,
            insecure_seed=self.insecure_seed,
            ledger=self.ledger,
        )
        self.release_: Release = found
        self.vocabulary_ = {str(word): column for column, word in enumerate(found.items)}
        return self

    def _people(self, groups: Any) -> Any:
        for given in (self.groups, groups):
            if isinstance(given, str) and given != ROW:
                raise ParameterError(f"groups={given!r} is neither one id for each text nor 'row'")
        if self.groups is not None and not isinstance(self.groups, str):
            raise ParameterError("groups of the estimator must be None or 'row'; give ids to fit")
        if groups is None:
            groups = self.groups
        if groups is None:
            raise ParameterError(
                "fit needs groups, the person behind each text: fit(texts, groups=users); "
                "groups='row' says that each text is a person of its own"
            )
        return None if isinstance(groups, str) else _cells("groups", groups)

    def transform(self, X: Any) -> csr_matrix:  # noqa: N803
        """Count the words of the vocabulary in each text.

        Parameters
        ----------
        X : iterable of str
            Texts, confidential or not.

        Returns
        -------
        scipy.sparse.csr_matrix
            A row for each text and a column for each word.
        """
        check_is_fitted(self, "vocabulary_")
        import numpy as np
        import pyarrow as pa
        from scipy.sparse import csr_matrix

        from dpsu.contributions.ids import canonical
        from dpsu.text.grams import items_of_rows
        from dpsu.text.tokenizing import tokenize_by

        texts = canonical(TEXT, _texts(X))
        held = items_of_rows(
            tokenize_by(self.tokenizer)(texts), self._tokens().source, with_repeats=True
        )
        known = self.release_.values.cast(pa.large_string())
        columns = pa.compute.index_in(canonical(TEXT, held.texts), value_set=known)
        places = columns.fill_null(-1).to_numpy(zero_copy_only=False)[held.items]
        there = places >= 0
        assert held.repeats is not None
        counts: NDArray[np.int64] = held.repeats[there].astype(np.int64)
        shape = len(texts), len(self.vocabulary_)
        counted = csr_matrix((counts, (held.rows[there], places[there])), shape=shape)
        counted.sum_duplicates()
        if self.binary:
            counted.data[:] = 1
        return counted

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The words, in the order of their columns."""
        del input_features
        check_is_fitted(self, "vocabulary_")
        import numpy as np

        return np.array(list(self.vocabulary_), object)

    def build_analyzer(self) -> Callable[[str], list[str]]:
        """A function from a text to its items, repeated ones too, for ``CountVectorizer``.

        Returns
        -------
        callable
            With it, a CountVectorizer of this vocabulary counts as `transform` does.
        """
        from dpsu.contributions.ids import canonical
        from dpsu.text.grams import items_of_rows
        from dpsu.text.tokenizing import tokenize_by

        source, tokenize = self._tokens().source, tokenize_by(self.tokenizer)

        def analyze(text: str) -> list[str]:
            one = canonical(TEXT, _texts([text]))
            held = items_of_rows(tokenize(one), source, with_repeats=True)
            assert held.repeats is not None
            names = canonical(TEXT, held.texts).to_pylist()
            counted = zip(held.items, held.repeats, strict=True)
            return [names[item] for item, count in counted for _ in range(count)]

        return analyze

    def _tokens(self) -> Tokens:
        return Tokens(TEXT, self.tokenizer, self.ngram_range, WORD)

    def __getstate__(self) -> dict[str, Any]:
        # Parameters and the release, whatever else a subclass or a user hung on the object.
        state: dict[str, Any] = super().__getstate__()
        kept = {*self.get_params(deep=False), *LEARNED, "_sklearn_output_config"}
        return {name: value for name, value in state.items() if name in kept}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.non_deterministic = True
        return tags


def _cells(name: str, given: Any) -> Any:
    """Cells as :func:`dpsu.release` takes a column; none of them is looked at."""
    kind, dimensions = type(given).__name__, getattr(given, "ndim", 1)
    if hasattr(given, "columns") or dimensions > 1:
        # Iterating a frame yields the names of its columns.
        raise ParameterError(
            f"{name} are a {kind}, which has columns; give the one that holds the {name}: "
            "fit(frame['text'], groups=frame['user'])"
        )
    whole = isinstance(given, (str, bytes, Mapping, Set))
    if whole or not hasattr(given, "__iter__") or not dimensions:
        raise ParameterError(
            f"{name} must be an iterable of {name}, one for each document, not a {kind}; for one "
            f"document: [{name.removesuffix('s')}]"
        )
    return given if hasattr(given, "__len__") else list(given)


def _texts(given: Any) -> Any:
    """Texts to transform; none may be missing, because each gets a row."""
    import pyarrow as pa

    cells = _cells("texts", given)
    texts = cells.tolist() if hasattr(cells, "tolist") else list(cells)
    if not all(isinstance(text, str) for text in texts):
        raise ParameterError("texts must be an iterable of texts; something in it is not a text")
    return without_values(
        lambda: pa.array(texts, pa.large_string()), "a text has lone surrogates; repair it"
    )
