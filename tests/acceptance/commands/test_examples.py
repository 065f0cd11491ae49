"""Every example is run as a newcomer runs it: as a program, on Ray, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tests.support.examples import EXAMPLES, assert_in_order, run
from tests.support.sources import ROOT

ESSENTIAL = {
    "hello": ["greeter: Hello! What can I do for you?"],
    "transfer": [
        "concierge hands over to billing",
        "billing: Your invoice is paid.",
        "(the turn begins at billing)",
        "billing: You paid on Monday.",
        "billing hands over to concierge",
        "concierge: My pleasure.",
    ],
    "tools": [
        "clerk calls add_to_cart({'item': 'tea', 'quantity': 2})",
        "add_to_cart answers {'pieces': 2}",
        "clerk: It is in your cart.",
        "add_to_cart answers {'error':",
        "clerk: I need to know how many cups.",
        "state: {'cart': {'tea': 2}}",
    ],
    "streaming": [
        "piece: Once upon a time",
        "piece: who lived when spoken to.",
        "whole: Once upon a time there was an actor who lived when spoken to.",
        "stored: 2 events",
    ],
    "graph": [
        "orders@1/read@1: ['pears', 'figs', 'plums']",
        "{'results': ['4 pears', None, '9 plums']",
        "the user is asked: Not all is there. Order the rest?",
        "clerk: It is on its way.",
    ],
    "resume": [
        "the turn is paused",
        "the manager is asked: ask_manager({'amount': 80})",
        "refunds: The manager has allowed it",
    ],
    "killed": [
        "desk calls refund({'euros': 80})",
        "$ kill -9 ",
        "refund gives {'result': '80 euros are on their way'}",
        "desk: 80 euros are on their way to you.",
        "find_order ran in process",
        "refund ran in process",
        ", then in ",
    ],
    "steering": [
        "guide calls search",
        "the message joined the turn that runs: True",
        "guide: Three days in Rome, without museums.",
        "read by guide",
        "guide: Three days in Milan.",
        "the log: ['Three days in Milan, please', 'Three days in Milan.']",
    ],
    "blackboard": [
        "board: 10 have posted",
        *(f"reader{number}: '{chapter}' is " for number, chapter in enumerate(("the whale", "a sermon", "breakfast"))),
        "reader9: 'the end' is 7 of 84 letters, the longest read by reader6",
    ],
    "auction": [
        "ann: I have clock, and 50 left",
        "auctioneer: lamp: sold to bob for 55",
        "auctioneer: clock: sold to ann for 50",
        "bob: I have lamp, and 45 left",
        "cid: I have nothing, and 100 left",
    ],
    "supervisor": [
        "postmaster: courier asks: The bridge is closed. What now?",
        "postmaster: I send another one",
        "postmaster: courier done: The letter is there.",
        "courier cancelled: nothing",
        "courier done: The letter is there.",
    ],
    "remote_tool": ["counted: 78498", "in a process of its own"],
    "api_and_code": [
        "get_sales: {'status': 200, 'body': [3, 9, 6]}",
        r"run_python: {'stdout': '6\n', 'files': ['sales.csv']}",
        "analyst: Six a day; the days are in sales.csv.",
        "['sales.csv']",
    ],
    "batch": [
        "It crashes at night. -> bug (1 attempts)",
        "I love it! -> praise (1 attempts)",
        "%&$ -> agent 'triage' failed: ConnectionError: no line (2 attempts)",
        "from before: 4",
    ],
    "structured_answer": ["Acme owes 80.00 euros", "open", "Acme owes 80 euros."],
    "memory": [
        "waiter to ada: You like green tea.",
        "waiter to bob: I remember nothing of it.",
        "found: user in monday: I like to drink green tea",
    ],
    "artifacts": [
        "saved user:shopping.txt, version 0",
        "saved user:shopping.txt, version 1",
        "shopper: You need tea and milk.",
        "['user:shopping.txt'] [0, 1]",
        "at first: tea",
    ],
    "custom_agent": [
        "writer: Actors live when they are spoken to.",
        'critic: {"score": 9',
        "newsroom: published: short and true",
    ],
    "sequential_pipeline": [
        "outliner: 1. What an actor is.",
        "writer: An actor keeps its state to itself, and",
        "editor: An actor keeps its state to itself and",
        "state: ['article', 'draft', 'outline']",
    ],
    "loop": [
        "improve gives {'words': 200}",
        "critic: Too long.",
        "improve gives {'words': 133}",
        "critic: Too long.",
        "improve gives {'words': 88}",
        "critic ends the loop",
        "words: 88",
    ],
    "parallel_research": [
        "[researchers.critics] critics: Mailboxes",
        "[researchers.history] history: Hewitt",
        "[researchers.practice] practice: Telephone",
        "editor: Actors are fifty years old",
    ],
    "flow_report": [
        "plan can begin",
        "first can begin\nusers can begin\nrisks can begin",
        "report can begin",
        "plan is successful: title='Actors' questions=[",
        "first is successful: Hewitt described actors in 1973.",
        "users is successful: Telephone switches",
        "risks is successful: Mailboxes",
        "report is successful: Actors: described by Hewitt",
    ],
    "flow_triage": [
        "It crashes at night. -> bug",
        "How do I log in? -> question",
        "I love it! -> praise",
        "It is broken. -> bug",
        "%&$ -> task 'triage' has no result: it is failed: I cannot read this.",
    ],
    "flow_planner": [
        "works makes renovate: Renovate the wall.",
        "planner makes paint: Paint the wall.",
        "painter: choose is successful",
        "painter: paint is successful",
        "planner: renovate is successful",
        "The wall is green.",
    ],
    "human_in_the_loop": [
        "drafter: Ten crates",
        "(the turn is paused)",
        "to be approved: Ten crates",
        "approver: It is approved.",
        "sender: The offer is on its way.",
        "(the turn is finished)",
    ],
    "supervision": [
        "letters: letter_archive failed with ConnectionError: restart 1 of 3 within 60 s begins in 0.1 s",
        "letter_archive: found, asked 2 times",
        "photos: photo_archive failed with ConnectionError: restart 3 of 3 within 60 s begins in 0.4 s",
        "photos: photo_archive failed with ConnectionError: 3 of 3 restarts within 60 s are used up",
        "research: photos failed, since photo_archive did, with ConnectionError: it goes on without photos",
        "writer: Here is what there is.",
    ],
    "large_tree": [
        "10,001 agents are ready",
        "reception finds parking_harbour, ",
        "reception hands over to parking_harbour",
        "parking_harbour finds parking_harbour_clerk_7, ",
        "parking_harbour hands over to parking_harbour_clerk_7",
        "parking_harbour_clerk_7: Your permit is ready.",
        "parking_harbour_clerk_7: It is valid for a year.",
        "agents that live: parking_harbour, parking_harbour_clerk_7, reception\n",
    ],
    "mcp_tools": [
        "waiter: There is Trattoria Rome.",
        "tables_book asks: For which day at Trattoria Rome?",
        "the server answers: a table at Trattoria Rome on Monday",
        "waiter: It is booked.",
        "connections: 1",
    ],
    "callbacks_and_plugins": [
        "billing: I have noted your card.",
        "billing: We are closed on Sundays.",
        "stored: I pay with [card]",
        "model calls: 2",
    ],
}
"""Lines that each example prints, in this order."""

LOSES_PROCESSES = {"killed"}
"""Examples of which Ray and raygrove log that processes were lost."""


def test_every_example_is_run_here() -> None:
    elsewhere = {"support_desk", "ray_data"}  # below, and in tests/extras
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*ESSENTIAL, *elsewhere}


@pytest.mark.sampled(27, full=5)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("example", ESSENTIAL)
def test_an_example_prints_what_it_promises(example: str, tmp_path: Path) -> None:
    # On the Ray of the test run, which saves starting one for each.
    address = ray.get_runtime_context().gcs_address
    assert_in_order(run(example, tmp_path, address, logs=example in LOSES_PROCESSES), ESSENTIAL[example])


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("local_ray")
def test_the_support_desk_goes_on_where_it_ended(tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    first = run("support_desk", tmp_path, address)
    assert_in_order(
        first,
        [
            "the turn goes to concierge, the root",
            'user:name = "Ada"',
            "transfer to shipping",
            "lookup_order: {",
            "the turn goes to shipping, which spoke last",
            "transfer to billing",
            "transfer to refunds",
            "Done. The 39 euros are on their way back to you.",
        ],
    )
    processes = dict(re.findall(r"^(\w+) +pid (\d+)", first, re.MULTILINE))
    assert set(processes) == {"concierge", "shipping", "billing", "refunds"}
    assert len(set(processes.values())) == 4
    second = run("support_desk", tmp_path, address)
    assert_in_order(
        second,
        [
            "Welcome back, Ada.",
            "stored  20 events",
            "floor   refunds",
            "the turn goes to refunds, which spoke last",
            "Yes, the money for order 42 was paid back.",
            "transfer to concierge",
            "see it in a browser make serve, then http://127.0.0.1:8000/ui/?app=support_desk&user=ada&session=desk-1",
        ],
    )


NOT_HERE = {"killed", "ray_data"}
"""Examples that end processes of a Ray, and that need another environment."""

AT_ANOTHER_ADDRESS = {"api_and_code"}
"""Its tools speak to a server that each process starts on a port of its own."""

NAMES = sorted({each.stem for each in EXAMPLES.glob("*.py")} - NOT_HERE)
PARTS = 6


def versions(names: list[str], folder: Path, hash_seed: str) -> list[list[str]]:
    """Of each tree of each example: its name, the version at its start, and the version when it has been used."""
    command = [sys.executable, "-m", "tests.support.programs.example_versions", *names]
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.full
@pytest.mark.sampled(full=6)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_version_of_an_example_is_the_same_in_each_process_and_after_use(part: int, tmp_path: Path) -> None:
    names = NAMES[part::PARTS]
    first, second = (versions(names, tmp_path / seed, seed) for seed in ("1", "2"))
    assert {name for name, *_ in first} == set(names)
    assert [(name, after) for name, _, after in first] == [(name, before) for name, before, _ in first]
    assert [each for each in first if each[0] not in AT_ANOTHER_ADDRESS] == [
        each for each in second if each[0] not in AT_ANOTHER_ADDRESS
    ]
