"""What is installed: every package of the image and of CI by its version and its hashes, as pyproject.toml allows."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"run.txt": ["gcs", "s3", "snowflake", "duckdb", "ducklake"], "dev.txt": ["dev"]}
PYTHONS = ("3.11", "3.12", "3.13")
INSIDES = ("duckdb", "jinja2", "nats-py")  # used by what no version promises to keep
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)((?: ;[^\\]*)?)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
                    re.MULTILINE)


def _entries(name: str) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for package, version, marker, _ in _ENTRY.findall((ROOT / "requirements" / name).read_text()):
        found.setdefault(canonicalize_name(package), []).append(Requirement(f"{package}=={version}{marker}"))
    return found


def _wanted(extras: list[str]) -> list[Requirement]:
    texts = [*PROJECT["dependencies"], *(text for each in extras for text in PROJECT["optional-dependencies"][each])]
    wanted = [Requirement(text) for text in texts]
    own = [each for each in wanted if canonicalize_name(each.name) == PROJECT["name"]]
    more = _wanted(sorted({extra for each in own for extra in each.extras})) if own else []
    return [each for each in wanted if each not in own] + more


@pytest.mark.parametrize("name", EXTRAS)
def test_each_entry_has_a_version_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    rest = [line for line in _ENTRY.sub("", text).splitlines() if line.strip() and not line.startswith("#")]
    assert rest == []
    assert "://" not in text
    assert len(_entries(name)) > 20


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", EXTRAS)
def test_the_lock_is_what_the_project_asks_for(name: str, python: str) -> None:
    entries = _entries(name)
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    for wanted in _wanted(EXTRAS[name]):
        if wanted.marker is not None and not wanted.marker.evaluate(environment):
            continue
        found = [each for each in entries.get(canonicalize_name(wanted.name), ())
                 if each.marker is None or each.marker.evaluate(environment)]
        assert len(found) == 1, f"{wanted}: make lock"
        (version,) = found[0].specifier
        assert Version(version.version) in wanted.specifier, f"{wanted}: make lock"


def test_libraries_used_by_their_insides_have_an_upper_bound() -> None:
    found = {canonicalize_name(each.name): each for each in map(Requirement, PROJECT["dependencies"])}
    for name in INSIDES:
        assert any(part.operator == "<" for part in found[name].specifier), name


def test_setup_installs_from_the_lock_alone() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line and "$(UV)" not in line]
    assert len(installs) == 2
    assert {"editables", "hatchling"} <= set(_entries("dev.txt"))  # with which it is built without isolation
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
