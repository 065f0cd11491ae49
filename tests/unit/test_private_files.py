"""Files and folders that only their owner may read."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.private_files import is_private, is_readable_by_others, make_file, make_folder, opener, temporary_folder
from tests.support.machine.other_user import NEEDS_ROOT, USER, folder_of_all


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of this process."""
    with folder_of_all() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """A process that does not care about modes."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_folders_that_are_missing_are_made_private(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(0o755)
    make_folder(shared / "a" / "b")
    make_folder(shared / "a" / "b")
    assert [mode(each) for each in (shared, shared / "a", shared / "a" / "b")] == [0o755, 0o700, 0o700]


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b")


def test_files_are_made_private_and_others_stay_as_they_are(tmp_path: Path) -> None:
    with open(tmp_path / "opened", "w", opener=opener):
        pass
    make_file(tmp_path / "made")
    (tmp_path / "shared").write_text("mine")
    (tmp_path / "shared").chmod(0o644)
    make_file(tmp_path / "shared")
    with open(tmp_path / "shared", "a", opener=opener) as file:
        file.write(" too")
    assert {each.name: mode(each) for each in tmp_path.iterdir()} == {"opened": 0o600, "made": 0o600, "shared": 0o644}
    assert (tmp_path / "shared").read_text() == "mine too"
    # Whatever uses the folder says why it cannot.
    make_file(tmp_path / "nowhere" / "made")


def test_all_processes_of_a_user_find_the_same_folder(temporary: Path) -> None:
    assert temporary_folder() == temporary_folder() == temporary / f"raygrove-{os.geteuid()}"
    assert is_private(temporary_folder())


@pytest.mark.parametrize("taken", ["open", "file", "link", pytest.param("foreign", marks=NEEDS_ROOT)])
def test_where_the_name_is_taken_another_one_is_found(temporary: Path, taken: str) -> None:
    name = temporary / f"raygrove-{os.geteuid()}"
    if taken == "open":
        name.mkdir(0o755)
    elif taken == "file":
        name.touch()
    elif taken == "link":
        (temporary / "elsewhere").mkdir(0o700)
        name.symlink_to(temporary / "elsewhere")
    else:
        for folder in (name, temporary / f"{name.name}-0"):
            folder.mkdir(0o700)
            os.chown(folder, USER, USER)
    found = temporary_folder()
    assert found.name.startswith(f"{name.name}-")
    assert is_private(found)
    assert temporary_folder() == found


def test_the_name_of_the_folder_is_short_enough_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert temporary_folder().parent == Path("/tmp")


def test_it_is_known_what_others_may_read(tmp_path: Path) -> None:
    with folder_of_all() as folder:
        for name, bits in {"open": 0o644, "closed": 0o600}.items():
            (folder / name).touch()
            (folder / name).chmod(bits)
        assert is_readable_by_others(folder / "open")
        assert not is_readable_by_others(folder / "closed")
        assert not is_readable_by_others(folder / "none")
        folder.chmod(0o700)
        assert not is_readable_by_others(folder / "open")
