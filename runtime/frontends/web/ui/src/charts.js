/** A line over the last minutes, and its newest value. */
import { html } from "htm/preact";
import { pieces } from "./series.js";

const WIDTH = 220;
const HEIGHT = 44;

/** @param {{ label: string, times: number[], values: number[], digits?: number, unit?: string }} props times: of the values, in seconds, which may be fewer: the newest */
export function Chart({ label, times, values, digits = 0, unit = "" }) {
  const most = Math.max(1, ...values);
  const taken = times.slice(times.length - values.length);
  const first = taken[0] ?? 0;
  const span = Math.max(1, (taken.at(-1) ?? 0) - first);
  /** @param {number} index */
  const point = (index) => [
    (((taken[index] ?? first) - first) / span) * WIDTH,
    HEIGHT - 2 - ((values[index] ?? 0) / most) * (HEIGHT - 4),
  ];
  const lines = pieces(taken).map((piece) => {
    const points = piece.map(point);
    // What is known of one moment is a dash.
    const [x = 0, y = 0] = points[0] ?? [];
    return points.length > 1
      ? points
      : [
          [x, y],
          [values.length > 1 ? x + 2 : WIDTH, y],
        ];
  });
  const newest = (values.at(-1) ?? 0).toFixed(digits);
  return html`<figure class="chart"><figcaption>${label} <b>${newest}${unit}</b> <small>max ${Math.max(0, ...values).toFixed(digits)}${unit}</small></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${label}: ${newest}${unit} now, ${most.toFixed(digits)}${unit} at most`}>
      ${lines.map((points, index) => html`<polyline key=${index} points=${points.map((each) => each.map((number) => number.toFixed(1)).join(",")).join(" ")} />`)}</svg></figure>`;
}
