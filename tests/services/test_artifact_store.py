"""The artifact store on a local folder and in memory; no name leaves its folder, no version is seen half-written."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.errors import ArtifactError, StoreError
from actors.messages.content import Blob, FileData, FunctionCall, Part
from actors.messages.session import SessionKey
from runtime.stores.artifacts import LONGEST_COMPONENT, FsspecArtifactStore
from tests.support.tries import tries

S1 = SessionKey("shop", "ada", "s1")
S2 = SessionKey("shop", "ada", "s2")
OTHER = SessionKey("shop", "bob", "s1")

HOSTILE = [
    "../escape",
    "../../../../etc/passwd",
    "..",
    ".",
    "/absolute",
    "C:\\windows",
    "a/b/../../..",
    "nul\x00byte",
    "%2e%2e",
    "%",
    "=",
    "~",
    "~root",
    "*",
    "[a]?",
    "a b",
    "new\nline",
    ".hidden",
    "dot.",
    "0",
    "shared",
    "sessions",
    "рисунок.png",
    "图" * 100,
    "x" * 5000,
    "é",
    "e\u0301",
    "user:../../x",
    "user:..",
    "user:" + "y" * 3000,
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture(params=["folder", "file", "memory"])
def store(request: pytest.FixtureRequest, root: Path) -> FsspecArtifactStore:
    urls = {"folder": str(root), "file": f"file://{root}", "memory": f"memory://{uuid.uuid4().hex}"}
    return FsspecArtifactStore(urls[request.param])


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_versions_count_from_zero_and_the_latest_is_loaded(store: FsspecArtifactStore) -> None:
    saved = [store.save(S1, "report.txt", Part(text=f"draft {number}")) for number in range(12)]
    assert saved == list(range(12))
    assert store.versions(S1, "report.txt") == saved
    assert store.load(S1, "report.txt") == Part(text="draft 11")
    assert store.load(S1, "report.txt", 9) == Part(text="draft 9")
    assert store.load(S1, "report.txt", 0) == Part(text="draft 0")


def test_what_was_never_saved_is_not_there(store: FsspecArtifactStore) -> None:
    assert store.load(S1, "report.txt") is None
    assert store.versions(S1, "report.txt") == []
    assert store.keys(S1) == []
    store.delete(S1, "report.txt")
    store.save(S1, "report.txt", Part(text="x"))
    assert store.load(S1, "report.txt", 1) is None
    assert store.load(S1, "report.txt", -1) is None


@pytest.mark.parametrize(
    "part",
    [
        Part(inline_data=Blob(data=bytes(range(256)) * 4096, mime_type="image/png", display_name="a cat")),
        Part(inline_data=Blob(data=b"", mime_type="text/plain")),
        Part(text=""),
        Part(text="ü", thought=True, part_metadata={"page": 3}),
    ],
)
def test_a_part_comes_back_with_its_bytes_type_and_metadata(store: FsspecArtifactStore, part: Part) -> None:
    store.save(S1, "thing", part)
    assert store.load(S1, "thing") == part


@pytest.mark.parametrize(
    "part", [Part(), Part(file_data=FileData(file_uri="gs://x")), Part(function_call=FunctionCall(name="f"))]
)
def test_a_part_without_data_and_text_is_refused(store: FsspecArtifactStore, part: Part) -> None:
    with pytest.raises(ArtifactError, match="neither inline_data nor text"):
        store.save(S1, "thing", part)
    assert store.keys(S1) == []


@pytest.mark.parametrize("name", ["", "user:"])
def test_a_name_that_is_empty_is_refused(store: FsspecArtifactStore, name: str) -> None:
    with pytest.raises(ArtifactError, match="needs a name"):
        store.save(S1, name, Part(text="x"))
    with pytest.raises(ArtifactError, match="needs a name"):
        store.load(S1, name)


@pytest.mark.parametrize(("key", "name"), [(S1, "lone \ud800"), (SessionKey("shop", "\udfff", "s1"), "a")])
def test_a_name_or_id_that_is_no_unicode_is_refused(store: FsspecArtifactStore, key: SessionKey, name: str) -> None:
    with pytest.raises(ArtifactError, match="UTF-8"):
        store.save(key, name, Part(text="x"))


def test_names_of_user_are_shared_by_the_sessions_of_the_user_alone(store: FsspecArtifactStore) -> None:
    store.save(S1, "user:avatar.png", Part(text="face"))
    store.save(S1, "notes", Part(text="mine"))
    store.save(OTHER, "notes", Part(text="bob's"))
    assert store.save(S2, "user:avatar.png", Part(text="new face")) == 1
    assert store.load(S1, "user:avatar.png") == Part(text="new face")
    assert store.keys(S1) == ["notes", "user:avatar.png"]
    assert store.keys(S2) == ["user:avatar.png"]
    assert store.keys(OTHER) == ["notes"]
    assert store.load(OTHER, "user:avatar.png") is None
    assert store.load(S2, "notes") is None


def test_deleting_takes_all_versions_of_one_name(store: FsspecArtifactStore) -> None:
    for name in ("a", "a", "ab", "user:a"):
        store.save(S1, name, Part(text="x"))
    store.delete(S1, "a")
    assert store.keys(S1) == ["ab", "user:a"]
    assert store.load(S1, "a") is None
    assert store.save(S1, "a", Part(text="again")) == 0


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:20]))
def test_no_name_leaves_its_folder_or_meets_another_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / "deep" / "down" / "artifacts"
    store = FsspecArtifactStore(str(root))
    store.save(S1, "bystander", Part(text="untouched"))
    store.save(S1, name, Part(text="first"))
    assert store.save(S1, name, Part(text="second")) == 1
    assert store.load(S1, name) == Part(text="second")
    assert store.keys(S1) == sorted(["bystander", name])
    of_name = [path for path in files(tmp_path) if path.parent.name != "bystander"]
    folder = root / "shop" / "ada" / ("shared" if name.startswith("user:") else "sessions/s1")
    assert {path.parent.parent for path in of_name} == {folder}
    assert sorted(path.name for path in of_name) == ["0", "1"]
    store.delete(S1, name)
    assert store.keys(S1) == ["bystander"]


@pytest.mark.parametrize("identity", [name for name in HOSTILE if len(name) > 1] + [""], ids=lambda name: ascii(name[:20]))
def test_no_id_leaves_its_folder(tmp_path: Path, identity: str) -> None:
    root = tmp_path / "deep" / "down" / "artifacts"
    store = FsspecArtifactStore(str(root))
    key = SessionKey(identity, identity, identity)
    store.save(key, "a", Part(text="x"))
    assert store.keys(key) == ["a"]
    assert store.keys(S1) == []
    (path,) = files(tmp_path)
    assert len(path.relative_to(root).parts) == 6
    assert path.parts[: len(root.parts)] == root.parts


@settings(max_examples=tries(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    saves=st.lists(
        st.tuples(
            st.sampled_from([S1, S2, OTHER]),
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from([*HOSTILE, "x" * LONGEST_COMPONENT]),
            st.sampled_from(["save", "save", "save", "delete"]),
        ),
        max_size=15,
    )
)
def test_any_run_of_saves_and_deletes_leaves_what_a_dictionary_has(saves: list[tuple[SessionKey, str, str]]) -> None:
    store = FsspecArtifactStore(f"memory://{uuid.uuid4().hex}")
    model: dict[tuple[str, str, str], list[Part]] = defaultdict(list)

    def at(key: SessionKey, name: str) -> tuple[str, str, str]:
        return key.user, "" if name.startswith("user:") else key.session, name

    for number, (key, name, action) in enumerate(saves):
        if name == "user:":
            continue
        part = Part(text=f"{number}")
        if action == "delete":
            store.delete(key, name)
            model.pop(at(key, name), None)
        else:
            assert store.save(key, name, part) == len(model[at(key, name)])
            model[at(key, name)].append(part)
    for key in (S1, S2, OTHER):
        names = sorted(name for user, session, name in model if user == key.user and session in ("", key.session))
        assert store.keys(key) == names
        for name in names:
            parts = model[at(key, name)]
            assert [store.load(key, name, version) for version in store.versions(key, name)] == parts
            assert store.load(key, name) == parts[-1]


def test_two_stores_that_save_at_once_get_different_versions(root: Path) -> None:
    stores = [FsspecArtifactStore(str(root)) for _ in range(4)]
    start = threading.Barrier(len(stores) * 2)
    got: list[int] = []

    def save(store: FsspecArtifactStore) -> None:
        start.wait()
        for number in range(10):
            got.append(store.save(S1, "report", Part(text=f"{number}")))

    threads = [threading.Thread(target=save, args=(store,)) for store in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(80))
    assert stores[0].versions(S1, "report") == list(range(80))


def test_a_version_is_complete_as_soon_as_it_is_listed(root: Path) -> None:
    writer, reader = FsspecArtifactStore(str(root)), FsspecArtifactStore(str(root))
    part = Part(inline_data=Blob(data=b"x" * 3_000_000))
    done = threading.Event()

    def save() -> None:
        for _ in range(10):
            writer.save(S1, "large", part)
        done.set()

    thread = threading.Thread(target=save)
    thread.start()
    while not done.is_set():
        assert reader.load(S1, "large") in (None, part)
    thread.join()
    assert reader.versions(S1, "large") == list(range(10))


def test_a_draft_that_a_dead_process_left_is_no_version(root: Path) -> None:
    store = FsspecArtifactStore(str(root))
    store.save(S1, "a", Part(text="x"))
    (version,) = files(root)
    version.with_name(".0123456789abcdef").write_bytes(b"half")
    assert store.versions(S1, "a") == [0]
    assert store.load(S1, "a") == Part(text="x")
    assert store.save(S1, "a", Part(text="y")) == 1


def test_a_save_leaves_no_draft_behind(root: Path) -> None:
    store = FsspecArtifactStore(str(root))
    store.save(S1, "a", Part(text="x"))
    assert [path.name for path in files(root)] == ["0"]


def test_a_file_that_is_no_version_is_an_error_that_names_the_artifact(root: Path) -> None:
    store = FsspecArtifactStore(str(root))
    store.save(S1, "report", Part(text="x"))
    files(root)[0].write_bytes(b"\xc1 not ours")
    with pytest.raises(ArtifactError, match="'report'"):
        store.load(S1, "report")


def test_a_relative_folder_belongs_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("here", "file://here"):
        FsspecArtifactStore(url).save(S1, "a", Part(text="x"))
    assert sorted(path.name for path in files(tmp_path / "here")) == ["0", "1"]


@pytest.mark.parametrize(
    ("url", "hint"),
    [("nowhere://x", "Protocol not known: nowhere.*use a folder"), ("", "needs a URL")],
)
def test_an_url_of_no_known_kind_is_refused_with_what_would_be_right(url: str, hint: str) -> None:
    with pytest.raises(StoreError, match=hint):
        FsspecArtifactStore(url)


@pytest.mark.parametrize(("url", "module"), [("s3://bucket/x", "s3fs"), ("gs://bucket/x", "gcsfs")])
def test_a_missing_package_of_a_file_system_is_named(url: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(StoreError, match=f"pip install {module}"):
        FsspecArtifactStore(url)


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        FsspecArtifactStore(str(tmp_path / "file")).save(S1, "a", Part(text="x"))
