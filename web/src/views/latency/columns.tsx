// The table beside the picture of latency over time: the figures of equal parts of the time.

import { useMemo } from "preact/hooks";
import { type Density, whole } from "../../density.ts";
import { Twin } from "../../parts/table.tsx";
import { count, duration, share } from "../../quantity.ts";
import { select } from "../../selection.ts";
import { OWNERS } from "../../words.ts";

/** Number of parts of the time. */
const PARTS = 20;

export function ColumnTable({ density, service }: { density: Density; service: number | null }) {
    const rows = useMemo(() => rowsOf(density, service), [density, service]);
    const owner = density.hasOwners ? [{ head: "Owner of most of the time" }] : [];
    const columns = [
        { head: "Time after the start" },
        { head: "Number", isNumber: true },
        { head: "p50, about", isNumber: true },
        { head: "p99, about", isNumber: true },
        ...owner,
    ];
    return <Twin caption="Latency over time" columns={columns} rows={rows} />;
}

function rowsOf(density: Density, service: number | null): string[][] {
    const all = whole(density);
    const parts = Math.min(PARTS, density.columns);
    const width = all.to / parts;
    return Array.from({ length: parts }, (_, i) => {
        const range = { ...all, from: i * width, to: (i + 1) * width };
        const found = select(density, null, range, service);
        const figure = (ns: number) => (found.count > 0 ? duration(ns) : "–");
        const first = found.owners.indexOf(Math.max(...found.owners));
        const part = share((found.owners[first] ?? 0) / Math.max(found.count, 1));
        const owner = found.count > 0 ? `${OWNERS[first]} in ${part}` : "–";
        const time = `${duration(range.from)} to ${duration(range.to)}`;
        return [time, count(found.count), figure(found.p50), figure(found.p99), owner].slice(
            0,
            density.hasOwners ? 5 : 4,
        );
    });
}
