"""What a command says of an app that it does not find where it looks."""

from __future__ import annotations

import pytest

from runtime.frontends.console.runtimes import _hint


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
