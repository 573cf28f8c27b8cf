// The table beside the picture of latency over time: the figures of equal parts of the time.

import { useCallback } from "preact/hooks";
import { type Density, whole } from "../../density.ts";
import { columns, Twin } from "../../parts/table.tsx";
import { count, duration, share } from "../../quantity.ts";
import { select } from "../../selection.ts";
import { OWNERS } from "../../words.ts";

/** Number of parts of the time. */
const PARTS = 20;

export function ColumnTable({ density, service }: { density: Density; service: number | null }) {
    const heads = columns(
        ["Time after the start"],
        ["Number", "p50, about", "p99, about"],
        density.hasOwners ? ["Owner of most of the time"] : [],
    );
    // Each row looks at all cells, and those of a closed table are not needed.
    const rows = useCallback(() => rowsOf(density, service), [density, service]);
    return <Twin caption="Latency over time" columns={heads} rows={rows} />;
}

function rowsOf(density: Density, service: number | null): string[][] {
    const all = whole(density);
    const parts = Math.min(PARTS, density.columns);
    const width = all.to / parts;
    return Array.from({ length: parts }, (_, i) => {
        const range = { ...all, from: i * width, to: (i + 1) * width };
        const found = select(density, null, range, service);
        const { p50, p99 } = found.quantiles();
        const figure = (ns: number) => (found.count > 0 ? duration(ns) : "–");
        const first = found.owners.indexOf(Math.max(...found.owners));
        const part = share((found.owners[first] ?? 0) / Math.max(found.count, 1));
        const owner = found.count > 0 ? `${OWNERS[first]} in ${part}` : "–";
        const time = `${duration(range.from)} to ${duration(range.to)}`;
        return [time, count(found.count), figure(p50), figure(p99), owner].slice(
            0,
            density.hasOwners ? 5 : 4,
        );
    });
}
