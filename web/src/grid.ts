// The cells merged into squares that are large enough to be seen.

import type { Density } from "./density.ts";
import { COLOURS, OWNERS } from "./words.ts";

/** Minimum width and height of a square in pixels: of few squares, each is larger, to be found. */
const LEAST_PX = 4;
const FEW_PX = 8;
const FEW = 200;
/** The opacity of a square with one exchange, if others have more. */
const LEAST_OPACITY = 0.35;

export interface Grid {
    /** Columns and rows of the document in one square. */
    across: number;
    down: number;
    width: number;
    height: number;
    /** The number of exchanges by square and owner. */
    counts: Float64Array;
}

/** Merges the cells of a service (of all of them if null) for a picture of this size. */
export function merge(density: Density, service: number | null, px: [number, number]): Grid {
    const rows = Math.max(density.rows.length - 1, 1);
    const least = density.size < FEW ? FEW_PX : LEAST_PX;
    const across = Math.ceil((least * density.columns) / Math.max(px[0], 1));
    const down = Math.ceil((least * rows) / Math.max(px[1], 1));
    const width = Math.ceil(density.columns / across);
    const height = Math.ceil(rows / down);
    const counts = new Float64Array(width * height * OWNERS.length);
    for (let i = 0; i < density.size; i += 1) {
        if (service !== null && density.service[i] !== service) {
            continue;
        }
        const x = Math.floor((density.column[i] ?? 0) / across);
        const y = Math.floor((density.row[i] ?? 0) / down);
        const square = (y * width + x) * OWNERS.length + (density.owner[i] ?? 0);
        counts[square] = (counts[square] ?? 0) + (density.count[i] ?? 0);
    }
    return { across, down, width, height, counts };
}

/** Paints the squares, greatest latency in the first row of pixels, into RGBA values. The colour is
 * that of the owner with the most exchanges, the opacity grows with the logarithm of their number. */
export function paint(grid: Grid): Uint8ClampedArray<ArrayBuffer> {
    const { width, height } = grid;
    const pixels = new Uint8ClampedArray(width * height * 4);
    const squares = Array.from({ length: width * height }, (_, square) => sum(grid, square));
    const most = squares.reduce((a, [total]) => Math.max(a, total), 1);
    squares.forEach(([total, owner], square) => {
        if (total === 0) {
            return;
        }
        const y = height - 1 - Math.floor(square / width);
        const colour = COLOURS[OWNERS[owner] ?? "unknown"];
        const weight = most > 1 ? Math.log(total) / Math.log(most) : 1;
        const opacity = LEAST_OPACITY + (1 - LEAST_OPACITY) * weight;
        pixels.set([...colour, Math.round(255 * opacity)], (y * width + (square % width)) * 4);
    });
    return pixels;
}

/** The number of exchanges in a square, and the owner with the most of them. */
function sum(grid: Grid, square: number): [number, number] {
    let [total, owner, most] = [0, 0, 0];
    for (let i = 0; i < OWNERS.length; i += 1) {
        const count = grid.counts[square * OWNERS.length + i] ?? 0;
        total += count;
        if (count > most) {
            [owner, most] = [i, count];
        }
    }
    return [total, owner];
}
