"""A blackboard: ten agents work side by side, post what they find to an eleventh, and read from it what all have found."""

from collections.abc import AsyncIterator

from raygrove import Content, CustomAgent, Event, InvocationContext, ParallelAgent, Runtime

CHAPTERS = [
    "the whale",
    "a sermon",
    "breakfast",
    "the ship",
    "a prophet",
    "the crew",
    "three boats",
    "a storm",
    "a coffin",
    "the end",
]


def said(text: str) -> Event:
    return Event(content=Content.of_text(text, role="model"))


class Board(CustomAgent):
    """Keeps what is posted, by its sender, and shows it to all when everyone has posted."""

    readers: list[str]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        posted: dict[str, int] = {}
        while len(posted) < len(self.readers):
            note = await context.next_message()
            posted[note.sender] = int(note.text)
        longest = max(sorted(posted), key=lambda reader: posted[reader])
        for reader in self.readers:
            await context.send(reader, f"{sum(posted.values())} letters, the longest read by {longest}")
        yield said(f"{len(posted)} have posted")


class Reader(CustomAgent):
    """Counts the letters of its chapter, posts the number, and reads what the board says."""

    chapter: str

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.send("board", str(len(self.chapter)))
        board = await context.next_message()
        yield said(f"{self.chapter!r} is {len(self.chapter)} of {board.text}")


readers = [Reader(name=f"reader{number}", chapter=chapter) for number, chapter in enumerate(CHAPTERS)]
room = ParallelAgent(name="room", sub_agents=[Board(name="board", readers=[reader.name for reader in readers]), *readers])


def main() -> None:
    with Runtime(room, app_name="blackboard", session_store="sqlite://") as rt:
        result = rt.run(user_id="ada", session_id="book", message="Read the book").result()
        # They end in any order.
        for event in sorted(result.events, key=lambda event: event.author):
            if event.text and event.author != "user":
                print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    main()
