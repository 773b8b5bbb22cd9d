"""Plans in files: plain values, a hash of what was decided, and nothing believed.

A file says what somebody decided (mechanism, guarantee, columns) and what follows from it. Only the
first part is read; the second is computed again and compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpsu._version import __version__
from dpsu.errors import REFUSED, ParameterError
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.inputs.values import Values
from dpsu.options import options_of
from dpsu.plans.mechanisms import Choice, Design, Mechanism, OneShot, by_name
from dpsu.privacy.guarantee import Privacy
from dpsu.text.spec import FUNCTION, FunctionName, tokenizer_name

if TYPE_CHECKING:
    from dpsu.plans.plan import Plan

FORMAT = 3
DECIDED = {
    "format", "version", "privacy", "mechanism", "user", "item", "insecure_seed", "counts",
    "public_items", "tokenizer_file", "hints", "selected",
}  # fmt: skip
DERIVED = {"derived", "hash"}
TOLERANCE = 1e-9
# It is printed, and must not look like anything else.
VERSION = re.compile(r"[0-9A-Za-z.+!-]{1,40}")
ANEW = "Make a new plan with dpsu.plan (dpsu plan --json), and have that approved"
T = TypeVar("T")


def decided(plan: Plan) -> dict[str, Any]:
    """What somebody decided: all else follows."""
    return {
        "format": FORMAT,
        "version": plan.version,
        "privacy": plan.privacy.numbers,
        "mechanism": plan.mechanism.to_dict(),
        "user": users_to_dict(plan.user),
        "item": items_to_dict(plan.item),
        "insecure_seed": plan.insecure_seed,
        **{
            name: None if getattr(plan, name) is None else vars(getattr(plan, name))
            for name in ("counts", "public_items", "tokenizer_file", "hints", "selected")
        },
    }


def derived(plan: Plan) -> dict[str, Any]:
    """What follows, for people and programs that do not compute it."""
    return {
        **design_to_dict(plan.design),
        "delta_split": [list(part) for part in plan.delta_split],
        "noisy_counts": None if plan.noisy_counts is None else vars(plan.noisy_counts),
        "private": plan.private,
    }


def plan_hash(decided: dict[str, Any]) -> str:
    """SHA-256 of what was decided, whatever the order of its parts."""
    try:
        text = json.dumps(decided, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise ParameterError("a plan holds finite numbers only") from None
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """A copy of nested values as JSON has them: nobody changes a plan by what it handed out."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object, refused if a name stands twice: people read the first."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def text_of(path: str | os.PathLike[str]) -> str:
    """The text of the file of a plan."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ParameterError(f"the plan in {str(path)!r} cannot be read: {reason}") from None


def parse(text: str) -> dict[str, Any]:
    """Plain values of a file, if it is a plan at all."""
    try:
        values = json.loads(text, object_pairs_hook=unique)
    except (ValueError, TypeError, RecursionError):
        raise ParameterError(_no_json(text)) from None
    refuse_other_values(values)
    found: dict[str, Any] = values
    return found


def _no_json(text: Any) -> str:
    if isinstance(text, os.PathLike) or (
        isinstance(text, str) and not re.search(r"[\n{]", text) and text.endswith(".json")
    ):
        return "this is the name of a file, not a plan; dpsu.Plan.read(path) reads the file"
    return "this is not a plan: it is not JSON"


def refuse_other_values(values: Any) -> None:
    """Refuse what is no plan of this format, and say what it is instead."""
    found = values.get("format") if isinstance(values, dict) else None
    if isinstance(values, dict) and isinstance(values.get("plan"), dict):
        what = "a forecast" if "by_mechanism" in values else "a report"
        raise ParameterError(f"this is {what}, not a plan; its plan is under 'plan'")
    if not isinstance(values, dict) or type(found) is not int or not {"mechanism"} <= set(values):
        raise ParameterError(
            "this is JSON, but not a plan: Plan.to_json and dpsu plan --json write plans"
        )
    if found != FORMAT:
        raise ParameterError(
            f"this is a plan of format {found}, and this dpsu knows format {FORMAT}. {ANEW}"
        )


def facts_of(values: dict[str, Any]) -> dict[str, Any]:
    """The parts of a plan, none missing and none unknown."""
    refuse_other_values(values)
    _refuse_other_parts(values, DECIDED | DERIVED, "it")
    if not isinstance(values["version"], str) or not VERSION.fullmatch(values["version"]):
        raise ParameterError("this is not a plan as dpsu writes it: its version is none")
    return values


def build(kind: type[T], values: Any) -> T:
    """An object of plain values, refused if they are not the fields of its class."""
    _refuse_other_parts(values, _names(kind), f"its {kind.__name__}")
    return kind(**values)


def _refuse_other_parts(values: Any, names: set[str], owner: str) -> None:
    """Refuse an object that lacks a part, or has one that is unknown; says which."""
    begun = f"this is not a plan as dpsu writes it: {owner} "
    if not isinstance(values, dict):
        raise ParameterError(f"{begun}has no parts")
    for name in sorted(names ^ set(values)):
        what = "no" if name in names else "an unknown"
        raise ParameterError(f"{begun}has {what} {name[:40]!r}")


def _names(kind: type) -> set[str]:
    return {each.name for each in fields(kind)}


def mechanism_from_dict(values: Any, knowledge: type[Any]) -> Mechanism:
    """The mechanism that `Mechanism.to_dict` described; public data by their digest."""
    if not isinstance(values, dict) or "name" not in values:
        raise ParameterError("this is not a plan as dpsu writes it: its mechanism has no name")
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name != "name"
    }
    if options.get("prior") is not None:
        options["prior"] = build(knowledge, options["prior"])
    made = by_name(values["name"], **options)
    _refuse_other_parts(options, _names(type(made)), f"its {made.name}")
    return made


def privacy_from_dict(values: Any) -> Privacy:
    """Epsilon and delta; for how many ids of a person, the users say."""
    _refuse_other_parts(values, {"epsilon", "delta"}, "its Privacy")
    return Privacy(**values)


def users_to_dict(user: Users) -> dict[str, Any]:
    """Columns and type of users, as a plan's file has them."""
    values = {"columns": _written(user.columns), "type": user.type}
    # Where one id is one person, a plan is the one that it was before anybody could say otherwise.
    return values | ({"ids_per_person": user.ids_per_person} if user.ids_per_person > 1 else {})


def _written(columns: str | Sequence[str]) -> str | list[str]:
    """One name, or a list of several."""
    return str(columns) if isinstance(columns, str) else list(columns)


def users_from_dict(values: Any) -> Users:
    """What `users_to_dict` wrote, checked and read back."""
    user = build(Users, {"ids_per_person": 1} | values if isinstance(values, dict) else values)
    # Nobody typed a default; it was written all the same.
    return user if user.columns != DEFAULT_USER else replace(user, columns=DEFAULT_USER)


def items_to_dict(item: Items | Tokens) -> dict[str, Any]:
    """Where items are, in plain values; a function that makes tokens by its name."""
    if isinstance(item, Values):
        return {
            "columns": _written(item.columns),
            "levels": [list(chain) for chain in item.levels],
            "types": dict(item.types),
        }
    if isinstance(item, Items):
        return {"columns": _written(item.columns), "type": item.type, "repeats": item.repeats}
    return {
        "column": item.column,
        "tokenizer": tokenizer_name(item.tokenizer),
        "ngrams": list(item.ngrams),
        "name": str(item.name),
    }


def items_from_dict(values: Any) -> Items | Tokens:
    """The same back."""
    if isinstance(values, dict) and "tokenizer" in values:
        named = values["tokenizer"]
        if isinstance(named, str) and named.startswith(FUNCTION):
            values = values | {"tokenizer": FunctionName(named)}
        tokens = build(Tokens, values)
        default = tokens.name == DEFAULT_ITEM
        return Tokens(
            tokens.column, tokens.tokenizer, tokens.ngrams, DEFAULT_ITEM if default else tokens.name
        )
    if isinstance(values, dict) and "levels" in values:
        _refuse_other_parts(values, set(options_of(Values)), f"its {Values.__name__}")
        return Values(**values)
    item = build(Items, values)
    return item if item.columns != DEFAULT_ITEM else Items(DEFAULT_ITEM, item.type, item.repeats)


def design_to_dict(design: Design) -> dict[str, Any]:
    """What a mechanism decided, in plain values."""
    values = {each.name: getattr(design, each.name) for each in fields(design)}
    values["selection"] = _selection_to_dict(design.selection)
    del values["delta_split"]
    return values


def _selection_to_dict(chosen: Any) -> dict[str, Any]:
    if isinstance(chosen, OneShot):
        return {"policy": described(chosen.policy), "curve": described(chosen.curve)}
    if isinstance(chosen, Choice):
        candidates = [
            {"mechanism": each.mechanism.to_dict(), **design_to_dict(each.design)}
            for each in chosen.candidates
        ]
        return {"kind": chosen.kind, "epsilon": chosen.epsilon, "candidates": candidates}
    return described(chosen)


def described(part: Any) -> dict[str, Any]:
    """A policy, a curve or rounds in plain values."""
    return {"kind": part.kind, **_of_one_id(asdict(part))}


def _of_one_id(values: dict[str, Any]) -> dict[str, Any]:
    """Values without a word on ids where a person has one, as for users."""
    return {
        name: _of_one_id(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if (name, value) != ("ids", 1)
    }


def refuse_differences(found: dict[str, Any], derived: dict[str, Any], version: str) -> None:
    """Refuse a file that does not say what follows from what was decided in it."""
    if found["hash"] != derived["hash"]:
        raise ParameterError(
            "what was decided in this plan (guarantee, mechanism, columns, seed or version) is not "
            f"what its hash stands for, so it was edited after it was made. {ANEW}",
            exit_code=REFUSED,
        )
    place = _differing(found, json.loads(json.dumps(derived)), "")
    if place is None:
        return
    why = "it was edited after it was made"
    if version != __version__:
        why = f"it was edited, or dpsu {version} designed it otherwise than dpsu {__version__} does"
    raise ParameterError(
        f"this plan is not what its mechanism and guarantee lead to: {place} differs, so {why}. "
        f"{ANEW}",
        exit_code=REFUSED,
    )


def _differing(found: Any, derived: Any, place: str) -> str | None:
    """Where two plans differ by more than the last digits of numbers; None if nowhere."""
    if isinstance(derived, dict):
        if not isinstance(found, dict) or set(found) != set(derived):
            return place or "what it holds"
        parts = ((found[name], derived[name], f"{place}.{name}") for name in derived)
    elif isinstance(derived, list):
        if not isinstance(found, list) or len(found) != len(derived):
            return place
        parts = (
            (a, b, f"{place}[{at}]") for at, (a, b) in enumerate(zip(found, derived, strict=True))
        )
    else:
        return None if _same(found, derived) else place.lstrip(".")
    for one, other, where in parts:
        different = _differing(one, other, where.lstrip("."))
        if different is not None:
            return different
    return None


def _same(found: Any, derived: Any) -> bool:
    """Whether values are equal, numbers up to their last digits."""
    numbers = (int, float)
    if type(found) not in numbers or type(derived) not in numbers:
        return bool(found == derived and type(found) is type(derived))
    if isinstance(found, int) and isinstance(derived, int):
        return abs(found - derived) <= max(abs(found), abs(derived)) // round(1 / TOLERANCE)
    if isinstance(found, int) and abs(found) > sys.float_info.max:
        return False
    close = math.isfinite(found) and math.isfinite(derived)
    return close and abs(found - derived) <= TOLERANCE * max(abs(found), abs(derived))
