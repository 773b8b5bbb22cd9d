"""Files that other programs read: workflows, hooks, forms, the citation, and what explains them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from tools import mutants
from tools.pages import ROOT

FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]  # type: ignore[no-any-return]


def test_files_of_yaml_can_be_read() -> None:
    named = [ROOT / name for name in (".pre-commit-config.yaml", "CITATION.cff", "mkdocs.yml")]
    for path in (*named, *(ROOT / ".github").rglob("*.y*ml")):
        assert read(path), path


def test_continuous_integration_tests_every_supported_python() -> None:
    workflow = read(ROOT / ".github" / "workflows" / "ci.yml")
    prefix = "Programming Language :: Python :: "
    supported = [c.removeprefix(prefix) for c in project()["classifiers"] if c.startswith(prefix)]
    test, build = workflow["jobs"]["test"], workflow["jobs"]["build"]
    assert test["strategy"]["matrix"]["python"] == supported
    assert ".ci/run" in [step.get("run") for step in test["steps"]]
    assert (ROOT / ".ci" / "run").exists()
    ran = " ".join(step.get("run", "") for step in build["steps"])
    assert "tools.versions --tag" in ran
    assert "-m build" in ran
    # A push must not be able to write anywhere.
    assert workflow["permissions"] == {"contents": "read"}


def test_forms_keep_private_data_and_broken_guarantees_out_of_public() -> None:
    for name in ("bug", "privacy-concern"):
        text = (FORMS / f"{name}.yml").read_text(encoding="utf-8")
        assert re.search("do not paste private data", text, re.IGNORECASE), name
        assert "SECURITY.md" in text, name
    for path in FORMS.glob("*.yml"):
        for link in re.findall(r"blob/HEAD/([^)]+)\)", path.read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), link


def test_the_citation_is_that_of_the_project() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == project()["license"]
    assert set(citation["keywords"]) <= set(project()["keywords"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for paper in citation["references"]:
        first = paper["authors"][0]["family-names"]
        assert f"{first} et al. {paper['year']}" in readme


def test_the_image_is_made_of_files_that_exist() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        source
        for line in lines
        if line.startswith("COPY") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    # The last user is the one who runs it.
    assert [line for line in lines if line.startswith("USER")] == ["USER dpsu"]
    assert lines[-1] == 'CMD ["dpsu", "demo"]'


def test_what_contributors_are_told_is_so() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z]+)\b(?=[` ])", text):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for tool in re.findall(r"-m (tools\.\w+)", text):
        assert (ROOT / f"{tool.replace('.', '/')}.py").exists(), tool
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    (shown,) = tomllib.loads(example)["mutation"]
    (table,) = [m for m in mutants.MUTATIONS if m.name == shown["name"]]
    for key, value in shown.items():
        known = getattr(table, key)
        assert (list(known) if isinstance(value, list) else known) == value, key
