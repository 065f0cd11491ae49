"""How much is measured."""

from __future__ import annotations

from typing import Literal

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of everything that is measured.

    Attributes:
        engine: the local one serves the smoke test; it has no floor to be compared with.
        histories: events that a session holds when its turns are measured.
        turns: turns measured one after the other, per history.
        concurrency: sessions at once.
        load: turns of one round of concurrent sessions, all sessions together.
        load_rounds: rounds, of which the median counts.
        iterations: of one loop.
        loops: loops measured one after the other.
        tasks: of one flow.
        flows: flows measured one after the other.
        nodes: of one graph.
        graphs: runs of each, one after the other.
        chunks: pieces of one streamed answer.
        streams: streamed answers.
        contents: length of the conversation in a model request.
        requests: model requests.
        starts: Runtimes started.
        agents: of a large tree.
        own_models: agents of a very large tree; in one like it each has a model object of its own.
        ray_starts: Runtimes started that have to start Ray as well.
        cold: agents that get their first message, one after the other.
        touched: agents that get messages, with few processes for them.
        losses: processes killed of each kind.
        opened: sessions in memory when some of them are killed.
        sessions: that talk at once to a model which takes its time.
        model_s: how long that is.
        pause_s: how long their users take at most before they answer.
        burst: conversations that begin in the same moment.
        burst_model_s: how long the model takes for each of their messages.
        backlog: turns that one user asks for at once while those of another one are measured.
        listed: sessions of an app of which pages are listed.
        pages: pages listed one after the other.
        summed: turns of a user whose usage is added up.
        depth: levels below the root.
        remembered: sessions that actors have in memory.
        peer_turns: turns measured of each peer, per history.
        peer_events: the longest history that peers are measured at.
        peer_load: turns of one round of concurrent sessions of a peer, all sessions together.
        stored: turns whose size on disk is measured.
        desks: of a tree whose agents are all in use again and again.
        topics: turns of that tree.
        topics_at_once: how many of those run side by side: an ordinary load, and one with many users.
        call_s: how long its model takes, and that of a map.
        inputs: of one map.
        inputs_at_once: its concurrency.
        followers: streams of one server at once.
        followed: sessions that they follow, each so many by turns.
        follow_s: how long.
        posts: turns a second meanwhile, over the same server.
        overload_s: how long more turns are asked for than a deployment bears.
        rest_s: how long processes are watched that have nothing to do.
    """

    engine: Literal["ray", "local"] = "ray"
    histories: tuple[int, ...] = (10, 100, 1_000, 4_000, 10_000)
    turns: int = 400
    concurrency: tuple[int, ...] = (1, 16, 64, 256)
    load: int = 768
    load_rounds: int = 3
    iterations: int = 100
    loops: int = 10
    tasks: int = 200
    flows: int = 5
    nodes: int = 1_000
    graphs: int = 5
    chunks: int = 2_000
    streams: int = 5
    contents: int = 2_000
    requests: int = 20
    starts: int = 3
    agents: int = 10_000
    own_models: int = 100_000
    ray_starts: int = 3
    cold: int = 30
    touched: int = 500
    losses: int = 5
    opened: int = 10_000
    sessions: tuple[int, ...] = (200, 1_000)
    model_s: float = 1.0
    pause_s: float = 4.0
    burst: int = 10_000
    burst_model_s: float = 10.0
    backlog: int = 5_000
    listed: int = 100_000
    pages: int = 40
    summed: int = 10_000
    depth: int = 30
    remembered: int = 500
    peer_turns: int = 20
    peer_events: int = 4_000
    peer_load: int = 256
    stored: int = 1_000
    desks: int = 16
    topics: int = 200
    topics_at_once: tuple[int, ...] = (20, 200)
    call_s: float = 0.05
    inputs: int = 10_000
    inputs_at_once: int = 500
    followers: int = 500
    followed: tuple[int, ...] = (500, 50, 10)
    follow_s: float = 10.0
    posts: float = 50.0
    overload_s: float = 20.0
    rest_s: float = 5.0

    @property
    def has_floor(self) -> bool:
        """True when figures can be compared with raw Ray."""
        return self.engine == "ray"


FULL = Plan()
QUICK = Plan(
    turns=100,
    concurrency=(1, 64),
    load=256,
    load_rounds=1,
    loops=3,
    flows=2,
    graphs=2,
    chunks=1_000,
    streams=3,
    requests=8,
    starts=1,
    ray_starts=1,
    agents=2_000,
    own_models=10_000,
    cold=5,
    touched=40,
    losses=2,
    opened=500,
    sessions=(200,),
    pause_s=2.0,
    burst=2_000,
    burst_model_s=1.0,
    backlog=500,
    listed=10_000,
    pages=20,
    depth=5,
    remembered=200,
    peer_turns=5,
    peer_events=1_000,
    peer_load=128,
    stored=100,
    topics=60,
    inputs=2_000,
    followed=(500,),
    follow_s=4.0,
    overload_s=8.0,
    rest_s=2.0,
)
TINY = Plan(
    engine="local",
    histories=(4, 8),
    turns=3,
    concurrency=(1, 2),
    load=4,
    load_rounds=1,
    iterations=5,
    loops=1,
    tasks=12,
    flows=1,
    nodes=20,
    graphs=1,
    chunks=20,
    streams=1,
    contents=10,
    requests=2,
    starts=1,
    agents=200,
    own_models=50,
    ray_starts=0,
    cold=2,
    touched=6,
    sessions=(2,),
    model_s=0.001,
    pause_s=0.001,
    burst=5,
    burst_model_s=0.001,
    backlog=5,
    listed=8,
    pages=2,
    summed=50,
    depth=3,
    remembered=2,
    desks=1,
    topics=2,
    topics_at_once=(2,),
    call_s=0.001,
    inputs=6,
    inputs_at_once=2,
    followers=4,
    followed=(2,),
    follow_s=0.1,
    overload_s=0.2,
    rest_s=0.1,
)
"""For the smoke test."""
