// Escaping of strings from outside, which could deceive a reader: the same characters as in the
// terminal (crates/lagtrace/src/render/escape.rs). Markup needs no escaping, because the page writes
// strings as text nodes only.

/** Maximum number of characters shown of a string. */
const LONGEST = 2_000;

/** Characters that are hidden, blank, or that reorder text. */
const UNSAFE =
    /[\p{Cc}\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Shows unsafe characters as escapes: `\u{202e}`. */
export function visible(text: string): string {
    const shown = text.length > LONGEST ? cut(text) : text;
    return shown.replace(UNSAFE, (c) => SHORT[c] ?? `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
}

function cut(text: string): string {
    const characters = [...text.slice(0, 2 * LONGEST + 2)];
    return characters.length > LONGEST ? `${characters.slice(0, LONGEST).join("")}…` : text;
}
