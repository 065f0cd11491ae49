// Which branches of the tree are open, and how the address has it: `node --test`, a part of `make check`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openBranches, openText } from "../src/openbranches.js";

test("without a word in the address the root is open alone", () => {
  assert.deepEqual([...openBranches(undefined, "root")], ["root"]);
  assert.equal(openText(new Set(["root"]), "root"), undefined);
});

test("what is open comes back from the address, and that nothing is", () => {
  for (const open of [["root", "a", "b"], ["a"], []]) {
    const text = openText(new Set(open), "root");
    assert.deepEqual([...openBranches(text, "root")], open);
  }
});

test("of too many those that were opened first are left out, but not the root", () => {
  const names = Array.from({ length: 1000 }, (_, index) => `agent_${index}`);
  const kept = [...openBranches(openText(new Set(["root", ...names]), "root"), "root")];
  assert.ok(kept.join(",").length <= 4000);
  assert.deepEqual([kept[0], kept.at(-1)], ["root", "agent_999"]);
});
