"""Errors in the shell name the way out, spelled as it is typed there and never as Python does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpsu
from tests.unit.cli.test_cli import Run

# An option as Python has it, with a value or without: `max_items=3`, `scout_items`.
PYTHON = re.compile(r"(?<![-\w])[a-z]+(?:_[a-z]+)+")
PROMISE = ("--epsilon", "1", "--delta", "1e-6")

# What is typed after `dpsu`, and what the error says of it. E stands for the promise, and ROWS, TEXTS,
# PRIOR, KNOWN, PLAN and FOLDER for files.
WRONG = """
release ROWS --epsilon 0 --delta 1e-6 => --epsilon 0.0 is out of range; it must lie between 0.0001 and 50
release ROWS --epsilon 1 --delta 2
release ROWS E --mechanism sieve --rounds 0
release ROWS E --max-items 0
release ROWS E --max-items 100 --scout-items 20
release ROWS E --mechanism sieve --passes 2 => sieve has no option --passes, which policy-laplace
release ROWS E --mechanism sieve --auto-budget 0.2 => sieve has no option --auto-budget, which auto has
release ROWS E --mechanism count-laplace => needs --max-items
release ROWS E --mechanism policy-laplace --calibration paper
release ROWS E --mechanism policy-gaussian --alpha 2 --cutoff 9
release ROWS E --mechanism policy-gaussian --cutoff 0.1
release ROWS E --mechanism policy-gaussian --cutoff 1e9 --passes 1000 --max-items 100000
release ROWS E --mechanism policy-laplace --prior PRIOR
release ROWS E --mechanism greedy --calibration paper => --allow-unproven
release ROWS E --mechanism greedy --order scarce --prior PRIOR
release ROWS E --mechanism greedy --order popular
release ROWS E --mechanism greedy --order hash --prior PRIOR
release ROWS E --mechanism greedy --expected-users 5
release ROWS E --mechanism greedy --prior ROWS
release ROWS E --mechanism greedy --prior wordfreq:xx
release ROWS E --mechanism greedy --order scarce --prior PRIOR --expected-users 2
release ROWS E --mechanism ngrams => name their column with --text
release ROWS E --mechanism auto --rounds 3
release ROWS E --auto-budget 0.2 --expected-items-per-user 3
release ROWS E --auto-budget 2
release ROWS E --counts --counts-share 2
release ROWS E --counts-share 0.5
release ROWS E --public-items nowhere.txt
release ROWS E --public-items PRIOR --item thing
release ROWS E --insecure-seed 9999999999999999999999
release ROWS E --user usr
release ROWS E --item user
release ROWS E --repeats m --mechanism greedy
release ROWS E --user-type number
release ROWS E --item-type text --text body
release ROWS E --tokenizer words => --tokenizer is for texts: name their column with --text
release TEXTS E --text bdy => name the right one with --text
release TEXTS E --text user
release TEXTS E --text body --tokenizer nope
release TEXTS E --text body --tokenizer regex:(
release TEXTS E --text body --tokenizer nowhere.json
release TEXTS E --text body --ngrams 3-1 => begins above its end
release TEXTS E --text body --ngrams 1-99
release TEXTS E --text body --mechanism ngrams --ngrams 2
release TEXTS E --text body --mechanism ngrams --counts
release FOLDER E
release nowhere.csv E
release - - E => given twice
release ROWS E --memory-limit much => --memory-limit much is not a size
release ROWS E --csv-safe
release ROWS E --output items.xyz => must end in .txt
release ROWS E --partitions 3
release ROWS E --engine spark --memory-limit 4GB
release ROWS E --engine spark --mechanism greedy
release ROWS E --source duckdb:nowhere.db
release --source mysql:x --query x E
release ROWS E --ledger FOLDER/l.db --dataset d --budget 0,1
release ROWS E --ledger FOLDER/l.db --dataset d
release ROWS E --ledger :memory: --dataset d --budget 9,1e-4
release ROWS E --ledger FOLDER/l.db
release ROWS E --ledger FOLDER/l.db --dataset d --budget 9,1e-4 --insecure-seed 1
release ROWS E --plan nowhere.json
release ROWS --plan PLAN => the plan names it; make a plan with the right --user
plan E --users 10 => a forecast needs --users and --items-per-user
plan E --users 10 --items-per-user 0.5
plan E --users 10 --items-per-user 30 --vocabulary 20
plan E --users 9 --items-per-user 3 --zipf -1
plan E --profile ROWS --zipf 1
plan E --mechanism ngrams --text body --users 9 --items-per-user 3
ngrams TEXTS E --text body --shares x => is not a list of numbers
ngrams TEXTS E --text body --shares 1,2 => one for each length up to 3
ngrams TEXTS E --text body --spurious 0
ngrams TEXTS E --text body --tokenizer lines => makes no n-grams
compare ROWS E --runs 0
compare ROWS E --mechanisms magic
compare ROWS E --mechanisms ngrams
compare ROWS E --item thing
audit --trials 0
audit --mechanism greedy --order hash --expected-users 3
ledger nowhere.db
ledger FOLDER/l.db --expect-head abc
ledger FOLDER/l.db --dataset d --set-budget 0,0
tokenizer KNOWN --output FOLDER/t.json --vocab-size 0
tokenizer KNOWN --output FOLDER/t.json --model wordpiece --special-tokens a
release ROWS --epsilon 1 => Missing option '--delta'
release ROWS E --mechanism greddy => did you mean 'greedy'?
release ROWS E --format cvs => did you mean 'csv'?
release ROWS E --item itme => name the right one with --item
release visits.xlsx E => no file 'visits.xlsx'; formats: .parquet, .csv, .tsv
compare ROWS E --mechanisms greddy --max-items 3 => --mechanisms greddy is not one of
plan E --output plan.json => dpsu plan ... --json > plan.json
plan E --html x.html => --html shows a forecast: give --users
plan E --users 9 --items-per-user 2 --html x.txt => must end in .html
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("spelling")
    contents = {
        "ROWS": ("rows.csv", "user,item,n\na,b,1\nc,d,2\n"),
        "TEXTS": ("texts.csv", "user,body\na,some words\nb,other words\n"),
        "PRIOR": ("prior.csv", "item,holders\nb,5\n"),
        "KNOWN": ("known.txt", "b\nbread\n"),
        "PLAN": ("plan.json", dpsu.plan(epsilon=1, delta=1e-6, user="person").to_json()),
    }
    for name, text in contents.values():
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    return {key: str(folder / name) for key, (name, _) in contents.items()} | {
        "FOLDER": str(folder / "empty")
    }


def test_errors_name_the_way_out_and_do_not_speak_python(
    run: Run, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in WRONG.strip().splitlines():
        typed, _, words = line.partition(" => ")
        arguments: list[str] = []
        for word in typed.split():
            name = next((name for name in files if name in word), "")
            named = word.replace(name, files[name]) if name else word
            arguments += PROMISE if word == "E" else [named]
        code, out, err = run(*arguments)
        assert code in (1, 2, 3), (typed, err)
        if words:
            assert (code, out) == (2, ""), typed
            assert words in err, (typed, err)
        assert "Traceback" not in err, typed
        assert "defect" not in err, typed
        for path in (*files.values(), str(tmp_path)):
            err = err.replace(path, "")
        assert not PYTHON.findall(err), (typed, err)
