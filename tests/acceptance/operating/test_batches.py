"""What is kept of maps and evaluations: how far they are, what has failed, scores; and what becomes of it with users and age."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import Content, LlmAgent
from actors.errors import RequestError
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.records import PutBatch
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime import BatchInfo as PublicBatchInfo
from runtime.driver.runtime import Runtime
from runtime.frontends.evaluation.criteria import load_criteria
from runtime.frontends.evaluation.eval_sets import load_eval_sets
from runtime.frontends.evaluation.evaluate import evaluate
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.transfer.json_lines import read_lines, write_lines
from runtime.stores.transfer.tables import WholeStore
from tests.support.models.map_models import NotedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

APP = SessionKey("app", "", "")


def echo(folder: Path, fails: dict[str, int] | None = None) -> LlmAgent:
    return LlmAgent(name="echo", model=NotedModel(folder / "calls", 0.0, fails))


def counts(batch: BatchInfo) -> tuple[str, int | None, int, int, int]:
    return batch.state, batch.total, batch.done, batch.failed, batch.repeated


def test_a_map_is_kept_with_what_has_failed_in_it_and_each_run_is_one_of_its_own(deploy: Deploy, tmp_path: Path) -> None:
    inputs: list[object] = ["one", {"message": "two", "user_id": "bob"}, Content.of_text("three"), {"mesage": "four"}]
    with deploy(echo(tmp_path, {"two": 9})) as rt:
        list(rt.map(inputs, name="june", user_id="ada", concurrency=1))
        [batch] = rt.batches.list()
        assert isinstance(batch, PublicBatchInfo)
        assert (batch.kind, batch.name, *counts(batch)) == ("map", "june", "finished", 4, 4, 2, 0)
        assert batch.begun_s < batch.ended_s == batch.updated_s
        two, four = rt.batches.items(batch.id)
        assert (two.position, two.name, two.user_id) == (0, "two", "bob")
        assert [turn.state for turn in rt.turns.list("bob", two.session_id)] == ["failed"]
        assert two.error.startswith("AgentFailedError: ")
        assert (four.position, four.name, four.session_id) == (1, "{'mesage': 'four'}", "")
        assert four.error.startswith("InvalidMessageError: an input has no field 'mesage'")
        assert rt.batches.items(batch.id, limit=1, after=0) == [four]
        assert (rt.batches.get(batch.id), rt.batches.get("other"), rt.batches.items("other")) == (batch, None, [])
        asyncio.run(again(rt, inputs[::2]))
        newest, first = rt.batches.list()
        assert (first, *counts(newest)) == (batch, "finished", 2, 2, 0, 2)
        assert rt.batches.list(limit=1) == [newest]
        with pytest.raises(RequestError, match="limit"):
            rt.batches.list(limit=-1)


async def again(rt: Runtime, inputs: list[object]) -> None:
    async for result in rt.aio.map(inputs, name="june", user_id="ada"):
        assert result.is_repeated
    assert [batch.name for batch in await rt.aio.batches.list()] == ["june", "june"]


def test_how_far_a_map_is_can_be_read_while_it_runs_and_when_it_was_left(deploy: Deploy, tmp_path: Path) -> None:
    def inputs() -> Iterator[str]:
        yield "one"
        until(lambda: any(batch.done for batch in rt.batches.list()))
        yield "two"

    with deploy(echo(tmp_path)) as rt:
        for result in rt.map(inputs(), name="slow", concurrency=1):
            [batch] = rt.batches.list()
            assert (batch.state, batch.total, batch.ended_s) == ("running", None, 0.0)
            if result.input == "two":
                break
        # It is left without waiting for the store.
        until(lambda: rt.batches.list()[0].state != "running")
        assert counts(rt.batches.list()[0]) == ("stopped", None, 2, 0, 0)


def test_an_evaluation_is_kept_with_the_scores_of_its_cases(deploy: Deploy, tmp_path: Path) -> None:
    def case(name: str, says: str, expected: str) -> dict[str, object]:
        turn = {"user_content": {"parts": [{"text": says}]}, "final_response": {"parts": [{"text": expected}]}}
        return {"eval_id": name, "conversation": [turn]}

    cases = [case("good", "a", "fine"), case("bad", "b", "never"), {"eval_id": "simulated", "conversation_scenario": {}}]
    file = tmp_path / "desk.evalset.json"
    file.write_text(json.dumps({"eval_cases": cases}))
    [eval_set] = load_eval_sets(str(file))
    with deploy(LlmAgent(name="root", model=PatternModel([], default="fine"))) as rt:
        results = list(evaluate(rt, eval_set, load_criteria(None, file)))
        [batch] = rt.batches.list()
        assert (batch.kind, batch.name, *counts(batch)) == ("evaluation", "desk.evalset.json", "finished", 3, 3, 2, 0)
        assert batch.thresholds == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
        assert batch.scores == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}
        good, bad, simulated = rt.batches.items(batch.id)
        assert (good.name, good.passed, good.scores) == ("good", True, {**batch.scores, "response_match_score": 1.0})
        assert (bad.passed, bad.scores["response_match_score"], bad.session_id) == (False, 0.0, results[1].session)
        [turn] = bad.turns
        assert (turn.message, turn.expected, turn.answer, turn.tools) == ("b", "never", "fine", [])
        assert turn.scores == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.0}
        assert rt.turns.get(bad.user_id, bad.session_id, turn.invocation_id).state == "finished"
        assert (simulated.error, simulated.session_id) == ("its conversation needs a user simulator", "")


def test_a_deleted_user_is_named_in_no_item_and_old_ones_are_pruned(deploy: Deploy, tmp_path: Path) -> None:
    inputs = [{"message": "x", "user_id": user} for user in ("ada", "bob")]
    with deploy(echo(tmp_path, {"x": 99})) as rt:
        list(rt.map(inputs, name="both"))
        [batch] = rt.batches.list()
        assert sorted(item.user_id for item in rt.batches.items(batch.id)) == ["ada", "bob"]
        rt.users.delete("ada")
        assert [item.user_id for item in rt.batches.items(batch.id)] == ["bob"]
        assert rt.batches.get(batch.id) is not None
        run_turn(rt, "hi", "s1", "carol")
        rt.sessions.prune(0.001, user_id="carol")
        assert len(rt.batches.items(batch.id)) == 1
        rt.sessions.prune(0.001)
        assert (rt.batches.list(), rt.batches.items(batch.id)) == ([], [])


def test_a_store_that_is_copied_or_exported_has_its_batches(tmp_path: Path) -> None:
    info = BatchInfo(id="b1", kind="map", name="june", begun_s=1.0, updated_s=2.0, done=3)
    item = BatchItem(position=0, name="x", user_id="ada", at_s=1.5, error="E: no")
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("one", "other")]
    with opened(urls[0]) as store:
        store.commit([PutBatch(APP, info, [item])])
    with WholeStore(urls[0]).read() as rows, (tmp_path / "lines").open("wb") as file:
        assert write_lines(file, rows)["batch_items"] == 1
    assert b'"name":"june"' in (tmp_path / "lines").read_bytes().replace(b" ", b"")
    with (tmp_path / "lines").open("rb") as file:
        WholeStore(urls[1]).write(read_lines(file, "lines"))
    with opened(urls[1]) as store:
        assert (store.batches("app", limit=9), store.batch_items("app", "b1", after=-1, limit=9)) == ([info], [item])


@contextmanager
def opened(url: str) -> Iterator[SqlSessionStore]:
    """A store that is open within a block."""
    store = SqlSessionStore(url)
    store.open()
    try:
        yield store
    finally:
        store.close()
