// Scales from values to positions, and their ticks.

/** A mapping of values to positions, and back. */
export interface Scale {
    at(value: number): number;
    value(at: number): number;
}

/** A linear scale from `low..high` to `from..to`. */
export function linear(low: number, high: number, from: number, to: number): Scale {
    const span = high - low || 1;
    return {
        at: (value) => from + ((value - low) / span) * (to - from),
        value: (at) => low + ((at - from) / (to - from || 1)) * span,
    };
}

/** A logarithmic scale from `low..high` to `from..to`; values below 1 count as 1. */
export function logarithmic(low: number, high: number, from: number, to: number): Scale {
    const inner = linear(ln(low), ln(high), from, to);
    return {
        at: (value) => inner.at(ln(value)),
        value: (at) => Math.exp(inner.value(at)),
    };
}

function ln(value: number): number {
    return Math.log(Math.max(value, 1));
}

/** Returns round values in `low..high`, at most about `most` of them. */
export function ticks(low: number, high: number, most: number): number[] {
    const step = roundStep((high - low) / Math.max(most, 1));
    if (!(step > 0)) {
        return [low];
    }
    const result = [];
    // Counted, not added up: the sum of many small steps is not round.
    for (let i = Math.ceil(low / step); i * step <= high; i += 1) {
        result.push(i * step);
    }
    return result;
}

/** Returns the least of 1, 2, 5, 10 … that is at least `step`. */
export function roundStep(step: number): number {
    if (!(step > 0) || !Number.isFinite(step)) {
        return 0;
    }
    const unit = 10 ** Math.floor(Math.log10(step));
    const factor = [1, 2, 5].find((f) => f * unit >= step * 0.999_999) ?? 10;
    return factor * unit;
}

/** Returns round values of a logarithmic scale: 1, 2, 5 per decade, or fewer if these are more than
 * `most`. Within a decade, they are those of a linear scale. */
export function logTicks(low: number, high: number, most: number): number[] {
    if (high < low * 10) {
        return ticks(low, high, most);
    }
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
        const found = decades(low, high, factors);
        if (found.length <= most) {
            return found;
        }
    }
    const all = decades(low, high, [1]);
    const each = Math.ceil(all.length / Math.max(most, 1));
    return all.filter((_, i) => i % each === 0);
}

function decades(low: number, high: number, factors: number[]): number[] {
    const result = [];
    for (let unit = 10 ** Math.floor(Math.log10(Math.max(low, 1))); unit <= high; unit *= 10) {
        result.push(...factors.map((f) => f * unit).filter((v) => v >= low && v <= high));
    }
    return result;
}

/** The position of a quantile on an axis on which each further nine has the same width. */
export function nines(quantile: number): number {
    return -Math.log10(Math.max(1 - quantile, 1e-9));
}
