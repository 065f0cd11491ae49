"""LangGraph: a graph of one node, compiled with `AsyncSqliteSaver`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel  # type: ignore[import-not-found,unused-ignore]
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage  # type: ignore[import-not-found,unused-ignore]
from langchain_core.outputs import ChatGeneration, ChatResult  # type: ignore[import-not-found,unused-ignore]
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # type: ignore[import-not-found,unused-ignore]
from langgraph.graph import START, MessagesState, StateGraph  # type: ignore[import-not-found,unused-ignore]

from tests.benchmarks.peers.peer import ANSWER, SAID, main


class InstantChat(BaseChatModel):  # type: ignore[misc,unused-ignore]
    """Answers at once."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(ANSWER))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class LangGraph:
    """The smallest graph that is an agent: a node that asks the model."""

    def __init__(self, saver: Any) -> None:
        model = InstantChat()

        async def agent(state: Any) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        self._graph = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent").compile(checkpointer=saver)

    async def turn(self, session: str) -> str:
        """A run of the graph."""
        state = await self._graph.ainvoke({"messages": [HumanMessage(SAID)]}, _thread(session))
        return str(state["messages"][-1].content)

    async def write_history(self, session: str, turns: int) -> None:
        """One update: a turn reads the newest checkpoint, which has all messages in it, and no older one."""
        said = [message for _ in range(turns) for message in (HumanMessage(SAID), AIMessage(ANSWER))]
        await self._graph.aupdate_state(_thread(session), {"messages": said}, as_node="agent")

    async def store_turns(self, session: str, turns: int) -> None:
        """Real turns: each leaves checkpoints that grow with the history."""
        for _ in range(turns):
            await self.turn(session)


def _thread(session: str) -> Any:
    return {"configurable": {"thread_id": session}}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[LangGraph]:
    """The graph with its checkpoints in a folder."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        yield LangGraph(saver)


if __name__ == "__main__":
    main("langgraph", opened)
