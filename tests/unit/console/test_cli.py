"""The command `raygrove`, over stores that a Runtime has written, and what it says where no app or Ray is found."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest
import ray
from rich.console import Console
from typer.testing import CliRunner, Result

from actors import LlmAgent
from actors.errors import ClusterError, DrainingError, OverloadedError, RequestError, SessionExistsError, StoreError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.cluster.deployment import connection
from runtime.frontends.console import cli, options, output, runtimes
from runtime.frontends.console.runtimes import _hint
from runtime.models.openai.services import SERVICES
from tests.support.app_folders import HELLO, fresh_imports, write
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.sampled(2, of="module")


def raygrove(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def lines(result: Result) -> list[list[str]]:
    """The lines of a table, without the names of its columns."""
    if result.exception is not None:
        raise result.exception
    return [line.split("\t") for line in result.output.splitlines()][1:]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The store of an app with the sessions s1 of ada and of bob, and s2 of ada."""
    url = f"sqlite:///{tmp_path}/sessions.db"
    billing = LlmAgent(name="billing", model=PatternModel([("", "It is\npaid.")]))
    concierge = PatternModel([("bill", {"transfer": "billing"}), ("", "[bold]hello[/bold]")])
    root = LlmAgent(name="concierge", model=concierge, sub_agents=[billing])
    files = f"file://{tmp_path}/artifacts"
    with Runtime(root, app_name="desk", engine="local", session_store=url, artifact_store=files) as rt:
        run_turn(rt, "my bill", session_id="s1")
        run_turn(rt, "hi", session_id="s2")
        run_turn(rt, "hi", session_id="s1", user_id="bob")
        rt.memory.add_session("ada", "s1")
    return url


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (("desk",), [["bob", "s1", "2"], ["ada", "s2", "2"], ["ada", "s1", "4"]]),
        (("desk", "--user", "bob"), [["bob", "s1", "2"]]),
        (("desk", "--limit", "1"), [["bob", "s1", "2"]]),
        (("other",), []),
    ],
)
def test_sessions_are_listed_with_the_one_written_last_first_below_the_names_of_columns(
    arguments: tuple[str, ...], rows: list[list[str]], store: str
) -> None:
    listed = raygrove("sessions", "list", *arguments, "--store", store)
    assert listed.output.splitlines()[0] == "user\tsession\tlast seq\twritten"
    assert [row[:3] for row in lines(listed)] == rows


def test_a_session_is_shown_event_by_event_one_line_each(store: str) -> None:
    assert lines(raygrove("sessions", "show", "desk", "s1", "--user", "ada", "--store", store)) == [
        ["1", "user", "text", "my bill"],
        ["2", "concierge", "call", 'transfer_to_agent(agent_name="billing")'],
        ["3", "concierge", "transfer", "to billing"],
        ["4", "billing", "text", "It is paid."],
    ]


def test_a_session_is_found_without_naming_its_user_where_only_one_has_it(store: str) -> None:
    assert [row[1] for row in lines(raygrove("sessions", "show", "desk", "s2", "--store", store))] == ["user", "concierge"]
    for session, error in (("s1", "--user bob or ada"), ("s9", r"no session 's9'.*raygrove sessions list desk")):
        with pytest.raises(StoreError, match=error):
            lines(raygrove("sessions", "show", "desk", session, "--store", store))


def test_a_terminal_gets_a_table_in_which_texts_are_no_markup(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setattr(output, "new_console", lambda: Console(force_terminal=True, width=80, color_system=None))
    shown = raygrove("sessions", "show", "desk", "s2", "--store", store).output
    assert shown.splitlines()[0].split() == ["seq", "author", "kind", "text"]
    assert "[bold]hello[/bold]" in shown


def test_ids_are_never_cut_however_narrow_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    ids = [f"e-{'0' * 36}", f"e-{'1' * 36}"]
    with (shown := Console(width=20)).capture() as captured:
        monkeypatch.setattr(output, "new_console", lambda: shown)
        output.print_table(("INVOCATION", "SESSION"), [(each, "s1") for each in ids])
    assert [line.split() for line in captured.get().splitlines()] == [["INVOCATION", "SESSION"], *([each, "s1"] for each in ids)]


def test_looking_for_a_store_does_not_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="no session store"):
        lines(raygrove("sessions", "list", "desk"))
    assert list(tmp_path.iterdir()) == []


def test_the_default_store_is_the_app_s_file_in_the_data_folder(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(store.removeprefix("sqlite:///")).rename(tmp_path / "desk.db")
    monkeypatch.setenv("RAYGROVE_DATA_DIR", str(tmp_path))
    assert len(lines(raygrove("sessions", "list", "desk"))) == 3


def test_version_names_the_package_and_ray() -> None:
    told = raygrove("version").output
    assert raygrove("--version").output == told
    assert metadata.version("raygrove") in told
    assert metadata.version("ray") in told


def test_the_command_tells_an_error_in_one_line(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "raygrove"), "sessions", "list", "desk"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no session store")
    assert len(done.stderr.splitlines()) == 1


def test_a_user_is_deleted_with_all_data_and_others_stay(store: str, tmp_path: Path) -> None:
    url, files = ["--store", store], ["--artifacts", f"file://{tmp_path}/artifacts"]
    deleted = lines(raygrove("users", "delete", "ada", "--app", "desk", *url, *files))
    assert deleted == [
        ["sessions", "2"],
        ["events", "6"],
        ["state keys", "0"],
        ["memories", "2"],
        ["artifacts", "0"],
        ["schedules", "0"],
    ]
    assert [row[:2] for row in lines(raygrove("sessions", "list", "desk", *url))] == [["bob", "s1"]]


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [(("users", "delete", "ada"), "rt.users.delete"), (("store", "prune", "--older-than", "90d"), "rt.sessions.prune")],
)
def test_a_store_in_use_is_not_changed_behind_the_back_of_its_app(
    arguments: tuple[str, ...], instead: str, store: str, tmp_path: Path
) -> None:
    root = LlmAgent(name="concierge", model=PatternModel([("", "hello")]))
    files = f"file://{tmp_path}/artifacts"
    with Runtime(root, app_name="desk", engine="local", session_store=store, artifact_store=files):
        refused = raygrove(*arguments, "--app", "desk", "--store", store).exception
    assert isinstance(refused, StoreError)
    assert re.search(rf"is in use: app 'desk' runs in process \d+ .* call {re.escape(instead)}", str(refused))
    assert len(lines(raygrove("sessions", "list", "desk", "--store", store))) == 3


def test_old_sessions_are_counted_and_pruned_while_the_app_is_stopped(store: str, tmp_path: Path) -> None:
    here = ("store", "prune", "--app", "desk", "--store", store, "--artifacts", f"file://{tmp_path}/artifacts")
    assert lines(raygrove(*here, "--older-than", "90d")) == [
        ["sessions", "0"],
        ["events", "0"],
        ["turns", "0"],
        ["artifacts", "0"],
    ]
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        for table, column in (("sessions", "updated_s"), ("sessions", "created_s"), ("events", "timestamp")):
            connection.execute(f"UPDATE raygrove_{table} SET {column} = {column} - 100 * 86400 WHERE sid < 3")
        connection.commit()
    counts = [["sessions", "2"], ["events", "6"], ["turns", "2"]]
    assert lines(raygrove(*here, "--older-than", "90d", "--dry-run")) == counts
    assert lines(raygrove(*here, "--older-than", "13w", "--user", "bob")) == [
        [name, "0"] for name, _ in [*counts, ["artifacts", ""]]
    ]
    assert raygrove(*here, "--older-than", "90d", "--json").output == '{"sessions":2,"events":6,"turns":2,"artifacts":0}\n'
    assert [row[:2] for row in lines(raygrove("sessions", "list", "desk", "--store", store))] == [["bob", "s1"]]


@pytest.mark.parametrize("age", ["90", "d", "0d", "-1d", "1.5d", "90 days", "1y"])
def test_an_age_that_is_none_is_refused_with_what_would_be_one(age: str, store: str) -> None:
    refused = raygrove("store", "prune", "--app", "desk", "--store", store, f"--older-than={age}")
    assert refused.exit_code == 2
    assert "is no age" in " ".join(refused.output.split())


def test_a_store_is_copied_backed_up_exported_and_imported(store: str, tmp_path: Path) -> None:
    listed = lines(raygrove("sessions", "list", "desk", "--store", store))
    counts = lines(raygrove("store", "copy", store, f"sqlite:///{tmp_path}/copy.db"))
    assert counts[:2] == [["sessions", "3"], ["events", "8"]]
    assert lines(raygrove("store", "export", f"{tmp_path}/lines", "--store", store)) == counts
    assert lines(raygrove("store", "import", f"{tmp_path}/lines", "--store", f"sqlite:///{tmp_path}/again.db")) == counts
    written = lines(raygrove("store", "backup", f"{tmp_path}/backup.db", "--store", store))
    assert [row[0] for row in written] == [f"{tmp_path}/backup.db", f"{tmp_path}/backup.memory.db"]
    for name in ("copy", "again", "backup"):
        assert lines(raygrove("sessions", "list", "desk", "--store", f"sqlite:///{tmp_path}/{name}.db")) == listed


def test_lines_go_through_a_pipe(store: str, tmp_path: Path) -> None:
    told = raygrove("store", "export", "-", "--store", store)
    assert told.exit_code == 0
    arguments = ["store", "import", "-", "--store", f"sqlite:///{tmp_path}/again.db"]
    assert lines(CliRunner().invoke(cli.app, arguments, input=told.stdout_bytes))[0] == ["sessions", "3"]


def test_a_store_has_to_be_named(store: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="name the app with --app, or a URL with --store"):
        lines(raygrove("store", "export", f"{tmp_path}/lines"))
    with pytest.raises(StoreError, match="there is no file"):
        lines(raygrove("store", "import", f"{tmp_path}/lines", "--store", f"sqlite:///{tmp_path}/again.db"))


def test_a_session_is_exported_and_imported_as_another_one(store: str, tmp_path: Path) -> None:
    exported = raygrove("sessions", "export", "desk", "s1", "--user", "ada", "--store", store).stdout
    (tmp_path / "s1.jsonl").write_text(exported)
    again = ["--store", f"sqlite:///{tmp_path}/again.db"]
    told = raygrove("sessions", "import", "desk", f"{tmp_path}/s1.jsonl", "--session", "s9", "--user", "eve", *again)
    assert told.output == "session s9 of eve has 4 events\n"
    shown = lines(raygrove("sessions", "show", "desk", "s1", "--user", "ada", "--store", store))
    assert lines(raygrove("sessions", "show", "desk", "s9", *again)) == shown
    with pytest.raises(SessionExistsError):
        lines(raygrove("sessions", "import", "desk", f"{tmp_path}/s1.jsonl", "--session", "s9", "--user", "eve", *again))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("{}", "line 1 of .* is not a session"),
        ('{"appName": "a", "userId": "u", "id": "s"}\nx', "line 2 .* is not an event"),
    ],
)
def test_what_is_no_export_is_not_imported(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(text)
    with pytest.raises(StoreError, match=says):
        lines(raygrove("sessions", "import", "desk", f"{tmp_path}/lines", "--store", f"sqlite:///{tmp_path}/new.db"))
    assert not (tmp_path / "new.db").exists()


def test_a_session_is_rewound_and_deleted_while_the_app_is_stopped(store: str, tmp_path: Path) -> None:
    root = LlmAgent(name="concierge", model=PatternModel([], default="hello"))
    files = f"file://{tmp_path}/artifacts"
    with Runtime(root, app_name="desk", engine="local", session_store=store, artifact_store=files) as rt:
        second = rt.run(user_id="ada", session_id="s2", message="again").result().invocation_id
        with pytest.raises(StoreError, match=r"is in use: app 'desk' runs in process \d+ .*: stop it first"):
            lines(raygrove("sessions", "rewind", "desk", "s2", second, "--store", store))
    shown = [
        json.loads(line) for line in raygrove("sessions", "show", "desk", "s2", "--store", store, "--json").stdout.splitlines()
    ]
    assert [event["author"] for event in shown] == ["user", "concierge", "user", "concierge"]
    told = raygrove("sessions", "rewind", "desk", "s2", second, "--store", store)
    assert told.output == f"session s2 of ada is as it was before {second}\n"
    left = lines(raygrove("sessions", "show", "desk", "s2", "--store", store))
    assert [row[2] for row in left] == ["text", "text", "rewind"]
    (tmp_path / "copy").write_text(raygrove("sessions", "export", "desk", "s2", "--store", store).stdout)
    lines(raygrove("sessions", "import", "desk", f"{tmp_path}/copy", "--session", "s3", "--store", store))
    deleted = raygrove("sessions", "delete", "desk", "s2", "--store", store, "--artifacts", files, "--json")
    assert json.loads(deleted.stdout) == {"userId": "ada", "id": "s2", "deleted": True}
    listed = raygrove("sessions", "list", "desk", "--user", "ada", "--store", store, "--json").stdout
    assert [json.loads(line)["id"] for line in listed.splitlines()] == ["s3", "s1"]
    with pytest.raises(RequestError, match=r"no session 's2' in 'desk'\. The newest ones: s3, s1\."):
        lines(raygrove("sessions", "delete", "desk", "s2", "--store", store))


def test_doctor_says_what_is_wrong_and_what_is_only_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtimes, "find_ray", no_ray)
    fine = raygrove("doctor")
    assert fine.exit_code == 0
    checks = {line.split()[1]: line[0] for line in fine.stdout.splitlines()}
    assert (checks["versions"], checks["Ray"], checks["data"]) == ("✓", "–", "✓")
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    bad = raygrove("doctor", "broken.py", "--address", "127.0.0.1:1", "--store", f"sqlite:///{tmp_path}/none.db", "--json")
    assert bad.exit_code == 1
    wrong = {check["name"]: check["text"] for check in map(json.loads, bad.stdout.splitlines()) if check["state"] == "wrong"}
    assert list(wrong) == ["Ray", "store", "app"]
    assert "no_such_module" in wrong["app"]
    monkeypatch.setenv("RAYGROVE_RUNNRES", "2")
    unknown = raygrove("doctor")
    assert (unknown.exit_code, "Did you mean 'RAYGROVE_RUNNERS'" in unknown.stdout) == (1, True)


def test_doctor_knows_the_keys_of_every_service_that_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_ray", no_ray)
    variables = {name: service.key_variable for name, service in SERVICES.items() if service.key_variable}
    for variable in {*variables.values(), "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"}:
        monkeypatch.delenv(variable, raising=False)
    assert all(variable in raygrove("doctor").stdout for variable in variables.values())
    monkeypatch.setenv("GROQ_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert "of groq, anthropic" in raygrove("doctor").stdout


def no_ray(address: str | None) -> str:
    raise ClusterError("no Ray was found on this machine")


@pytest.mark.parametrize("arguments", [("ps",), ("top", "desk"), ("start", "desk.py"), ("run", "shop", "hi")])
def test_without_a_ray_a_command_says_how_to_get_one(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none() -> str:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connection, "running_address", find_none)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    write(tmp_path, {"desk.py": HELLO})
    with (
        fresh_imports(),
        pytest.raises((ClusterError, RequestError), match=r"no Ray was found on this machine.*'ray start --head'"),
    ):
        lines(raygrove(*arguments))


def test_commands_stand_in_a_sensible_order_and_a_shell_completes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = raygrove("--help").stdout
    named = ["run", "chat", "tree", "batch", "serve", "eval", "start", "stop", "ps", "doctor", "sessions", "users", "store"]
    assert [line.split()[1] for line in told.splitlines() if len(line.split()) > 2 and line.split()[1] in named] == named
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtimes, "find_ray", no_ray)
    for name in ("desk.py", "notes.txt", "apps/one.py", "__pycache__/x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert options.complete_app("") == ["apps", "desk.py"]
    assert options.complete_app("apps/") == ["apps/one.py"]


@pytest.mark.parametrize(("word", "command"), cli._ELSEWHERE.items())
def test_a_command_that_is_called_otherwise_elsewhere_is_named(word: str, command: str) -> None:
    told = raygrove(word, "desk")
    assert (told.exit_code, f"No such command '{word}': it is raygrove" in told.stderr) == (2, True)
    names = [name for name in command.split()[:2] if name.islower()]
    assert raygrove(*names, "--help").exit_code == 0


def test_a_cluster_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "raygrove"), "turns", "desk", "--address", "127.0.0.1:1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("error: no Ray at '127.0.0.1:1' can be used: nothing can be reached there")


def test_exit_codes_tell_what_may_be_asked_again() -> None:
    overloaded = OverloadedError("user 'ada'", 7, "RAYGROVE_MAX_WAITING_USER_TURNS", 2.0)
    codes = [
        cli.exit_code_of(error) for error in (overloaded, DrainingError("desk", 5.0), RequestError("no"), StoreError("away"))
    ]
    assert codes == [75, 75, 2, 1]


@pytest.mark.parametrize(
    ("here", "elsewhere", "says"),
    [
        ([], [], "No app is: `raygrove start PATH` starts one from its code"),
        (["desk"], [], "Apps that are: desk. Did you mean 'desk'?"),
        (["other"], ["a"], "It runs in namespace 'a': set RAYGROVE_NAMESPACE='a'"),
        ([], ["a", "b"], "It runs in the namespaces 'a', 'b': set RAYGROVE_NAMESPACE to one of them"),
    ],
)
def test_it_says_where_the_app_is_or_which_apps_are_here(here: list[str], elsewhere: list[str], says: str) -> None:
    assert _hint("deks", here, elsewhere) == says
