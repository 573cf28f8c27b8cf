// The figures of a selected part of the exchanges.

import { bound, type Density, type Range, type Scatter } from "./density.ts";
import { OWNERS } from "./words.ts";

export interface Selection {
    count: number;
    /** Number of exchanges by the owner of most of their time, in the order of `OWNERS`. */
    owners: number[];
    /** False if the percentiles are those of cells: correct to a row. */
    isExact: boolean;
    /** Sorts the latencies, which takes long where there are many. */
    quantiles(): { p50: number; p99: number };
}

/** Sums up the exchanges that begin in `from..to` and have a latency in `low..high`. */
export function select(
    density: Density,
    scatter: Scatter | null,
    range: Range,
    service: number | null,
): Selection {
    return scatter ? ofPoints(scatter, range, service) : ofCells(density, range, service);
}

function ofPoints(points: Scatter, range: Range, service: number | null): Selection {
    const owners: number[] = OWNERS.map(() => 0);
    const found = new Float64Array(points.latency.length);
    let count = 0;
    for (let i = 0; i < found.length; i += 1) {
        const at = points.at[i] ?? 0;
        const latency = points.latency[i] ?? 0;
        const isIn =
            at >= range.from && at < range.to && latency >= range.low && latency < range.high;
        if (isIn && (service === null || points.service[i] === service)) {
            found[count] = latency;
            count += 1;
            const owner = points.owner[i] ?? 0;
            owners[owner] = (owners[owner] ?? 0) + 1;
        }
    }
    const quantiles = () => {
        const sorted = found.subarray(0, count).sort();
        const at = (q: number) => sorted[Math.max(Math.ceil(q * count) - 1, 0)] ?? 0;
        return { p50: at(0.5), p99: at(0.99) };
    };
    return { count, owners, isExact: true, quantiles };
}

function ofCells(density: Density, range: Range, service: number | null): Selection {
    const owners: number[] = OWNERS.map(() => 0);
    const rows = new Float64Array(density.rows.length);
    let count = 0;
    for (let i = 0; i < density.size; i += 1) {
        if (!isCellIn(density, i, range) || (service !== null && density.service[i] !== service)) {
            continue;
        }
        const n = density.count[i] ?? 0;
        const [row, owner] = [density.row[i] ?? 0, density.owner[i] ?? 0];
        count += n;
        rows[row] = (rows[row] ?? 0) + n;
        owners[owner] = (owners[owner] ?? 0) + n;
    }
    const at = (q: number) => quantile(density, rows, Math.ceil(q * count));
    return { count, owners, isExact: false, quantiles: () => ({ p50: at(0.5), p99: at(0.99) }) };
}

/** A cell is in a range if its middle is, so that neighbouring ranges count each cell once. */
function isCellIn(density: Density, i: number, range: Range): boolean {
    const at = ((density.column[i] ?? 0) + 0.5) * density.columnNs;
    const row = density.row[i] ?? 0;
    const latency = Math.sqrt(bound(density, row) * bound(density, row + 1));
    return at >= range.from && at < range.to && latency >= range.low && latency < range.high;
}

/** The middle of the row that holds the exchange of this rank. */
function quantile(density: Density, rows: Float64Array, rank: number): number {
    let seen = 0;
    for (let row = 0; row < rows.length; row += 1) {
        seen += rows[row] ?? 0;
        if (seen >= rank && seen > 0) {
            return Math.sqrt(bound(density, row) * bound(density, row + 1));
        }
    }
    return 0;
}
