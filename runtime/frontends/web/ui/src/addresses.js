/** Every address that the page may ask, below /v1/. Requests to others are not sent: see `send`. */
export const ADDRESSES = [
  "GET me",
  "GET apps",
  "GET apps/{app}/agents",
  "GET apps/{app}/actors",
  "GET apps/{app}/statistics/recent",
  "GET apps/{app}/versions",
  "GET apps/{app}/usage",
  "GET apps/{app}/batches",
  "GET apps/{app}/batches/{batch}",
  "GET apps/{app}/pending",
  "GET apps/{app}/turns",
  "GET apps/{app}/sessions",
  "POST apps/{app}/sessions",
  "GET apps/{app}/sessions/{session}",
  "GET apps/{app}/sessions/{session}/events",
  "GET apps/{app}/sessions/{session}/background",
  "GET apps/{app}/sessions/{session}/artifacts",
  "GET apps/{app}/sessions/{session}/artifacts/{name}",
  "GET apps/{app}/sessions/{session}/turns",
  "POST apps/{app}/sessions/{session}/turns",
  "GET apps/{app}/sessions/{session}/turns/{turn}",
  "DELETE apps/{app}/sessions/{session}/turns/{turn}",
  "GET apps/{app}/sessions/{session}/turns/{turn}/boards",
  "GET apps/{app}/sessions/{session}/turns/{turn}/edges",
  "GET apps/{app}/sessions/{session}/turns/{turn}/log",
  "GET apps/{app}/sessions/{session}/turns/{turn}/reasons",
  "GET apps/{app}/sessions/{session}/turns/{turn}/requests",
  "GET apps/{app}/sessions/{session}/turns/{turn}/description",
  "POST apps/{app}/sessions/{session}/turns/{turn}/answers",
  "POST apps/{app}/sessions/{session}/turns/{turn}/retry",
  "POST apps/{app}/sessions/{session}/fork",
  "POST apps/{app}/sessions/{session}/rewind",
];

const KNOWN = ADDRESSES.map((each) => {
  const [method = "", template = ""] = each.split(" ");
  return { method, parts: template.split("/") };
});

/** True for a request that the page may send. @param {string} method @param {string[]} path parts, not encoded */
export const isKnown = (method, path) =>
  KNOWN.some(
    (each) =>
      each.method === method &&
      each.parts.length === path.length &&
      each.parts.every((part, index) => part.startsWith("{") || part === path[index]),
  );
