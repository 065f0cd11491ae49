/** Which branches of the tree are open, as the page's address has it: their agents' names; without any the root is open alone. */

/** In place of names, where not even the root is open. */
const NONE = ".";

/** More would be refused by servers between the browser and this one. */
const MOST_LETTERS = 4000;

/** @param {string | undefined} text of the address @param {string} root @returns {Set<string>} the open agents, those opened last at the end */
export function openBranches(text, root) {
  if (!text) return new Set([root]);
  return new Set(text === NONE ? [] : text.split(","));
}

/** What the address has: of too many those that were opened last. @param {Set<string>} open @param {string} root @returns {string | undefined} */
export function openText(open, root) {
  if (open.size === 1 && open.has(root)) return undefined;
  const names = [...open];
  while (names.length > 1 && names.join(",").length > MOST_LETTERS) names.splice(names[0] === root ? 1 : 0, 1);
  return names.join(",") || NONE;
}
