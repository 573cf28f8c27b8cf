// Formatting of numbers, in the same way as the command does it in the terminal
// (crates/lagtrace/src/render/quantity.rs).

const DURATIONS: [string, number][] = [
    ["ns", 1],
    ["µs", 1e3],
    ["ms", 1e6],
];
const SIZES: [string, number][] = [
    ["B", 1],
    ["kB", 1e3],
    ["MB", 1e6],
];

/** Formats a duration with three significant digits: `43.6 ms`. */
export function duration(ns: number): string {
    // The next unit begins where three digits would round up to 1000.
    for (const [unit, size] of DURATIONS) {
        if (ns / size < 999.5) {
            return `${digits(ns / size, size > 1)} ${unit}`;
        }
    }
    const seconds = ns / 1e9;
    return seconds < 599.5 ? `${digits(seconds, true)} s` : minutes(seconds);
}

/** Formats a difference of durations with its sign. */
export function difference(ns: number): string {
    const sign = ns === 0 ? "±" : ns > 0 ? "+" : "−";
    return `${sign}${duration(Math.abs(ns))}`;
}

/** Formats a time after the beginning, to the microsecond: instants are not known better here. */
export function after(ns: number): string {
    return `${count(Math.floor(ns / 1e9))}.${String(Math.floor((ns % 1e9) / 1e3)).padStart(6, "0")} s`;
}

/** Formats an integer with commas: `2,283`. */
export function count(value: number): string {
    return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a number with its unit in the singular or the plural: `1 request`, `2 requests`. */
export function counted(value: number, singular: string, plural = `${singular}s`): string {
    return `${count(value)} ${value === 1 ? singular : plural}`;
}

/** Formats a share, 0 to 1: `71 %`, `4.2 %`. A tiny share is not rounded to 0 %, and one just below
 * 1 is not rounded to 100 %. */
export function share(value: number): string {
    const percent = value * 100;
    if (!Number.isFinite(percent)) {
        return "–";
    }
    if (percent <= 0) {
        return "0 %";
    }
    if (percent < 0.1) {
        return "<0.1 %";
    }
    if (percent < 10) {
        return `${fixed(percent, 1)} %`;
    }
    const isNearlyAll = percent >= 99.5 && percent < 100;
    return isNearlyAll ? `${fixed(Math.min(percent, 99.9), 1)} %` : `${fixed(percent, 0)} %`;
}

/** Formats a rate per second: `2,283/s`, `3.5/s`. */
export function rate(perSecond: number): string {
    if (!Number.isFinite(perSecond) || perSecond < 0) {
        return "–";
    }
    return perSecond < 99.95 ? `${fixed(perSecond, 1)}/s` : `${count(perSecond)}/s`;
}

/** Formats a number of bytes in decimal units. */
export function bytes(n: number): string {
    for (const [unit, size] of SIZES) {
        if (n / size < 999.5) {
            return `${digits(n / size, size > 1)} ${unit}`;
        }
    }
    return `${digits(n / 1e9, true)} GB`;
}

/** Three significant digits, at most two of them decimals. */
function digits(value: number, hasFraction: boolean): string {
    if (hasFraction && value < 9.995) {
        return fixed(value, 2);
    }
    return hasFraction && value < 99.95 ? fixed(value, 1) : fixed(value, 0);
}

function minutes(seconds: number): string {
    const whole = Math.round(seconds);
    return `${count(Math.floor(whole / 60))} min ${whole % 60} s`;
}

/** Formats with a fixed number of decimals. Ties go to the even digit, as in Rust; `toFixed` rounds
 * them up. */
function fixed(value: number, decimals: number): string {
    const text = value.toFixed(decimals);
    // A binary fraction is a tie exactly if it has one binary digit more than decimals.
    const isTie =
        Number.isInteger(value * 2 ** (decimals + 1)) && !Number.isInteger(value * 2 ** decimals);
    const isOdd = "13579".includes(text.slice(-1));
    return isTie && isOdd ? (Number(text) - 10 ** -decimals).toFixed(decimals) : text;
}
