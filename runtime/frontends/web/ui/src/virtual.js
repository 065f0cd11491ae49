/** A list of which only what is seen is in the document, however long it is. Rows may have any height: they are measured. */
import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges of what is seen. */
const MARGIN = 8;

/**
 * @template T
 * @typedef {{ rows: T[], keyOf: (row: T, index: number) => string, show: (row: T, index: number) => unknown, height: number,
 *   label: string, role?: string, rowRole?: string, at?: string, stick?: boolean, onTop?: () => void, onEnd?: () => void, class?: string,
 *   onKeyDown?: (event: KeyboardEvent) => void, active?: string }} ListProps
 * keyOf: names a row, also when others come before it; height: what is assumed of rows that were not measured, in pixels;
 * at: the key of the row to show first; stick: stay at the end when rows are added there; onTop, onEnd: the first rows, or the
 * last ones, are seen.
 */

/** @template T @param {ListProps<T>} props */
export function VirtualList(props) {
  const { rows, keyOf, show, height } = props;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const heights = useRef(/** @type {Map<string, number>} */ (new Map()));
  const isAtEnd = useRef(true);
  const placed = useRef(Number.NEGATIVE_INFINITY);
  const shown = useRef(/** @type {string | undefined} */ (undefined));
  const anchor = useRef(/** @type {{ key: string, top: number } | null} */ (null));
  const [, redraw] = useState(0);
  const observer = useRef(/** @type {ResizeObserver | null} */ (null));

  const keys = rows.map(keyOf);
  const tops = new Float64Array(rows.length + 1);
  for (let i = 0; i < rows.length; i++)
    tops[i + 1] = /** @type {number} */ (tops[i]) + (heights.current.get(/** @type {string} */ (keys[i])) ?? height);
  const total = tops[rows.length] ?? 0;

  /** The row at a place. @param {number} y */
  const rowAt = (y) => {
    let [low, high] = [0, Math.max(0, rows.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (/** @type {number} */ (tops[middle]) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  };

  const seen = box.current?.clientHeight || 800;
  const from = box.current?.scrollTop ?? 0;
  const wanted = props.at && props.at !== shown.current ? keys.indexOf(props.at) : -1;
  let top = from;
  const isSeen = wanted >= 0 && (tops[wanted] ?? 0) >= from && (tops[wanted + 1] ?? 0) <= from + seen;
  if (wanted >= 0 && !isSeen) top = Math.max(0, (tops[wanted] ?? 0) - seen / 3);
  else if (wanted < 0 && props.stick && isAtEnd.current) top = Math.max(0, total - seen);
  else if (wanted < 0 && anchor.current) {
    // By how much it has moved: a scroll that is under way goes on.
    const index = keys.indexOf(anchor.current.key);
    if (index >= 0) top = Math.max(0, from + (tops[index] ?? 0) - anchor.current.top);
  }
  const first = Math.max(0, rowAt(top) - MARGIN);
  const last = Math.min(rows.length, rowAt(top + seen) + 1 + MARGIN);

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    if (Math.abs(element.scrollTop - top) > 1) {
      element.scrollTop = top;
      placed.current = element.scrollTop;
    }
    if (wanted >= 0) {
      // Rows that come into view are measured, and then it is told where this one is.
      if (heights.current.has(/** @type {string} */ (keys[wanted]))) shown.current = props.at;
      isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    }
    keepAnchor(element);
    if (!props.at) shown.current = undefined;
    if (first === 0 && rows.length && element.scrollTop < seen) props.onTop?.();
    if (last === rows.length && rows.length) props.onEnd?.();
  });

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const resized = new ResizeObserver(() => redraw((number) => number + 1));
    resized.observe(element);
    const measured = new ResizeObserver((entries) => {
      let changed = false;
      for (const entry of entries) {
        const row = /** @type {HTMLElement} */ (entry.target);
        const key = row.dataset.key ?? "";
        if (row.isConnected && heights.current.get(key) !== row.offsetHeight) {
          heights.current.set(key, row.offsetHeight);
          changed = true;
        }
      }
      if (changed) redraw((number) => number + 1);
    });
    observer.current = measured;
    for (const row of element.querySelectorAll("[data-key]")) measured.observe(row);
    return () => {
      resized.disconnect();
      measured.disconnect();
    };
  }, []);

  /** What is at the top of the view stays there when rows come before it. @param {HTMLDivElement} element */
  function keepAnchor(element) {
    const index = rowAt(element.scrollTop);
    const key = keys[index];
    anchor.current = key === undefined ? null : { key, top: tops[index] ?? 0 };
  }

  const onScroll = () => {
    // The event of a move may come when another view has taken the list's place.
    const element = box.current;
    if (!element) return;
    // The event of a move of the list's own may come when its height is another one already: nobody has left its end by that.
    if (Math.abs(element.scrollTop - placed.current) > 1) {
      placed.current = Number.NEGATIVE_INFINITY;
      isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    }
    redraw((number) => number + 1);
  };

  /** @param {HTMLElement | null} element */
  const observe = (element) => {
    if (element) observer.current?.observe(element);
  };

  const visible = [];
  for (let i = first; i < last; i++) {
    const key = /** @type {string} */ (keys[i]);
    visible.push(
      html`<div key=${key} data-key=${key} ref=${observe} class="row" role=${props.rowRole} style=${{ top: `${tops[i]}px` }}>
        ${show(/** @type {T} */ (rows[i]), i)}
      </div>`,
    );
  }
  return html`<div class=${`virtual ${props.class ?? ""}`} ref=${box} onScroll=${onScroll} tabindex="0" role=${props.role ?? "list"}
    aria-label=${props.label} aria-activedescendant=${props.active} onKeyDown=${props.onKeyDown}>
    <div class="spacer" role="presentation" style=${{ height: `${total}px` }}>${visible}</div>
  </div>`;
}
