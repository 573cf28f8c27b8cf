// A selection in a plane of time and latency, made with the pointer or the keyboard.

import type { Range } from "../density.ts";
import type { Scale } from "../scale.ts";

/** Steps of the keyboard across the whole width or height. */
const STEPS = 40;

export interface Plane {
    x: Scale;
    y: Scale;
    left: number;
    right: number;
    top: number;
    bottom: number;
}

/** The range between two points of the plane, in pixels; null for a click. */
export function between(
    plane: Plane,
    one: [number, number],
    other: [number, number],
): Range | null {
    const isClick = Math.abs(one[0] - other[0]) < 4 && Math.abs(one[1] - other[1]) < 4;
    return isClick ? null : fromBox(plane, boxOf(one, other));
}

interface Box {
    x0: number;
    x1: number;
    y0: number;
    y1: number;
}

function boxOf([ax, ay]: [number, number], [bx, by]: [number, number]): Box {
    return {
        x0: Math.min(ax, bx),
        x1: Math.max(ax, bx),
        y0: Math.min(ay, by),
        y1: Math.max(ay, by),
    };
}

/** The box of a range, in pixels. */
export function toBox(plane: Plane, range: Range): Box {
    return boxOf(
        [plane.x.at(range.from), plane.y.at(range.high)],
        [plane.x.at(range.to), plane.y.at(range.low)],
    );
}

function fromBox(plane: Plane, box: Box): Range {
    const within = (v: number, low: number, high: number) => Math.min(Math.max(v, low), high);
    return {
        from: plane.x.value(within(box.x0, plane.left, plane.right)),
        to: plane.x.value(within(box.x1, plane.left, plane.right)),
        low: plane.y.value(within(box.y1, plane.top, plane.bottom)),
        high: plane.y.value(within(box.y0, plane.top, plane.bottom)),
    };
}

const ARROWS: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
};

/** The selection after a key: arrow keys move it, Shift with them changes its size, Escape removes
 * it. Undefined if the key means nothing here. */
export function onKey(
    plane: Plane,
    range: Range | null,
    key: string,
    isShift: boolean,
): Range | null | undefined {
    if (key === "Escape") {
        return range ? null : undefined;
    }
    const arrow = ARROWS[key];
    if (!arrow) {
        return undefined;
    }
    const box = range ? toBox(plane, range) : middle(plane);
    const dx = (arrow[0] * (plane.right - plane.left)) / STEPS;
    const dy = (arrow[1] * (plane.bottom - plane.top)) / STEPS;
    return fromBox(plane, isShift ? grown(box, dx, dy) : moved(plane, box, dx, dy));
}

/** Where the keyboard begins: the middle half of the time, all latencies. */
function middle(plane: Plane): Box {
    const quarter = (plane.right - plane.left) / 4;
    return { x0: plane.left + quarter, x1: plane.right - quarter, y0: plane.top, y1: plane.bottom };
}

function moved(plane: Plane, box: Box, dx: number, dy: number): Box {
    const x = Math.min(Math.max(dx, plane.left - box.x0), plane.right - box.x1);
    const y = Math.min(Math.max(dy, plane.top - box.y0), plane.bottom - box.y1);
    return { x0: box.x0 + x, x1: box.x1 + x, y0: box.y0 + y, y1: box.y1 + y };
}

/** Right and down move the right and the lower edge outwards, left and up move them back. */
function grown(box: Box, dx: number, dy: number): Box {
    return { ...box, x1: Math.max(box.x1 + dx, box.x0 + 4), y1: Math.max(box.y1 + dy, box.y0 + 4) };
}
