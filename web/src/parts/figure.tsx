// Figures of the document. Each carries the exact value of the document besides the shown text, so
// that a test can compare the two.

import type { Owner } from "../document.ts";
import { count, difference, duration, share } from "../quantity.ts";
import { visible } from "../visible.ts";
import { knownOwner, LETTERS } from "../words.ts";

/** A duration of the document. */
export function Ns({ of }: { of: number }) {
    return <span data-ns={of}>{duration(of)}</span>;
}

/** A duration that the document may lack. */
export function MaybeNs({ of }: { of: number | null | undefined }) {
    return of == null ? <>–</> : <Ns of={of} />;
}

/** Figures of a distribution, as a range shows them. */
export interface Spread {
    min: number;
    p50: number;
    p99: number;
    max: number;
}

/** Cells of durations of the document. */
export function cells(durations: number[]) {
    return durations.map((ns, i) => <Ns key={`${i} ns`} of={ns} />);
}

/** Cells of minimum, median, 99th percentile and maximum; dashes if nothing was measured. */
export function spread({ min, p50, p99, max }: Spread, isMeasured = true) {
    return isMeasured ? cells([min, p50, p99, max]) : ["–", "–", "–", "–"];
}

/** A difference of durations of the document. */
export function Difference({ of }: { of: number }) {
    return <span data-ns={of}>{difference(of)}</span>;
}

/** A number of the document. */
export function Count({ of }: { of: number }) {
    return <span data-value={of}>{count(of)}</span>;
}

/** A share of the document, 0 to 1. */
export function Share({ of }: { of: number }) {
    return <span data-value={of}>{share(of)}</span>;
}

/** A string from outside. */
export function Text({ of }: { of: string | null | undefined }) {
    return <bdi>{visible(of ?? "–")}</bdi>;
}

/** A sentence of the report: words between backticks are code. */
export function Prose({ of }: { of: string }) {
    const parts = visible(of).split(/`([^`]*)`/);
    return (
        <bdi>{parts.map((part, i) => (i % 2 === 1 ? <code key={part}>{part}</code> : part))}</bdi>
    );
}

/** An owner as its colour, letter and name. */
export function OwnerMark({ of }: { of: Owner }) {
    const owner = knownOwner(of);
    return (
        <span class="owner">
            <span class={`chip owner-${owner}`} aria-hidden="true">
                {LETTERS[owner]}
            </span>
            {owner}
        </span>
    );
}
