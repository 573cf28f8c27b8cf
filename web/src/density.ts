// Exchanges by time and latency, as they are drawn and selected.

import type { Points, Raster } from "./document/picture.ts";
import type { Cluster } from "./document/report.ts";
import type { Owner, PageDocument } from "./document.ts";
import { knownOwner, OWNERS } from "./words.ts";

/** Cells of exchanges. Times are nanoseconds after the beginning; owners are indices of `OWNERS`. */
export interface Density {
    columnNs: number;
    columns: number;
    /** Lower bounds of the rows, and the upper bound of the last one. */
    rows: number[];
    size: number;
    column: Uint32Array;
    row: Uint16Array;
    count: Float64Array;
    owner: Uint8Array;
    service: Uint8Array;
    /** False if only the latency is known, from our own timestamps. */
    hasOwners: boolean;
}

/** A selected part of the time and latency. */
export interface Range {
    from: number;
    to: number;
    low: number;
    high: number;
}

/** The range that leaves nothing out. */
export const EVERYTHING: Range = {
    from: Number.NEGATIVE_INFINITY,
    to: Number.POSITIVE_INFINITY,
    low: 0,
    high: Number.POSITIVE_INFINITY,
};

/** Returns the same part of the time, counted from a beginning that is earlier by this much. */
export function delayed(range: Range, by: number): Range {
    return { ...range, from: range.from + by, to: range.to + by };
}

/** Each exchange, where all are known. */
export interface Scatter {
    at: Float64Array;
    latency: Float64Array;
    owner: Uint8Array;
    service: Uint8Array;
}

/** Rows per doubling of the latency, for distributions that have no rows of their own. */
const ROWS_PER_DOUBLING = 8;
const SECOND_NS = 1e9;

/** Returns the cells of the document; null if it has neither a raster nor clusters. */
export function densityOf(document: PageDocument): Density | null {
    const raster = document.picture?.raster;
    if (raster && raster.cells.length > 0) {
        return fromRaster(raster);
    }
    const clusters = document.report?.details?.clusters ?? [];
    return clusters.some((cluster) => cluster.latency.length > 0) ? fromClusters(clusters) : null;
}

function empty(
    size: number,
): Pick<Density, "size" | "column" | "row" | "count" | "owner" | "service"> {
    return {
        size,
        column: new Uint32Array(size),
        row: new Uint16Array(size),
        count: new Float64Array(size),
        owner: new Uint8Array(size),
        service: new Uint8Array(size),
    };
}

function fromRaster(raster: Raster): Density {
    const cells = empty(raster.cells.length);
    raster.cells.forEach(([service, column, row, count, owner], i) => {
        cells.service[i] = service;
        cells.column[i] = column;
        cells.row[i] = row;
        cells.count[i] = count;
        cells.owner[i] = ownerIndex(owner);
    });
    const { column_ns: columnNs, columns, rows_ns: rows } = raster;
    return { ...cells, columnNs, columns, rows, hasOwners: true };
}

function fromClusters(clusters: Cluster[]): Density {
    const latencies = clusters.flatMap((cluster) => cluster.latency.map(([ns]) => ns));
    const [first, last] = extent(latencies);
    const [low, high] = [rowOf(first), rowOf(last)];
    const cells = empty(latencies.length);
    let i = 0;
    for (const cluster of clusters) {
        for (const [ns, count] of cluster.latency) {
            cells.column[i] = cluster.second;
            cells.row[i] = rowOf(ns) - low;
            cells.count[i] = count;
            cells.owner[i] = OWNERS.indexOf("unknown");
            i += 1;
        }
    }
    const rows = Array.from(
        { length: high - low + 2 },
        (_, k) => 2 ** ((low + k) / ROWS_PER_DOUBLING),
    );
    const columns = 1 + extent(clusters.map((cluster) => cluster.second))[1];
    return { ...cells, columnNs: SECOND_NS, columns, rows, hasOwners: false };
}

function rowOf(ns: number): number {
    return Math.floor(Math.log2(Math.max(ns, 1)) * ROWS_PER_DOUBLING);
}

/** The least and the greatest value. `Math.min(...values)` would overflow the stack. */
function extent(values: number[]): [number, number] {
    let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const value of values) {
        low = Math.min(low, value);
        high = Math.max(high, value);
    }
    return [low, high];
}

function ownerIndex(owner: Owner): number {
    return OWNERS.indexOf(knownOwner(owner));
}

/** Returns every exchange; null if the document has only cells. */
export function scatterOf(points: Points | null | undefined, raster: Raster): Scatter | null {
    if (!points) {
        return null;
    }
    const size = points.latency_ns.length;
    const owners = Uint8Array.from(points.owners.map(ownerIndex));
    const scatter = {
        at: new Float64Array(size),
        latency: Float64Array.from(points.latency_ns),
        owner: new Uint8Array(size),
        service: Uint8Array.from(points.service),
    };
    let at = points.start_ns - raster.start_ns;
    for (let i = 0; i < size; i += 1) {
        at += (points.after_us[i] ?? 0) * 1e3;
        scatter.at[i] = at;
        scatter.owner[i] = owners[points.owner[i] ?? 0] ?? 0;
    }
    return scatter;
}

/** The lower bound of a row, or the upper bound of the last one. */
export function bound(density: Density, row: number): number {
    return density.rows[Math.min(row, density.rows.length - 1)] ?? 1;
}

/** The whole time and latency that the cells cover. */
export function whole(density: Density): Range {
    return {
        from: 0,
        to: density.columns * density.columnNs,
        low: bound(density, 0),
        high: bound(density, density.rows.length - 1),
    };
}
