"""Tables of what Spark was measured to take say what was measured, and no more."""

from __future__ import annotations

from typing import Any

from benchmarks import spark


def took(cpu: float, shuffles: int) -> dict[str, Any]:
    return {"seconds": cpu / 2, "cpu_s": cpu, "shuffles": shuffles, "bytes": shuffles * 2_000_000}


def result(**engines: dict[str, Any]) -> dict[str, Any]:
    told = {spark.PLAIN: took(10, 2) | {"released": None}, **engines}
    rest = {"versions": {"dpsu": "1"}, "date": "today", "cores": 2, "repeats": 2, "load": 2.0}
    return {"rows": 1234, "engines": told, **rest}


def test_a_further_round_is_a_part_of_the_difference_of_two_runs() -> None:
    engines = {spark.SIEVE_6: took(16, 13), spark.SIEVE: took(30, 41)}
    further = spark.further_rounds(engines)
    assert further == {"a further round of sieve": took(1, 2)}


def test_there_is_no_further_round_of_what_was_not_measured() -> None:
    assert spark.further_rounds({spark.SIEVE: took(30, 41)}) == {}


def test_a_table_has_shuffles_bytes_and_ratios() -> None:
    lines = spark.table(result(sieve=took(25, 41) | {"released": 7})).splitlines()
    assert f"| {spark.PLAIN} (not private) |  | 2 | 4 | 10.0 | 1.00 | 5.0 | 1.00 |  |" in lines
    assert "| sieve | 20 | 41 | 82 | 25.0 | 2.50 | 12.5 | 2.50 | 7 |" in lines


def test_what_a_peer_shuffles_is_not_known() -> None:
    peer = {"seconds": 50, "cpu_s": 80, "released": 3}
    lines = spark.table(result(**{spark.PEER: peer})).splitlines()
    assert "| PipelineDP |  |  |  | 80.0 | 8.00 | 50.0 | 10.00 | 3 |" in lines
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert widths == {10}


def test_results_of_other_sizes_are_kept_apart() -> None:
    assert spark.results_of("M") == spark.RESULTS
    assert spark.results_of("100M").name == "spark-100M.json"


def test_a_table_says_under_which_conditions_it_was_measured() -> None:
    quiet = result()
    assert "best of 2 runs, at a load of 2.0 on 2 cores" in spark.table(quiet)
    assert "other work" not in spark.table(quiet)
    busy = spark.table(quiet | {"repeats": 1, "load": 12.0})
    assert "Each was run once, at a load of 12.0" in busy
    assert "other work was running" in busy
