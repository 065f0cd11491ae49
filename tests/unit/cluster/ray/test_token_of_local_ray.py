"""A Ray that a Runtime starts asks for a token, with every version of Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.ray import tokens
from runtime.settings import Settings


@pytest.fixture(autouse=True)
def token_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process reads Ray's token once. The tests after this one, which connect to a real Ray, read it again."""
    yield
    monkeypatch.undo()
    tokens.use_mode(os.environ.get(tokens.MODE))
    # Older versions of Ray have no tokens.
    loader = getattr(ray._raylet, "AuthenticationTokenLoader", None)
    if loader is not None:
        loader.instance().reset_cache()


@pytest.mark.parametrize(("given", "used"), [(None, "token"), ("disabled", "disabled"), ("token", "token")])
def test_a_local_ray_asks_for_a_token_unless_the_user_says_no(
    given: str | None, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str | None] = []
    monkeypatch.setattr(ray, "init", lambda **options: modes.append(os.environ.get(tokens.MODE)))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", tokens.MODE, *tokens.TOKENS):
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(tokens.MODE, given)
    connection = RayConnection(Settings(), None)
    connection.open()
    connection.close()
    assert modes == [used]
    assert os.environ.get(tokens.MODE) == given
    assert tokens.token_file().exists() is (used == "token")


@pytest.mark.parametrize("home", ["/dev/null/home", None])
def test_without_a_home_the_token_is_in_the_private_folder_where_all_programs_of_this_user_find_it(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_tokens(monkeypatch)
    monkeypatch.setattr(tokens, "temporary_folder", lambda: tmp_path)
    if home:
        monkeypatch.setenv("HOME", home)
    else:
        monkeypatch.setattr(Path, "home", no_home)
    tokens.find_token_without_home()
    assert tokens.TOKEN_PATH not in os.environ
    tokens.make_token()
    made = tmp_path / "auth_token"
    assert os.environ[tokens.TOKEN_PATH] == str(made)
    assert made.stat().st_mode & 0o777 == 0o600
    assert [made] == list(tmp_path.iterdir())
    token = made.read_text()
    monkeypatch.delenv(tokens.TOKEN_PATH)
    tokens.make_token()
    assert (os.environ[tokens.TOKEN_PATH], made.read_text()) == (str(made), token)


def forget_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without a token. What the code sets is taken back as well, since pytest has seen each variable set before."""
    for name in (tokens.MODE, *tokens.TOKENS):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_token_in_the_home_comes_before_one_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_tokens(monkeypatch)
    monkeypatch.setattr(tokens, "temporary_folder", lambda: tmp_path)
    (tmp_path / "auth_token").write_text("another")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    tokens.make_token()
    tokens.find_token_without_home()
    assert tokens.token_file().exists()
    assert tokens.TOKEN_PATH not in os.environ
