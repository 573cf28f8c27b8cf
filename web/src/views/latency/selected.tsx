// What is selected: number, percentiles and owners.

import { useMemo } from "preact/hooks";
import { type Density, EVERYTHING, type Range, type Scatter } from "../../density.ts";
import type { Exchanges } from "../../document/report.ts";
import { OwnerMark } from "../../parts/figure.tsx";
import { count, duration, share } from "../../quantity.ts";
import { type Selection, select } from "../../selection.ts";
import { OWNERS } from "../../words.ts";

interface Props {
    density: Density;
    /** Undefined until it is made. */
    scatter: Scatter | null | undefined;
    service: number | null;
    range: Range | null;
    /** The figures of the report, which are shown where all is selected. */
    overall: Exchanges | null;
    onRange(range: Range | null): void;
}

export function Selected({ density, scatter, service, range, overall, onRange }: Props) {
    const selection = useMemo(
        () => select(density, scatter ?? null, range ?? EVERYTHING, service),
        [density, scatter, range, service],
    );
    const isAll = range === null && service === null && overall?.count === selection.count;
    const { p50, p99 } = isAll ? overall.latency_ns : selection.quantiles();
    const about = isAll || selection.isExact ? "" : "about ";
    return (
        <div class="selected">
            <p aria-live="polite">
                <strong>{range ? words(range) : "All"}:</strong> {count(selection.count)}
                {density.hasOwners ? " exchanges" : " requests"}
                {selection.count > 0 &&
                    `, p50 ${about}${duration(p50)}, p99 ${about}${duration(p99)}`}
                .
                {density.hasOwners && scatter !== undefined && selection.count > 0 && (
                    <Owners selection={selection} />
                )}
            </p>
            {range && (
                <button type="button" onClick={() => onRange(null)}>
                    Remove the selection
                </button>
            )}
        </div>
    );
}

function words(range: Range): string {
    const time = `${duration(range.from)} to ${duration(range.to)} after the start`;
    return `${time}, latency ${duration(range.low)} to ${duration(range.high)}`;
}

function Owners({ selection }: { selection: Selection }) {
    const shares = OWNERS.map((owner, i) => ({ owner, of: selection.owners[i] ?? 0 }));
    const present = shares.filter(({ of }) => of > 0).sort((a, b) => b.of - a.of);
    return (
        <>
            {" Owner of most of the time: "}
            {present.map(({ owner, of }, i) => (
                <span key={owner}>
                    {i > 0 && ", "}
                    <OwnerMark of={owner} /> in {share(of / selection.count)}
                </span>
            ))}
            .
        </>
    );
}
