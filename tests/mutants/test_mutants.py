"""Mutants are found in their files or refused, and what has imported the code does what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.mutants.live import CannotPutInError, putting_in
from tests.mutants.mutant import Change, Mutant, StaleMutantError, read_mutants
from tests.mutants.running import changed, run
from tests.mutants.sample import Counter, doubled, tripled

FILE = "tests/mutants/sample.py"


def mutant(*changes: tuple[str, str]) -> Mutant:
    return Mutant("it", "does", tuple(Change(FILE, old, new) for old, new in changes))


def test_a_file_has_mutants_with_one_change_or_several_as_toml_or_as_json(tmp_path: Path) -> None:
    first = {"what": "One", "file": "a.py", "old": "a\n", "new": "b"}
    second = {"what": "Two", "changes": [{"file": "a.py", "old": "c", "new": "d"}, {"file": "b.py", "old": "e", "new": ""}]}
    as_json, as_toml = tmp_path / "these.json", tmp_path / "these.toml"
    as_json.write_text(json.dumps([{"name": "first", **first}, {"name": "second", **second}]))
    as_toml.write_text(
        "[first]\nwhat = 'One'\nfile = 'a.py'\nold = '''\na\n'''\nnew = 'b'\n"
        "[second]\nwhat = 'Two'\nchanges = [{file='a.py', old='c', new='d'}, {file='b.py', old='e', new=''}]\n"
    )
    assert read_mutants(as_json) == read_mutants(as_toml)
    assert [len(each.changes) for each in read_mutants(as_toml).values()] == [1, 2]


@pytest.mark.parametrize("old", ["number * 4", "number + number\n\n\nclass Other"])
def test_a_text_that_is_not_there_is_refused_by_name(old: str) -> None:
    with pytest.raises(StaleMutantError, match=rf"(?s)mutant it: {FILE} has this 0 times.*{old[:6]}"):
        mutant((old, "0")).texts()


def test_a_text_that_is_there_twice_is_refused() -> None:
    with pytest.raises(StaleMutantError, match="2 times"):
        mutant(("self._count = ", "self._count = 1 + ")).texts()


def test_a_mutant_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        mutant(("number + number", "number +")).texts()


def test_functions_and_methods_do_what_a_mutant_says_within_the_block() -> None:
    counter = Counter()
    all_at_once = mutant(
        ("return number + number", "more = 2\n    return number + more"),
        ("        return self._count", "        return self._count * 10"),
        ("        self._count = count", "        self._count = count + 1"),
        ("{cls.__name__} {name}", "{name}"),
        ("number * 3 for", "number * 4 for"),
    )
    with putting_in(all_at_once):
        counter.count = 1
        assert (doubled(5), counter.count, Counter.named("a"), tripled(5)) == (7, 20, "a", 20)
    counter.count = 1
    assert (doubled(5), counter.count, Counter.named("a"), tripled(6)) == (10, 1, "Counter a", 18)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("LIMIT = 3", "LIMIT = 4", "changes more than the bodies of functions: LIMIT = 4"),
        ("def doubled(number: int)", "def doubled(number: int = 1)", "changes more than the bodies"),
        ("class Counter:", "class Counter(dict):", "changes more than the bodies"),
        ("@cache\n", "", "changes more than the bodies"),
        ("    @property\n", "    def more(self) -> int:\n        return 1\n\n    @property\n", "changes more .*: Counter"),
        ("number + number", "number + MORE", "tests.mutants.sample has no MORE"),
        ("return self._count", "return super().__sizeof__()", "Counter.count has other variables from outside"),
    ],
)
def test_what_cannot_be_put_into_a_process_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(CannotPutInError, match=why), putting_in(mutant((old, new))):
        pass
    assert (doubled(5), Counter().count) == (10, 3)


def test_a_command_notices_a_mutant_by_failing(tmp_path: Path) -> None:
    place = tmp_path / FILE
    place.parent.mkdir(parents=True)
    for package in (place.parent, place.parent.parent):
        (package / "__init__.py").touch()
    right = Path(FILE).read_text()
    place.write_text(right)
    command = [sys.executable, "-c", "from tests.mutants.sample import doubled; assert doubled(5) == 10, 'it is not 10'"]
    assert not run(command, tmp_path, 60).is_noticed
    with changed(mutant(("number + number", "number - number")), tmp_path):
        noticed = run(command, tmp_path, 60)
    assert noticed.is_noticed
    assert noticed.why == "AssertionError: it is not 10"
    assert place.read_text() == right


def test_a_command_that_does_not_end_has_noticed(tmp_path: Path) -> None:
    noticed = run([sys.executable, "-c", "import threading; threading.Event().wait()"], tmp_path, 0.5)
    assert noticed.is_noticed
    assert noticed.why == "not done after 0 s"
