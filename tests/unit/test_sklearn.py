"""The scikit-learn face: conventions, pipelines, groups, and what a pickle holds."""

from __future__ import annotations

import datetime
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks

import dpsu
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.sklearn import PrivateVocabulary

TEXTS = [f"fresh {'bread' if k % 2 else 'milk'} and secret{k} things" for k in range(2000)]
PEOPLE = [f"person {k // 2}" for k in range(2000)]
# Weights without a cutoff grow far beyond the threshold, so these releases cannot fail by chance.
SURE = "weighted-gaussian"
WORDS = ["and", "bread", "fresh", "milk", "things"]


def vocabulary(**options: Any) -> PrivateVocabulary:
    return PrivateVocabulary(3.0, 1e-13, **({"mechanism": SURE} | options))


def fitted(**options: Any) -> PrivateVocabulary:
    return vocabulary(**options).fit(TEXTS, groups=PEOPLE)


def test_tables_and_single_texts_are_told_the_way_out() -> None:
    frame = pd.DataFrame({"text": TEXTS, "user": PEOPLE})
    way_out = r"fit\(frame\['text'\], groups=frame\['user'\]\)"
    with pytest.raises(dpsu.ParameterError, match=way_out):
        vocabulary().fit(frame, groups="row")
    with pytest.raises(dpsu.ParameterError, match=r"not a str; for one document: \[text\]"):
        vocabulary().fit("hello", groups="row")


def test_scikit_learns_own_checks() -> None:
    # Of estimators of text, its own CountVectorizer too, scikit-learn can test a part only.
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = estimator_checks.check_estimator(
            PrivateVocabulary(3.0, 1e-4, groups="row", insecure_seed=1)
        )
    assert results
    assert {result["status"] for result in results} == {"passed"}


def test_checks_that_need_no_arrays() -> None:
    for check in (
        "no_attributes_set_in_init", "parameters_default_constructible", "get_params_invariance",
        "set_params", "estimator_repr", "valid_tag_types", "estimator_tags_renamed", "mixin_order",
    ):  # fmt: skip
        estimator = PrivateVocabulary(3.0, 1e-4, groups="row", insecure_seed=1)
        getattr(estimator_checks, f"check_{check}")("PrivateVocabulary", estimator)


def test_a_vocabulary_is_learned_and_counted() -> None:
    words = fitted()
    assert list(words.vocabulary_) == WORDS
    assert words.get_feature_names_out().tolist() == WORDS
    matrix = words.transform(["Bread, bread & MILK!", "", "secret1"])
    assert matrix.toarray().tolist() == [[0, 2, 0, 1, 0], [0] * 5, [0] * 5]
    assert matrix.dtype == np.int64
    assert words.release_.private
    first, second = fitted(insecure_seed=3), fitted(insecure_seed=3)
    assert first.vocabulary_ == second.vocabulary_
    assert not first.release_.private
    assert fitted(binary=True).transform(["bread bread"]).toarray().tolist() == [[0, 1, 0, 0, 0]]


def test_count_vectorizer_counts_the_same() -> None:
    for ngrams in [(1, 1), (1, 2)]:
        words = fitted(ngram_range=ngrams, mechanism="weighted-gaussian")
        assert len(words.vocabulary_) >= len(WORDS), ngrams
        theirs = CountVectorizer(vocabulary=words.vocabulary_, analyzer=words.build_analyzer())
        texts = ["Fresh bread and fresh milk", "things and things", "nothing here"]
        assert (theirs.transform(texts) != words.transform(texts)).nnz == 0, ngrams
        plain = CountVectorizer(vocabulary=words.vocabulary_, ngram_range=ngrams)
        assert plain.transform(texts).sum() == words.transform(texts).sum(), ngrams


def test_it_works_in_pipelines_and_searches() -> None:
    labels = [k % 2 for k in range(2000)]
    pipe = Pipeline([("words", vocabulary()), ("model", LogisticRegression())])
    pipe.fit(TEXTS, labels, words__groups=PEOPLE)
    assert pipe.predict(["fresh bread", "milk"]).tolist() == [1, 0]
    assert pipe[:-1].get_feature_names_out().tolist() == WORDS
    pipe.set_params(words__groups="row")
    search = GridSearchCV(pipe, {"words__epsilon": [2.0, 4.0]}, cv=2)
    assert search.fit(TEXTS, labels).best_score_ > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "ngram_range" in vocabulary()._repr_html_()


def test_fit_refuses_without_groups() -> None:
    for given, groups, words in (
        (None, None, r"fit\(texts, groups=users\)"),
        (None, "rows", "nor 'row'"),
        (None, PEOPLE[:-1], "give one for each"),
        (PEOPLE, None, "give ids to fit"),
    ):
        with pytest.raises(dpsu.ParameterError, match=words):
            vocabulary(groups=given).fit(TEXTS, groups=groups)
    assert "fresh" in vocabulary(groups="row").fit(TEXTS).vocabulary_
    assert "fresh" in vocabulary().fit(TEXTS, groups="row").vocabulary_
    for use in ("transform", "get_feature_names_out"):
        with pytest.raises(NotFittedError):
            getattr(vocabulary(), use)(["x"])


def test_texts_and_groups_of_any_kind() -> None:
    for kind in [list, np.array, pd.Series]:
        words = vocabulary().fit(kind(TEXTS), groups=kind(PEOPLE))
        assert list(words.vocabulary_) == WORDS, kind
    numbers = vocabulary().fit(TEXTS, groups=np.arange(2000) // 2)
    assert list(numbers.vocabulary_) == WORDS


def test_what_is_no_list_of_texts_is_refused() -> None:
    words = fitted()
    for wrong in ("one text", 5, {"a": "b"}, {"a"}, np.array("a")):
        for use in (words.transform, vocabulary(groups="row").fit):
            with pytest.raises(ValueError, match="texts must be an iterable of texts"):
                use(wrong)
        with pytest.raises(
            ValueError, match=r"groups(='one text' is neither| must be an iterable of)"
        ):
            vocabulary().fit(TEXTS, groups=wrong)
    for several in (np.array([TEXTS]), pd.DataFrame({"text": TEXTS})):
        with pytest.raises(ValueError, match=r"groups are a \w+, which has columns"):
            vocabulary().fit(TEXTS, groups=several)
    for missing in (b"bytes", None):
        with pytest.raises(ValueError, match="something in it is not a text"):
            words.transform([missing])


def test_fitting_again_warns_that_budget_is_spent_again() -> None:
    words = fitted()
    with pytest.warns(dpsu.DataWarning, match="spends epsilon=3 and delta=1e-13 once more"):
        words.fit(TEXTS, groups=PEOPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(words).fit(TEXTS, groups=PEOPLE)


def test_a_pickle_holds_the_release_and_nothing_else() -> None:
    words = fitted()
    words.stray = TEXTS
    data = pickle.dumps(words)
    for private in (b"secret", b"person "):
        assert private not in data
    again = pickle.loads(data)
    assert again.vocabulary_ == words.vocabulary_
    assert again.release_.items == words.release_.items
    assert (again.transform(TEXTS[:5]) != words.transform(TEXTS[:5])).nnz == 0
    assert set(vars(words)) == {*words.get_params(), "release_", "vocabulary_", "stray"}


def handed_on(texts: Any, groups: Any) -> tuple[Any, Any]:
    """What `fit` gives to `dpsu.release`: data, and options."""
    with pytest.MonkeyPatch.context() as patch:
        release = Mock(side_effect=ZeroDivisionError)
        patch.setattr("dpsu.sklearn.release", release)
        with pytest.raises(ZeroDivisionError):
            vocabulary().fit(texts, groups=groups)
    return release.call_args.args[0], release.call_args.kwargs


def held(texts: list[Any], groups: list[Any]) -> set[tuple[str, str]]:
    """Which group holds which word, as the release reads it."""
    data, options = handed_on(texts, groups)
    source = Source(data, dpsu.Users(options["user"]), options["item"])
    pairs = source.pairs(Key.from_insecure_seed(1), with_repeats=False)
    users, items = pairs.users.values.to_pylist(), pairs.items.values.to_pylist()
    rows = [block.complete_rows() for block in pairs.blocks]
    return {
        (users[u], items[i])
        for block in rows
        for u, i in zip(block.users, block.items, strict=True)
    }


def test_the_cell_of_one_person_does_not_change_how_others_are_read() -> None:
    words = ["bread", "milk", "soup"] * 2
    times = [datetime.datetime(2024, 1, 1, hour) for hour in range(3)]
    strange = [
        b"Zz", times[0].date(), 1.5, "Zz\ud800", 2**70, True, object(), ["Zz"], None, 2**5000,
    ]  # fmt: skip
    for three in (["Ann", "Bob", "Eve"], [1, 2, 3], [2**70, 2**70 + 1, 1], times):
        groups: list[Any] = three * 2
        others = held(words, groups)
        assert len(others) == len({user for user, _ in others}) == 3, groups
        for cell in strange:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                by_cell = held([*words, "x"], [*groups, cell])
                with_cell = held([*words, cell], [*groups, "x"])
            assert {row for row in by_cell if row[1] != "x"} == others, cell
            assert {row for row in with_cell if row[0] != "x"} == others, cell
            assert "Zz" not in "".join(str(each.message) for each in caught), cell


def test_typed_groups_keep_their_types() -> None:
    floats = np.arange(2000) / 2
    for groups in (floats, pd.Series(floats), pa.array(floats)):
        with pytest.raises(dpsu.DataError, match=r"'group' has type double.*round them"):
            vocabulary().fit(TEXTS, groups=groups)


def test_texts_are_not_quoted_in_errors() -> None:
    broken = [*TEXTS[:-1], "Zzsecret \ud800"]
    words = fitted()
    with pytest.raises(dpsu.DataError, match="surrogates") as caught:
        words.transform(broken)
    assert "Zz" not in repr(caught.value)
    with (
        pytest.warns(dpsu.DataWarning, match="some cells of 'text' have no text"),
        pytest.warns(dpsu.DataWarning, match="some rows have no text"),
    ):
        assert list(vocabulary(groups="row").fit(broken).vocabulary_) == WORDS


def test_a_group_without_a_name_is_left_out() -> None:
    integers = pd.Series([None, *(k // 2 for k in range(1999))], dtype="Int64")
    for people in ([None, *PEOPLE[1:]], integers):
        with pytest.warns(dpsu.DataWarning, match="have no 'group'"):
            PrivateVocabulary(3.0, 1e-13).fit(TEXTS, groups=people)


def test_a_fit_is_charged_before_it_reads(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    account = ledger.dataset("posts", budget=(3, 1e-5))
    charged: list[bool] = []

    class Cells(list[str]):
        """Cells that note whether there is a charge when they are looked at."""

        def __iter__(self) -> Iterator[str]:
            charged.append(ledger.datasets() == ["posts"])
            return super().__iter__()

    made = vocabulary(ledger=account, mechanism="weighted-laplace")
    made.fit(Cells(TEXTS), groups=Cells(PEOPLE))
    assert set(charged) == {True}
    assert made.get_feature_names_out().tolist() == WORDS
    (entry,) = ledger.account("posts").releases
    assert (entry.state, entry.mechanism) == ("done", "weighted-laplace")
    assert entry.run == made.release_.run.id
    assert entry.plan_hash == made.release_.plan.hash
    assert made.release_.run.dataset == "posts"
    # Copies spend from the same ledger, and what was learned can be kept by whoever has none.
    for copied in (clone(made), pickle.loads(pickle.dumps(clone(made)))):
        with pytest.raises(dpsu.BudgetError):
            copied.fit(TEXTS, groups=PEOPLE)
        assert not hasattr(copied, "release_")
    assert pickle.loads(pickle.dumps(made)).vocabulary_ == made.vocabulary_
    assert len(ledger.account("posts").releases) == 1
    with pytest.raises(dpsu.ParameterError, match="needs the name under which releases add up"):
        fitted(ledger=ledger)
    unused = ledger.dataset("new", budget=(3, 1e-5))
    with pytest.raises(dpsu.ParameterError, match="one for each"):
        vocabulary(ledger=unused).fit(TEXTS, groups=PEOPLE[1:])
    assert ledger.datasets() == ["posts"]
