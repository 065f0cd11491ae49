"""An answer as it is being written, in an async program: pieces are delivered at once, only the whole is stored."""

import asyncio

from raygrove import LlmAgent, RunConfig, Runtime
from raygrove.testing import PatternModel

model = PatternModel([("", {"stream": ["Once upon a time ", "there was an actor ", "who lived when spoken to."]})])
narrator = LlmAgent(name="narrator", model=model, instruction="Tell a story.")


async def main() -> None:
    async with Runtime(narrator, app_name="streaming", session_store="sqlite://") as rt:
        config = RunConfig(streaming="sse")
        async for event in rt.run(user_id="ada", session_id="s1", message="A story, please", run_config=config):
            print(f"{'piece' if event.partial else 'whole'}: {event.text}")
        session = await rt.aio.sessions.get("ada", "s1")
        print(f"stored: {len(session.events) if session else 0} events")


if __name__ == "__main__":
    asyncio.run(main())
