"""Which agent gets the next message (semantics.md section 1)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.topology import AgentNode, Topology
from actors.messages.turn_info import PassedOver
from actors.rules.routing.selection import Selection, deciding, select_agent
from runtime.driver.turns.reports import explain, is_transferable
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries

names = st.sampled_from(["user", *(f"n{number}" for number in range(8)), "gone", "lost"])


def may_keep_the_turn(tree: Topology, name: str) -> bool:
    """Paragraph 3, word for word: every agent from the candidate up to and including the root."""
    node: AgentNode | None = tree[name]
    while node is not None:
        if node.kind != "llm" or node.disallow_transfer_to_parent:
            return False
        node = tree[node.parent] if node.parent is not None else None
    return True


def scan(tree: Topology, log: list[str]) -> str:
    """Paragraphs 2 and 4, word for word: a scan over the authors of all events, newest to oldest."""
    for author in reversed(log):
        if author == "user" or tree.find(author) is None:
            continue
        if may_keep_the_turn(tree, author):
            return author
    return tree.root.name


def by_recency(log: list[str]) -> list[str]:
    """What the Session actor keeps: the distinct authors without the user, the most recent first."""
    return list(dict.fromkeys(author for author in reversed(log) if author != "user"))


@settings(max_examples=tries(500))
@given(topologies(), st.lists(names, max_size=20))
def test_the_authors_by_recency_and_those_of_them_that_decide_give_what_a_scan_of_all_events_gives(
    tree: Topology, log: list[str]
) -> None:
    authors = by_recency(log)
    selection = select_agent(tree, authors)
    selected = selection.agent
    assert selected == scan(tree, log)
    # With the authors that the scan has passed over, which are in no tree.
    newer = authors[: authors.index(selected)] if selected in authors and may_keep_the_turn(tree, selected) else authors
    assert selection.unknown_authors == tuple(author for author in newer if tree.find(author) is None)
    decisive = deciding(tree, authors)
    assert select_agent(tree, decisive) == selection
    assert sum(tree.find(author) is not None for author in decisive) <= 1
    if any(tree.find(author) is not None and is_transferable(tree, author) for author in authors):
        assert [author for author in authors if author in decisive] == list(decisive)
        assert [author for author in authors[: authors.index(decisive[-1])] if tree.find(author) is None] == list(decisive[:-1])


@settings(max_examples=tries(200))
@given(topologies(), st.lists(st.text(), max_size=5), st.text())
def test_whatever_the_log_holds_an_agent_of_the_tree_is_selected(tree: Topology, authors: list[str], caller: str) -> None:
    assert tree.find(select_agent(tree, authors, caller).agent) is not None


@settings(max_examples=tries(200))
@given(topologies(), st.lists(names, max_size=10), st.integers(0, 9))
def test_who_made_the_call_gets_the_answer_whatever_its_kind_and_flags(tree: Topology, log: list[str], number: int) -> None:
    caller = f"n{number}"
    expected = caller if tree.find(caller) is not None else scan(tree, log)
    assert select_agent(tree, by_recency(log), caller).agent == expected


@settings(max_examples=tries(200))
@given(topologies())
def test_the_peers_flag_plays_no_part(tree: Topology) -> None:
    for node in tree.nodes:
        assert is_transferable(tree, node.name) == may_keep_the_turn(tree, node.name)


@settings(max_examples=tries(500))
@given(topologies(), st.lists(names, max_size=20), st.integers(-1, 9))
def test_what_is_explained_is_what_is_selected_with_the_authors_that_were_passed_over(
    tree: Topology, log: list[str], number: int
) -> None:
    authors, caller = by_recency(log), f"n{number}" if number >= 0 else ""
    reason = explain(tree, authors, 7, caller, "call-1")
    assert (reason.agent, reason.seq) == (select_agent(tree, authors, caller).agent, 7)
    assert (reason.because == "answers") == bool(reason.call_id) == (tree.find(caller) is not None)
    if reason.because != "answers":
        newer = authors[: authors.index(reason.agent)] if reason.because == "spoke" else authors
        assert [passed.agent for passed in reason.passed_over] == newer
    for passed in reason.passed_over:
        assert is_in_the_way(tree, passed)


def is_in_the_way(tree: Topology, passed: PassedOver) -> bool:
    """True for a reason that paragraph 3 knows."""
    if passed.because == "unknown":
        return tree.find(passed.agent) is None
    by = tree[passed.by]
    assert tree.is_below(passed.agent, passed.by)
    return by.kind != "llm" if passed.because == "kind" else by.disallow_transfer_to_parent


def flat(*children: AgentNode, root: AgentNode | None = None) -> Topology:
    root = root or AgentNode(name="root")
    return Topology.of((AgentNode(name="root", kind=root.kind, children=tuple(child.name for child in children)), *children))


def test_who_made_the_call_is_selected_without_a_look_at_the_authors() -> None:
    tree = flat(AgentNode(name="a", parent="root"))
    assert select_agent(tree, ["gone"], caller="a") == Selection("a")


def test_a_non_transferable_author_is_passed_over_and_the_scan_goes_on() -> None:
    tree = flat(AgentNode(name="a", parent="root"), AgentNode(name="b", parent="root", disallow_transfer_to_parent=True))
    assert select_agent(tree, ["b", "a"]).agent == "a"
    assert select_agent(tree, ["b"]).agent == "root"


def test_a_workflow_root_always_runs_itself() -> None:
    tree = flat(AgentNode(name="a", parent="root"), root=AgentNode(name="root", kind="sequential"))
    assert select_agent(tree, ["a"]).agent == "root"
