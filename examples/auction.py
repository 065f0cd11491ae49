"""An auction by sealed bids: agents send each other messages that no other agent sees."""

from collections.abc import AsyncIterator

from raygrove import Content, CustomAgent, Event, InvocationContext, ParallelAgent, Runtime


def said(text: str) -> Event:
    return Event(content=Content.of_text(text, role="model"))


class Auctioneer(CustomAgent):
    """Shows each lot to all, opens the bids when all have come, and sells to the highest at the price of the second."""

    bidders: list[str]
    lots: list[str]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for lot in self.lots:
            for bidder in self.bidders:
                await context.send(bidder, lot)
            bids: dict[str, int] = {}
            while len(bids) < len(self.bidders):
                bid = await context.next_message()
                bids[bid.sender] = int(bid.text)
            winner, second, *_ = sorted(bids, key=lambda bidder: bids[bidder], reverse=True)
            for bidder in self.bidders:
                await context.send(bidder, f"{winner} {bids[second]}")
            yield said(f"{lot}: sold to {winner} for {bids[second]}")


class Bidder(CustomAgent):
    """Bids what a lot is worth to it, as long as it has the money."""

    worth: dict[str, int]
    money: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        # A field of the agent would be shared by all sessions.
        money, bought = self.money, list[str]()
        for _ in self.worth:
            lot = (await context.next_message()).text
            await context.send("auctioneer", str(min(self.worth[lot], money)))
            winner, price = (await context.next_message()).text.split()
            if winner == self.name:
                money -= int(price)
                bought.append(lot)
        yield said(f"I have {' and '.join(bought) or 'nothing'}, and {money} left")


bidders = [
    Bidder(name="ann", worth={"lamp": 40, "clock": 90}, money=100),
    Bidder(name="bob", worth={"lamp": 60, "clock": 80}, money=100),
    Bidder(name="cid", worth={"lamp": 55, "clock": 50}, money=100),
]
auctioneer = Auctioneer(name="auctioneer", bidders=[bidder.name for bidder in bidders], lots=["lamp", "clock"])


def main() -> None:
    house = ParallelAgent(name="house", sub_agents=[auctioneer, *bidders])
    with Runtime(house, app_name="auction", session_store="sqlite://") as rt:
        result = rt.run(user_id="ada", session_id="friday", message="Begin").result()
        # They end in any order.
        for event in sorted(result.events, key=lambda event: event.author):
            if event.text and event.author != "user":
                print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    main()
